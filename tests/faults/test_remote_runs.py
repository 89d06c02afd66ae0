"""Runs on an engine, from the outside: real nodes, real servers, real `herdbeat exec`; only the engine is ours."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fake_ray import fake_ray
from tests.support.remote_fleet import DEADLINE_S, SECRET_PROMPT, FakeRayFleet, is_program_running, wait_for

from herdbeat.bootstrap.remote_exec import EXIT_REFUSED

pytestmark = pytest.mark.timeout(6 * DEADLINE_S)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FakeRayFleet]:
    with fake_ray() as ray:
        yield FakeRayFleet(tmp_path, ray)


def test_a_run_on_an_engine_is_recorded_like_a_local_one_and_the_engine_learns_no_secret(fleet: FakeRayFleet) -> None:
    fleet.release.touch()
    with fleet.up():
        fleet.create_token()
        fleet.start_run()
        ended = fleet.wait_status("succeeded", "failed", "interrupted")
        assert (ended["status"], ended["code"]) == ("succeeded", 0), ended
        log = fleet.log()
    assert "done" in log
    assert "runs on ray" in log
    assert "begun with []" in log, "no token is in the environment of the program"
    assert len(fleet.starts()) == 1
    (job,) = fleet.ray.jobs.values()
    known = json.dumps(job.request)
    assert SECRET_PROMPT not in known
    assert fleet.token_file.read_text() not in known


def test_a_job_that_the_engine_starts_three_times_runs_once(fleet: FakeRayFleet) -> None:
    fleet.ray.copies = 3
    with fleet.up():
        fleet.create_token()
        job = fleet.begin_job()
        wait_for(lambda: [each.poll() for each in job.processes].count(EXIT_REFUSED) == 2)
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_status_says_where_a_run_is(fleet: FakeRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        job = fleet.begin_job()
        (running,) = fleet.ask("/status")["running"]
        screen = fleet.call("status")
        fleet.release.touch()
        fleet.wait_status("succeeded", "interrupted")
    assert running["executor"]["kind"] == "ray"
    assert running["executor"]["job"] == job.name
    assert running["executor"]["place"]
    assert f"on ray, {running['executor']['place']}" in screen


def test_a_cancelled_run_ends_on_the_engine_too(fleet: FakeRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        job = fleet.begin_job()
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {})
        assert fleet.wait_status("cancelled")
        wait_for(lambda: all(each.poll() is not None for each in job.processes))
        wait_for(lambda: not is_program_running(fleet))
    assert len(fleet.starts()) == 1


STUBBORN = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open({started!r}, "a") as file:
    file.write(os.environ["HERDBEAT_RUN"] + "\\n")
print("begun", flush=True)
time.sleep(600)
"""


def test_a_forced_cancel_recorded_the_end_of_a_run_while_its_program_ran_on(fleet: FakeRayFleet) -> None:
    (fleet.folder / "program.py").write_text(STUBBORN.format(started=str(fleet.started)))
    with fleet.up():
        fleet.create_token()
        fleet.begin()
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {"force": True})
        assert fleet.wait_status("cancelled")
        assert not is_program_running(fleet), "the next beat may start now"


def test_a_run_that_a_lost_submission_had_started_was_recorded_as_cancelled_while_it_ran(fleet: FakeRayFleet) -> None:
    (fleet.folder / "program.py").write_text(STUBBORN.format(started=str(fleet.started)))
    with fleet.up():
        fleet.create_token()
        fleet.ray.cuts = 1
        fleet.start_run()
        wait_for(lambda: fleet.ray.submits == 1)
        fleet.ray.is_away = True
        wait_for(lambda: bool(fleet.starts()))
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {})
        assert fleet.wait_status("cancelled")
        assert not is_program_running(fleet), "the next beat may start now"


def test_the_page_of_a_proxy_was_taken_for_the_answer_of_the_engine(fleet: FakeRayFleet) -> None:
    fleet.ray.proxy = 200
    fleet.release.touch()
    with fleet.up():
        fleet.create_token()
        fleet.start_run()
        wait_for(lambda: fleet.ray.submits >= 2)
        fleet.ray.proxy = 0
        assert fleet.wait_status("succeeded", "interrupted", "failed")["status"] == "succeeded"
        fleet.ray.proxy = 302
        fleet.start_run()
        assert "HTTP 302" in fleet.wait_status("interrupted", "failed")["error"]
    assert len(fleet.starts()) == 1


def test_a_run_outlives_its_killed_node_and_the_next_node_records_its_end(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
        wait_for(lambda: not fleet.is_ready())  # the server ends a moment after its node
    with fleet.up():
        assert fleet.newest()["status"] == "running"
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_an_orderly_stop_leaves_the_run_alone(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        node.send_signal(signal.SIGTERM)
        assert node.wait(DEADLINE_S) == 0
    fleet.release.touch()
    with fleet.up():
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_a_stop_waited_for_a_run_that_was_taken_after_it_had_begun(fleet: FakeRayFleet) -> None:
    fleet.lease, fleet.ray.full = "60s", True
    with fleet.up() as node:
        fleet.create_token()
        fleet.start_run()
        wait_for(lambda: bool(fleet.ray.jobs))
        argv = [sys.executable, "-m", "herdbeat", "down", "--timeout", "10m"]
        with subprocess.Popen(argv, cwd=fleet.folder, stderr=subprocess.PIPE, text=True) as down:
            assert down.stderr is not None
            assert "waiting for 1 active run" in down.stderr.readline()
            fleet.ray.start_all()
            assert "1 run continues elsewhere" in down.stderr.read()
        assert node.wait(DEADLINE_S) == 0
    fleet.release.touch()
    with fleet.up():
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_down_called_a_run_interrupted_that_goes_on_at_its_engine(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        said = fleet.call("down")
        assert node.wait(DEADLINE_S) == 0
    assert "1 run continues elsewhere, and the next start follows: embed" in said
    assert "interrupted" not in said
    assert "waiting for" not in said
    fleet.release.touch()
    with fleet.up():
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_a_killed_exec_takes_its_program_with_it_and_its_run_is_interrupted(fleet: FakeRayFleet) -> None:
    fleet.lease = "10s"
    with fleet.up():
        fleet.create_token()
        job = fleet.begin_job()
        fleet.ray.kill(job.name)
        ended = fleet.wait_status("interrupted")
        assert "was lost" in ended["error"]
    wait_for(lambda: not is_program_running(fleet))
    assert len(fleet.starts()) == 1


def test_an_engine_without_room_is_given_up_and_what_it_starts_too_late_is_refused(fleet: FakeRayFleet) -> None:
    fleet.ray.full, fleet.start_timeout = True, "2s"
    with fleet.up():
        fleet.create_token()
        fleet.start_run()
        assert "start_timeout" in fleet.wait_status("interrupted")["error"]
        (job,) = fleet.ray.jobs.values()
        fleet.ray.start(job)
        wait_for(lambda: job.processes[0].poll() is not None)
        assert job.processes[0].returncode == EXIT_REFUSED
    assert fleet.starts() == []


def test_a_job_that_the_engine_has_lost_is_noticed(fleet: FakeRayFleet) -> None:
    fleet.ray.loses = True
    with fleet.up():
        fleet.start_run()
        assert "no longer knows the job" in fleet.wait_status("interrupted")["error"]
    assert fleet.starts() == []


def test_the_token_of_an_administrator_takes_no_run(fleet: FakeRayFleet) -> None:
    with fleet.up():
        fleet.create_token("admin")
        fleet.start_run()
        wait_for(lambda: any(each.processes for each in fleet.ray.jobs.values()))
        (job,) = fleet.ray.jobs.values()
        wait_for(lambda: job.processes[0].poll() is not None)
        assert job.processes[0].returncode == EXIT_REFUSED
        assert "exit code" in fleet.wait_status("interrupted")["error"]
    assert fleet.starts() == []


def kill_node(fleet: FakeRayFleet, node: "subprocess.Popen[bytes]") -> None:
    os.kill(node.pid, signal.SIGKILL)
    node.wait()
    wait_for(lambda: not fleet.is_ready())  # the server ends a moment after its node


def test_a_cancel_that_its_node_did_not_live_to_carry_out_is_carried_out_by_the_next_one(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        job = fleet.begin_job()
        fleet.ray.kill(job.name, signal.SIGSTOP)  # it hears of nothing meanwhile
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {"reason": "not today"})
        kill_node(fleet, node)
    with fleet.up():
        fleet.ray.kill(job.name, signal.SIGCONT)
        ended = fleet.wait_status("cancelled", "interrupted", "succeeded")
        assert ended["status"] == "cancelled", ended
        assert "not today" in ended["error"]
        wait_for(lambda: not is_program_running(fleet))
    assert len(fleet.starts()) == 1


def test_a_run_is_cancelled_while_no_node_lives(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        kill_node(fleet, node)
    assert "was asked to stop" in fleet.call("cancel", "embed")
    with fleet.up():
        assert fleet.wait_status("cancelled", "interrupted", "succeeded")["status"] == "cancelled"
        wait_for(lambda: not is_program_running(fleet))


def test_a_run_that_reached_its_timeout_while_no_node_lived_has_timed_out(fleet: FakeRayFleet) -> None:
    fleet.lease, fleet.timeout = "60s", "5s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        kill_node(fleet, node)
    wait_for(lambda: not is_program_running(fleet))
    with fleet.up():
        assert fleet.wait_status("timed_out", "interrupted", "failed")["status"] == "timed_out"
    assert len(fleet.starts()) == 1


def test_a_run_whose_submission_was_not_answered_is_followed_while_the_engine_is_away(fleet: FakeRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        fleet.ray.cuts = 1
        fleet.start_run()
        wait_for(lambda: fleet.ray.submits == 1)
        fleet.ray.is_away = True
        wait_for(lambda: bool(fleet.starts()))
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted", "failed")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_a_run_whose_submission_was_not_answered_by_an_engine_that_forgets_it_runs_once(fleet: FakeRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        fleet.ray.cuts = 1
        fleet.start_run()
        wait_for(lambda: bool(fleet.ray.jobs))
        fleet.ray.forget_jobs()
        wait_for(lambda: bool(fleet.starts()))
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted", "failed")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_the_program_of_an_exec_that_stands_still_ends_with_its_lease(fleet: FakeRayFleet) -> None:
    fleet.lease = "10s"
    with fleet.up():
        fleet.create_token()
        job = fleet.begin_job()
        fleet.ray.is_away = True
        fleet.ray.kill(job.name, signal.SIGSTOP)
        wait_for(lambda: not is_program_running(fleet))
        assert "was lost" in fleet.wait_status("interrupted", "failed")["error"]
        fleet.ray.kill(job.name, signal.SIGCONT)
        wait_for(lambda: job.processes[0].poll() is not None)
        assert job.processes[0].returncode == EXIT_REFUSED
        assert fleet.newest()["status"] == "interrupted"
    assert len(fleet.starts()) == 1


def test_a_program_whose_exec_reaches_no_server_ends_with_its_lease(fleet: FakeRayFleet) -> None:
    fleet.lease = "10s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        kill_node(fleet, node)
        wait_for(lambda: not is_program_running(fleet))
    with fleet.up():
        ended = fleet.wait_status("interrupted", "failed", "succeeded")
        assert ended["status"] == "interrupted", ended
    assert len(fleet.starts()) == 1


def test_a_run_goes_on_where_the_executors_are_removed_from_the_file(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        kill_node(fleet, node)
    fleet.has_engine = False
    with fleet.up():
        assert fleet.newest()["status"] == "running"
        screen, doctor = fleet.call("status"), fleet.call("doctor")
        shown = fleet.call("show", str(fleet.newest()["id"]))
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
        assert "done" in fleet.log()
    assert "executors.ray is not configured" in screen
    assert "executors.ray" in doctor
    assert "executors.ray is not configured" in shown
    assert len(fleet.starts()) == 1


def test_a_run_is_cancelled_where_the_executors_are_removed_from_the_file(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.create_token()
        fleet.begin()
        kill_node(fleet, node)
    fleet.has_engine = False
    with fleet.up():
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {})
        assert fleet.wait_status("cancelled", "interrupted")["status"] == "cancelled"
        wait_for(lambda: not is_program_running(fleet))


PRINTER = """\
import os, sys, time
for number in range(400):
    odd = ("", "\u2028", "\x85", "\u00e9" * 50)[number % 4]
    sys.stdout.buffer.write(f"line {{number}}{{odd}}\\n".encode())
    sys.stdout.flush()
    if number == 200:
        sys.stdout.buffer.write(b"\\xff\\xfe" + b"z" * 3_000_000 + b"\\n")
        open({started!r}, "a").write("half\\n")
        while not os.path.exists({release!r}):
            time.sleep(0.05)
sys.stdout.write("the last words, without an end of line")
"""


def test_every_line_is_in_the_log_once_although_nodes_die_while_they_are_printed(fleet: FakeRayFleet) -> None:
    fleet.lease = "60s"
    program = PRINTER.format(started=str(fleet.started), release=str(fleet.release))
    (fleet.folder / "program.py").write_text(program)
    with fleet.up() as node:
        fleet.create_token()
        fleet.start_run()
        wait_for(lambda: bool(fleet.starts()))
        wait_for(lambda: "line 0" in fleet.log())
        kill_node(fleet, node)
    fleet.release.touch()
    with fleet.up():
        assert fleet.wait_status("succeeded", "interrupted", "failed")["status"] == "succeeded"
        log = fleet.log()
    assert [int(number) for number in re.findall(r"line (\d+)", log)] == list(range(400))
    assert log.count("z" * 1000) == 3000
    assert "the last words, without an end of line" in log
    assert "could not be read" not in log
