"""A process is identified by its pid and its start time."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from herdbeat.platform import inherited_mark, wait_without_reaping
from herdbeat.runners.process.process_tree import (
    InheritedMark,
    ProcessIdentity,
    find_marked_processes,
    find_run_processes,
    is_alive,
    read_parent_pid,
    read_start_time,
    send_signal,
    terminate_processes,
)

IGNORES_TERM = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    environment = {"HERDBEAT_NODE": "0123.7.8", "HERDBEAT_RUN": "7f3k"}
    with subprocess.Popen(
        ["/bin/cat"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # Popen returns in the middle of exec, when the kernel does not show the new environment yet.
        process.stdin.write(b"there?")
        process.stdout.read(1)
        yield process
        process.kill()


def identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    start = read_start_time(process.pid)
    assert start is not None
    return ProcessIdentity(process.pid, start)


def test_a_process_is_identified_by_its_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    known = identity(sleeper)

    assert is_alive(known)
    assert not is_alive(known._replace(start=known.start - 5))
    assert read_parent_pid(sleeper.pid) == os.getpid()
    assert read_parent_pid(sleeper.pid) == os.getpid()


def test_an_ended_process_is_not_alive_even_before_it_is_reaped() -> None:
    process = subprocess.Popen(["/bin/true"])
    known = identity(process)

    wait_without_reaping(process.pid)

    assert not is_alive(known)
    process.wait()
    assert read_start_time(process.pid) is None


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_RTTIME"), reason="programs inherit no mark on this system")
def test_a_program_that_a_function_started_in_the_session_of_the_node_is_of_no_run() -> None:
    node = f"0123456789abcdef.{os.getpid()}.{read_start_time(os.getpid())}"
    with inherited_mark(InheritedMark.build(node, "7f3k").to_number()):  # as if at the very moment of a start
        own = subprocess.Popen(["/bin/sleep", "600"])
        daemon = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env={})

    found = find_run_processes(node, {"7f3k": None})
    of_other_run = find_run_processes(node, {"7f3j": None})

    assert ([each.pid for each in found], of_other_run) == ([daemon.pid], [])
    for process in (own, daemon):
        process.kill()
        process.wait()


def test_a_process_that_reuses_a_pid_gets_no_signal(sleeper: subprocess.Popen[bytes]) -> None:
    earlier = identity(sleeper)._replace(start=1)

    send_signal(earlier, signal.SIGKILL)
    send_signal(earlier, signal.SIGKILL, os.killpg)
    count = terminate_processes([earlier], 0)

    assert count == 0
    assert is_alive(identity(sleeper))


def test_marks_are_found_by_the_beginning_of_the_nodes_name(sleeper: subprocess.Popen[bytes]) -> None:
    found = [each for each in find_marked_processes("0123") if each.process.pid == sleeper.pid]

    assert [(each.process, each.node, each.run) for each in found] == [(identity(sleeper), "0123.7.8", "7f3k")]
    assert not [each for each in find_marked_processes("3.7.8") if each.process.pid == sleeper.pid]


def test_a_process_that_obeys_term_is_not_killed(sleeper: subprocess.Popen[bytes]) -> None:
    count = terminate_processes([identity(sleeper)], 10)

    assert (count, sleeper.wait()) == (1, -signal.SIGTERM)


def test_a_process_that_ignores_term_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", IGNORES_TERM], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        terminate_processes([identity(process)], 0.1)

        assert process.wait() == -signal.SIGKILL
