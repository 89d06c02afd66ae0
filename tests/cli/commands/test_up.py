"""`up`, `run` and `down` as real processes: what a user does in two terminals."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from herdbeat.store.state_lock import find_lock_holder

FLEET = """\
version: 1
fleet: { name: my-fleet }
timezone: UTC
commands:
  - { name: quick, command: [echo, hello], type: manual }
  - { name: broken, command: ["false"], type: manual }
  - { name: endless, command: [sleep, "600"], type: manual }
  - { name: yearly, command: [echo, hello], cron: "0 0 1 1 *" }
"""
PROCESS_TIMEOUT = 60
"""Seconds after which a process that should act at once counts as broken."""


class UpFleet:
    """A folder with a fleet, and `herdbeat` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_dir = folder / ".herdbeat"
        (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), cwd=self.folder, capture_output=True, text=True, timeout=PROCESS_TIMEOUT, check=False
        )

    def answer(self, *words: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.call(*words, "--json").stdout)
        return found

    @contextmanager
    def up(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start `up`, and yield the process after `node_ready`."""
        with subprocess.Popen(
            self.argv("up", "--json", *words),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                read_until(process, "node_ready")
                yield process
            finally:
                process.kill()

    @staticmethod
    def argv(*words: str) -> list[str]:
        return [sys.executable, "-m", "herdbeat", *words]


@pytest.fixture
def fleet(tmp_path: Path) -> UpFleet:
    return UpFleet(tmp_path)


def read_until(process: subprocess.Popen[str], event: str) -> dict[str, object]:
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, object] = json.loads(line)
        if found["event"] == event:
            return found
    assert process.stderr is not None
    raise AssertionError(f"it ended without {event}: {process.stderr.read()}")


def test_a_manual_run_prints_its_output_and_its_result(fleet: UpFleet) -> None:
    with fleet.up():
        ran, failed = fleet.call("run", "quick", "--wait"), fleet.call("run", "broken", "--wait")

    assert ran.returncode == 0, ran.stderr
    assert "manual by" in ran.stdout
    assert "  hello\n✓ ok in" in ran.stdout
    assert failed.returncode == 5
    assert "✗ failed in" in failed.stdout


def test_a_reader_that_stops_reading_stops_neither_the_runs_nor_the_end(fleet: UpFleet) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 512)
    os.set_blocking(writer, True)
    with subprocess.Popen(fleet.argv("up"), cwd=fleet.folder, stdout=writer, stderr=writer) as process:
        os.close(writer)
        try:
            while process.poll() is None and fleet.call("run", "quick", "--wait").returncode != 0:
                pass  # it is not ready yet
            ran = fleet.call("run", "quick", "--wait")
            stopped = fleet.call("down")
            status = process.wait(PROCESS_TIMEOUT)
        finally:
            process.kill()
    os.close(reader)

    assert "  hello\n✓ ok in" in ran.stdout
    assert (stopped.returncode, status) == (0, 0)


def test_at_capacity_a_manual_run_is_refused_and_down_force_kills_runs(fleet: UpFleet) -> None:
    with fleet.up() as process:
        first, second = fleet.answer("run", "endless"), fleet.call("run", "endless")
        queued = fleet.answer("run", "endless", "--queue")
        stopped = fleet.call("down", "--force")
        status = process.wait(PROCESS_TIMEOUT)

    assert first["success"] is True
    assert (second.returncode, "refused: at_capacity (1 of 1 running)" in second.stderr) == (1, True)
    assert queued["waits_for"] == "at_capacity"
    assert (stopped.returncode, "1 run interrupted" in stopped.stderr) == (0, True)
    assert status == 1
    assert [each["status"] for each in fleet.answer("runs")["items"]] == ["interrupted"]  # type: ignore[attr-defined]


def test_a_second_up_is_refused_with_the_pid_of_the_first(fleet: UpFleet) -> None:
    with fleet.up() as process:
        refused = fleet.call("up")

        assert refused.returncode == 1
        assert f"already running on {fleet.state_dir} (pid {process.pid})" in refused.stderr
        assert refused.stdout == ""


def test_down_stops_gracefully_and_reports_it_also_where_nothing_runs(fleet: UpFleet) -> None:
    with fleet.up() as process:
        stopped = fleet.call("down")
        status = process.wait(PROCESS_TIMEOUT)
    again = fleet.call("down")

    assert (stopped.returncode, stopped.stderr) == (0, f"Stopped (pid {process.pid}).\n")
    assert status == 0
    assert (again.returncode, again.stderr) == (0, "The fleet is not running.\n")
    assert sorted(path.name for path in fleet.state_dir.iterdir() if path.is_socket()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_gracefully(fleet: UpFleet, number: signal.Signals) -> None:
    with fleet.up() as process:
        process.send_signal(number)

        assert process.wait(PROCESS_TIMEOUT) == 0


def test_a_second_ctrl_c_kills_runs(fleet: UpFleet) -> None:
    with fleet.up() as process:
        fleet.call("run", "endless")
        assert process.stderr is not None

        process.send_signal(signal.SIGINT)
        asked = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        status = process.wait(PROCESS_TIMEOUT)

        assert "for 1 active run" in asked
        assert status == 130
        assert "1 run interrupted" in process.stderr.read()


def test_a_closed_output_ends_no_fleet_and_logs_no_traceback(fleet: UpFleet) -> None:
    with fleet.up() as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # as `herdbeat up | head` does

        ran = [fleet.call("run", "quick", "--wait").returncode for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        status = process.wait(PROCESS_TIMEOUT)

        assert (ran, status) == ([0, 0], 0)
        assert process.stderr.read() == "output closed; the fleet continues. Show it with: herdbeat status\n"


def test_a_second_ctrl_c_ends_a_start_that_waits_for_a_locked_ledger(fleet: UpFleet) -> None:
    with fleet.up() as process:
        process.send_signal(signal.SIGTERM)
        process.wait(PROCESS_TIMEOUT)
    with closing(sqlite3.connect(fleet.state_dir / "herdbeat.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with subprocess.Popen(fleet.argv("up"), cwd=fleet.folder, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            waits = waiting.stderr.readline()
            waiting.send_signal(signal.SIGINT)
            while "Press Ctrl+C again" not in waiting.stderr.readline():
                pass
            waiting.send_signal(signal.SIGINT)
            status = waiting.wait(PROCESS_TIMEOUT)

    assert "database is locked" in waits
    assert status == 130


def test_after_kill_9_the_ledger_is_readable_and_the_next_start_rescues_runs(fleet: UpFleet) -> None:
    with fleet.up() as process:
        run = fleet.answer("run", "endless")["run"]
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PROCESS_TIMEOUT)
    status, beats = fleet.answer("status"), fleet.answer("beats")
    why, then = fleet.call("explain", str(run)), fleet.call("explain", "endless").stdout
    listed = fleet.answer("list", "endless")["items"]
    screens = [fleet.call(each) for each in ("status", "list")]
    down = fleet.call("down")

    assert status["scheduler"]["running"] is False  # type: ignore[index]
    assert [each["outcome"] for each in beats["items"]] == ["running"]  # type: ignore[attr-defined]
    assert "its last run was cut off; the next start records it as interrupted" in then
    assert "running now" not in then
    assert [each["state"] for each in listed] == ["waiting"]  # type: ignore[attr-defined]
    assert all("scheduler: not running (last seen " in each.stdout + each.stderr for each in screens)
    assert (why.returncode, "was caused by manual by human:" in why.stdout) == (0, True)
    assert down.stderr == "The fleet is not running.\n"
    with fleet.up():
        assert [each["status"] for each in fleet.answer("runs")["items"]] == ["interrupted"]  # type: ignore[attr-defined]


def test_a_manual_run_while_nothing_runs_starts_with_the_next_up(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("down")

    later, waited = fleet.call("run", "quick"), fleet.call("run", "quick", "--wait")

    assert later.returncode == 0
    assert "it starts when the fleet runs: herdbeat up" in later.stdout
    assert (waited.returncode, "--wait cannot be used" in waited.stderr) == (1, True)
    assert find_lock_holder(fleet.state_dir) is None
    with fleet.up() as process:
        assert read_until(process, "run_finished")["schedule"] == "quick"


def test_a_broken_schedule_is_reported_and_the_others_run(fleet: UpFleet) -> None:
    text = FLEET + "  - { name: wrong, command: [echo], every: 5x }\n"
    (fleet.folder / "herdbeat.yaml").write_text(text, encoding="utf-8")

    with fleet.up() as process:
        ran = fleet.call("run", "quick", "--wait")
        process.send_signal(signal.SIGTERM)
        _, message = process.communicate(timeout=PROCESS_TIMEOUT)

    assert ran.returncode == 0
    assert '"5x"' in message
    assert "herdbeat.yaml:9" in message


def test_a_file_in_which_everything_is_broken_runs_nothing_and_keeps_the_last_good_fleet(fleet: UpFleet) -> None:
    """It used to report the errors and then run an empty fleet, which removed all schedules from the ledger."""
    with fleet.up():
        fleet.call("down")
    text = "version: 1\ncommands:\n  - { name: yearly, command: [echo], every: 5x }\n"
    (fleet.folder / "herdbeat.yaml").write_text(text, encoding="utf-8")

    refused, as_json = fleet.call("up"), fleet.call("up", "--json")
    (fleet.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")

    assert (refused.returncode, refused.stdout, as_json.returncode, as_json.stdout) == (2, "", 2, "")
    assert '"5x"' in refused.stderr
    assert "No valid schedule is left to run. Nothing was changed." in refused.stderr
    problems = json.loads(as_json.stderr.splitlines()[-1])["problems"]
    assert [problem["line"] for problem in problems] == [3]
    assert fleet.answer("explain", "yearly")["next_run_at"] is not None


def test_a_schedule_that_breaks_keeps_its_last_good_version_over_a_restart(fleet: UpFleet) -> None:
    """A typing error in one line used to count as a deletion, and `up` removed the schedule."""
    with fleet.up():
        fleet.call("down")
    text = FLEET.replace("0 0 1 1 *", "0 0 1 13 *").replace("hello], type", "hi], type")
    (fleet.folder / "herdbeat.yaml").write_text(text, encoding="utf-8")

    with fleet.up() as process:
        ran, kept = fleet.call("run", "quick", "--wait"), fleet.answer("explain", "yearly")
        process.send_signal(signal.SIGTERM)
        _, message = process.communicate(timeout=PROCESS_TIMEOUT)

    assert "  hi\n✓ ok in" in ran.stdout
    assert str(kept["next_run_at"]).endswith("-01-01T00:00:00Z")
    assert (
        "Until the files are fixed, nothing is removed, and schedules with errors keep their last valid version."
        in message
    )


def test_every_command_has_a_hint_for_a_damaged_ledger(fleet: UpFleet) -> None:
    """Only `up` and `apply` did; commands that only view reported an internal error."""
    fleet.state_dir.mkdir()
    (fleet.state_dir / "herdbeat.db").write_bytes(b"this is no database, and was not one before" * 100)

    answers = [fleet.call(*words) for words in (["up"], ["beats"], ["status"], ["explain", "quick"], ["run", "quick"])]

    assert [answer.returncode for answer in answers] == [7] * len(answers)
    assert all("restore" in answer.stderr for answer in answers)
    assert (fleet.state_dir / "herdbeat.db").read_bytes().startswith(b"this is no database")


def test_down_stops_a_fleet_without_a_socket_by_its_pid(fleet: UpFleet) -> None:
    with fleet.up() as process:
        fleet.call("run", "quick", "--wait")  # its socket exists after this
        (fleet.state_dir / "socket").unlink()
        by_signal = fleet.call("down")
        status = process.wait(PROCESS_TIMEOUT)

    assert (by_signal.returncode, status) == (0, 0)
    assert by_signal.stderr == f"Stopped (pid {process.pid}).\n"


def test_down_names_the_runs_that_it_cut_off_and_is_no_success(fleet: UpFleet) -> None:
    """It used to say "Stopped", exit 0."""
    with fleet.up() as process:
        fleet.call("run", "endless")
        stopped = fleet.call("down", "--timeout", "1s")

    assert stopped.returncode == 1
    assert stopped.stderr.splitlines()[-1] == f"Stopped (pid {process.pid}). 1 run interrupted: endless 0001."
    assert [each["status"] for each in fleet.answer("runs")["items"]] == ["interrupted"]  # type: ignore[attr-defined]


def test_down_by_force_names_the_runs_too_and_was_asked_to(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("run", "endless")
        stopped = fleet.call("down", "--force", "--json")

    answer = json.loads(stopped.stdout)
    assert (stopped.returncode, answer["stopped"], answer["cut_off"]) == (0, True, ["0001"])


def test_nodes_calls_a_node_that_was_killed_dead_and_only_the_new_one_alive(fleet: UpFleet) -> None:
    with fleet.up() as first:
        first.kill()
        first.wait(PROCESS_TIMEOUT)
    with fleet.up() as second:
        nodes = fleet.answer("nodes")["items"]

    assert [(each["pid"], each["state"]) for each in nodes] == [  # type: ignore[attr-defined]
        (second.pid, "alive"),
        (first.pid, "dead"),
    ]


def test_with_a_json_log_every_line_is_an_object(fleet: UpFleet) -> None:
    text = (fleet.folder / "herdbeat.yaml").read_text(encoding="utf-8")
    broken = "  - { name: x, every: 5m }\n"
    (fleet.folder / "herdbeat.yaml").write_text(f"{text}{broken}", encoding="utf-8")

    with fleet.up("--log-format", "json", "--port", "0") as process:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PROCESS_TIMEOUT)

    assert process.returncode == 0
    assert all(isinstance(json.loads(line), dict) for line in (*out.splitlines(), *err.splitlines()))
    assert any("1 problem in the files" in json.loads(line)["message"] for line in err.splitlines())


def test_an_error_before_the_start_is_an_object_of_the_json_log(fleet: UpFleet) -> None:
    refused = fleet.call("up", "--log-format", "json", "-c", "nothing.yaml")

    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert json.loads(line)["level"] == "error"
