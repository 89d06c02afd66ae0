"""What the guardian makes of what it hears, without its process."""

import subprocess
from collections.abc import Iterator

import pytest

from herdbeat.runners.process.procfs import ProcessIdentity, is_alive, read_start_time, uptime
from herdbeat.runners.process.reaper_main import WatchedRuns

NODE = "fedcba9876543210.1.1"


@pytest.fixture
def child() -> Iterator[ProcessIdentity]:
    environment = {"HERDBEAT_NODE": NODE, "HERDBEAT_RUN": "0007"}
    process = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env=environment)
    yield ProcessIdentity(process.pid, read_start_time(process.pid) or 0)
    process.kill()
    process.wait()


def heard(words: str) -> WatchedRuns:
    """All of it, cut in the middle of a word as a pipe may."""
    watch = WatchedRuns(NODE)
    middle = len(words) // 2
    watch.feed(words[:middle].encode())
    watch.feed(words[middle:].encode())
    return watch


def test_a_watched_group_is_ended(child: ProcessIdentity) -> None:
    heard(f"expect 0008\nwatch 0008 {child.pid} {child.start}\n").terminate_all()

    assert not is_alive(child)


def test_a_number_that_was_used_again_is_never_hit(child: ProcessIdentity) -> None:
    heard(f"expect 0008\nwatch 0008 {child.pid} {child.start - 1}\n").terminate_all()

    assert is_alive(child)


def test_a_child_that_was_expected_but_not_yet_announced_is_found_by_its_mark(child: ProcessIdentity) -> None:
    heard("expect 0007\n").terminate_all()

    assert not is_alive(child)


def test_what_a_finished_run_has_left_behind_is_left_in_peace(child: ProcessIdentity) -> None:
    heard(f"expect 0007\nwatch 0007 {child.pid} {child.start}\nforget 0007\n").terminate_all()

    assert is_alive(child)


def test_a_lease_lapses_unless_it_is_renewed() -> None:
    assert heard("expect 0007\n").poll_timeout_ms() is None
    assert heard("lease 0\nexpect 0007\n").has_lease_expired()
    assert not heard(f"lease 0\nexpect 0007\nlease {uptime() + 3600}\n").has_lease_expired()


def test_what_is_started_after_the_lease_has_lapsed_is_ended_too(child: ProcessIdentity) -> None:
    watch = heard("lease 0\nexpect 0008\n")
    watch.terminate_all()
    is_waiting = not watch.has_lease_expired()

    watch.feed(f"watch 0008 {child.pid} {child.start}\n".encode())

    assert is_waiting
    assert watch.has_lease_expired()


def test_patience_ends_with_the_lease() -> None:
    patience = heard(f"lease {uptime() + 3600}\nexpect 0007\n").poll_timeout_ms()

    assert patience is not None
    assert 3_590_000 < patience <= 3_600_001
