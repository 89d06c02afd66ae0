"""How the reaper applies the lines it receives, tested without its process."""

import subprocess
from collections.abc import Iterator
from itertools import count

import pytest

from herdbeat.platform import boot_time, iter_environments
from herdbeat.runners.process.process_tree import ProcessIdentity, is_alive, read_start_time
from herdbeat.runners.process.reaper_main import WatchedRuns

NODE = "fedcba9876543210.1.1"


@pytest.fixture
def child() -> Iterator[ProcessIdentity]:
    environment = {"HERDBEAT_NODE": NODE, "HERDBEAT_RUN": "0007"}
    process = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env=environment)
    yield ProcessIdentity(process.pid, read_start_time(process.pid) or 0)
    process.kill()
    process.wait()


def watched_runs(lines: str) -> WatchedRuns:
    """Return the state after these lines, delivered in two pieces that are cut in the middle, as a pipe may."""
    watched = WatchedRuns(NODE)
    middle = len(lines) // 2
    watched.feed(lines[:middle].encode())
    watched.feed(lines[middle:].encode())
    return watched


def test_a_watched_group_is_ended(child: ProcessIdentity) -> None:
    watched_runs(f"expect 0008\nwatch 0008 {child.pid} {child.start}\n").terminate_all()

    assert not is_alive(child)


def test_a_process_that_reuses_the_pid_is_not_signalled(child: ProcessIdentity) -> None:
    watched_runs(f"expect 0008\nwatch 0008 {child.pid} {child.start - 5}\n").terminate_all()

    assert is_alive(child)


def test_a_child_that_was_expected_but_not_yet_announced_is_found_by_its_mark(child: ProcessIdentity) -> None:
    watched_runs("expect 0007\n").terminate_all()

    assert not is_alive(child)


def test_a_child_whose_environment_is_not_visible_yet_is_waited_for(
    child: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    # exec closes the pipe to the reaper before the kernel shows the new environment: seen on a loaded machine.
    looks = count()
    monkeypatch.setattr(
        "herdbeat.runners.process.process_tree.iter_environments",
        lambda: iter_environments() if next(looks) >= 4 else iter(()),
    )

    watched_runs("expect 0007\n").terminate_all()

    assert not is_alive(child)


def test_a_process_that_loses_its_mark_while_it_exits_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # An exiting process has no environment any more, but is not a zombie yet: it was taken for ended.
    script = 'trap "sleep 0.2; exit" TERM; echo ready; while :; do sleep 0.02; done'
    process = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    stray = ProcessIdentity(process.pid, read_start_time(process.pid) or 0)
    looks = iter([[(stray.pid, f"HERDBEAT_NODE={NODE}\0HERDBEAT_RUN=0007\0".encode())]] * 2)
    monkeypatch.setattr("herdbeat.runners.process.process_tree.iter_environments", lambda: next(looks, []))

    watched_runs("expect 0007\n").terminate_all()
    is_stray_alive = is_alive(stray)
    process.kill()
    process.communicate()

    assert not is_stray_alive


def test_processes_that_a_finished_run_left_behind_are_not_ended(child: ProcessIdentity) -> None:
    watched_runs(f"expect 0007\nwatch 0007 {child.pid} {child.start}\nforget 0007\n").terminate_all()

    assert is_alive(child)


def test_a_lease_lapses_unless_it_is_renewed() -> None:
    assert watched_runs("expect 0007\n").poll_timeout_ms() is None
    assert watched_runs("lease 0\nexpect 0007\n").has_lease_expired()
    assert not watched_runs(f"lease 0\nexpect 0007\nlease {boot_time() + 3600}\n").has_lease_expired()


def test_a_run_started_after_the_lease_has_lapsed_is_ended_too(child: ProcessIdentity) -> None:
    watched = watched_runs("lease 0\nexpect 0008\n")
    watched.terminate_all()
    is_waiting = not watched.has_lease_expired()

    watched.feed(f"watch 0008 {child.pid} {child.start}\n".encode())

    assert is_waiting
    assert watched.has_lease_expired()


def test_the_poll_timeout_ends_with_the_lease() -> None:
    timeout = watched_runs(f"lease {boot_time() + 3600}\nexpect 0007\n").poll_timeout_ms()

    assert timeout is not None
    assert 3_590_000 < timeout <= 3_600_001
