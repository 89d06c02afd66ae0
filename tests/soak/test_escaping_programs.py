"""A storm of programs that try to outlive their runs, ended in every way: afterwards none of them lives."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.escaping_programs import ESCAPES, escape_script
from tests.support.fault_fleet import wait_until
from tests.support.oracle import all_runs
from tests.support.running_fleet import PROCESS_TIMEOUT_S, EventFeed, RunningFleet

from herdbeat import platform
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import RunStatus
from herdbeat.store.reader import SqliteReader

STORM_S = 15.0
ENDED = {RunStatus.CANCELLED, RunStatus.TIMED_OUT, RunStatus.INTERRUPTED}
TARGETS_YAML = """\
  - {{ name: timeout-{number}, command: [sh, {script}], every: 1s, timeout: 1s }}
  - {{ name: overlap-{number}, command: [sh, {script}], cron: "*/2 * * * * *", overlap: cancel }}
  - {{ name: cancel-{number}, command: [sh, {script}], every: 1s }}
"""


def stop(fleet: RunningFleet, feed: EventFeed) -> None:
    fleet.call("down", "--timeout", "1s")
    feed.process.wait(PROCESS_TIMEOUT_S)


def kill_runs(_: RunningFleet, feed: EventFeed) -> None:
    """Press Ctrl-C twice."""
    feed.process.send_signal(signal.SIGINT)
    feed.process.send_signal(signal.SIGINT)
    feed.process.wait(PROCESS_TIMEOUT_S)


def kill_node(_: RunningFleet, feed: EventFeed) -> None:
    feed.process.kill()
    feed.process.wait(PROCESS_TIMEOUT_S)


def list_living(folder: Path) -> dict[int, str]:
    """Return the processes that run in this folder, by pid, with the run whose mark they carry. Asks /proc."""
    living = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and " Z " not in (entry / "stat").read_text(errors="replace"):
                environment = (entry / "environ").read_bytes().split(b"\0")
                marks = [each for each in environment if each.startswith(b"HERDBEAT_RUN=")]
                living[int(entry.name)] = marks[0].decode().partition("=")[2] if marks else ""
        except OSError:
            continue  # it has just ended
    return living


def list_ended_runs(reader: SqliteReader) -> set[str]:
    return {format_short_id(run.id) for run in all_runs(reader) if run.status in ENDED}


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("end", [stop, kill_runs, kill_node])
def test_no_program_outlives_its_run(tmp_path: Path, end: Callable[[RunningFleet, EventFeed], None]) -> None:
    folder, chance = tmp_path.resolve(), random.Random(end.__name__)
    pids = folder / "pids"
    pids.touch()
    has_groups = platform.find_own_control_group() is not None
    escapes = [name for name, needs_group in ESCAPES.items() if has_groups or not needs_group]
    fleet = RunningFleet(folder)
    text = "version: 1\ntimezone: UTC\ncommands:\n"
    for number, name in enumerate(escapes):
        script = folder / f"{number}.sh"
        script.write_text(escape_script(name, pids), encoding="utf-8")
        text += TARGETS_YAML.format(number=number, script=script)
    fleet.write(text)

    with fleet.up() as feed:
        reader = SqliteReader(folder / ".herdbeat" / "herdbeat.db")
        until = time.monotonic() + STORM_S
        while time.monotonic() < until:
            words = ["cancel", f"cancel-{chance.randrange(len(escapes))}", *chance.choice([[], ["--force"]])]
            assert fleet.call(*words).returncode == 0
            # First the ledger, then the processes: what has ended in the ledger must have ended before.
            ended = list_ended_runs(reader)
            survivors = {pid: run for pid, run in list_living(folder).items() if run in ended}
            assert not survivors, "the ledger says that these runs have ended"
        statuses = {run.status for run in all_runs(reader)}
        reader.close()
        end(fleet, feed)

    wait_until(lambda: end is not kill_node or not list_living(folder), lambda: f"still there: {list_living(folder)}")
    assert not list_living(folder)
    assert {RunStatus.CANCELLED, RunStatus.TIMED_OUT} <= statuses
    assert len(pids.read_text(encoding="ascii").split()) > 3 * len(escapes)
