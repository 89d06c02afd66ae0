"""The output of `explain` after a fault: of the schedule, of an instant of that day, and of a run.

One test for each kind of fault, with the sentences that a user reads.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat.store.state_lock import StateLock
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

ZONE = "Europe/Berlin"
HOUR = timedelta(hours=1)
MORNING = datetime(2026, 3, 26, 6, 30, tzinfo=UTC)
"""Half past seven in Berlin."""

SLOW = """\
version: 1
timezone: UTC
commands:
  - { name: slow, command: [sleep, "600"], every: 1h }
"""


@pytest.fixture
def state(cli: CommandLine) -> Path:
    folder = cli.folder / ".herdbeat"
    folder.mkdir()
    return folder


@contextmanager
def looking(cli: CommandLine, herd: SimulatedHerd) -> Iterator[CommandLine]:
    """The command line with the clock of the herd, as if the herd were a running process."""
    with StateLock(cli.folder / ".herdbeat"):
        yield CommandLine(folder=cli.folder, clock=FakeClock(herd.now), environ={"TZ": ZONE})


def explain_text(cli: CommandLine, *words: str) -> str:
    """Return the output as one line, so that wrapped sentences can be found."""
    answer = cli.run("explain", *words)
    assert answer.status == 0, answer
    return " ".join(answer.out.split())


def test_after_kill_9(tmp_path: Path) -> None:
    fleet = RunningFleet(tmp_path)
    fleet.write(SLOW)
    with fleet.up() as feed:
        killed = str(feed.until("run_started")["run_id"])

    with fleet.up() as feed:
        schedule, run = (" ".join(fleet.call("explain", each).stdout.split()) for each in ("slow", killed))
        instant = " ".join(fleet.call("explain", "slow", "--at", "1s").stdout.split())

    assert "slow ok" in schedule
    assert "because of baseline every 1h" in schedule
    assert f"slow run {killed} was caused by first-run." in run
    assert "result interrupted" in run
    assert "and ran: interrupted." in instant
    assert f"ran {killed} interrupted" in instant


async def test_after_a_suspend(cli: CommandLine, state: Path) -> None:
    async with open_herd(state, MORNING) as herd:
        herd.schedule("report", cron="0 9 * * *", zone=ZONE)
        herd.schedule("poll", every="1h", zone=ZONE)
        await herd.tick()
        herd.clock.suspend(3 * HOUR)
        await herd.tick()
        with looking(cli, herd) as now:
            schedule, instant = explain_text(now, "report"), explain_text(now, "report", "--at", "09:00")
            run = explain_text(now, now.run("runs", "poll", "--json").json()["items"][0]["id"])

    assert "next run in 22h 30m because of baseline at 09:00 every day" in schedule
    assert "report was due Thu 26 Mar 09:00:00 CET and did not run." in instant
    assert "missed this machine was asleep from Thu 26 Mar 07:30:00 CET to Thu 26 Mar 10:30:00 CET" in instant
    assert "fix set catchup: once" in instant
    assert "poll run 0002 was caused by catch-up." in run
    assert "started Thu 26 Mar 10:30:00 CET, 2h late" in run


async def test_after_a_night_on_which_the_clocks_changed(cli: CommandLine, state: Path) -> None:
    night = datetime(2026, 3, 28, 23, 0, tzinfo=UTC)
    async with open_herd(state, night) as herd:
        herd.schedule("backup", cron="30 2 * * *", zone=ZONE)
        await herd.advance(9 * HOUR)
        with looking(cli, herd) as now:
            schedule, instant = explain_text(now, "backup"), explain_text(now, "backup", "--at", "2026-03-29T01:00:00Z")
            missing, run = explain_text(now, "backup", "--at", "2026-03-29 02:30"), explain_text(now, "0001")

    assert "next run in 16h 30m because of baseline at 02:30 every day" in schedule
    assert "backup was due Sun 29 Mar 03:00:00 CEST and ran." in instant
    assert "ran" in missing
    assert "backup run 0001 was caused by baseline-cron." in run
    assert "due Sun 29 Mar 03:00:00 CEST" in run


async def test_after_a_target_was_at_capacity(cli: CommandLine, state: Path) -> None:
    busy = ScriptedRunner(holds=True)
    async with open_herd(state, MORNING) as herd:
        herd.schedule("triage/scan", every="1h", zone=ZONE, runner=busy)
        herd.schedule("triage/report", cron="0 8 * * *", zone=ZONE)
        await herd.advance(HOUR)
        with looking(cli, herd) as now:
            waits, instant = explain_text(now, "triage/report"), explain_text(now, "triage/report", "--at", "08:00")
        busy.let_go()
        await herd.advance(HOUR / 2)
        with looking(cli, herd) as now:
            later, run = explain_text(now, "triage/report", "--at", "08:00"), explain_text(now, "0002")

    assert "a beat due 30m ago is waiting (at_capacity, 1 of 1 running)" in waits
    assert "triage/report was due Thu 26 Mar 08:00:00 CET and is waiting." in instant
    assert "waiting at_capacity: the target was at capacity" in instant
    assert "triage/report was due Thu 26 Mar 08:00:00 CET and ran." in later
    assert "triage/report run 0002 was caused by baseline-cron." in run
    assert "started Thu 26 Mar 08:30:00 CET, 30m late" in run


async def test_after_a_pause(cli: CommandLine, state: Path) -> None:
    async with open_herd(state, MORNING) as herd:
        herd.schedule("report", cron="0 * * * *", zone=ZONE)
        herd.pause("report", MORNING + 2 * HOUR)
        await herd.advance(HOUR)
        with looking(cli, herd) as now:
            held = explain_text(now, "report")
        await herd.advance(2 * HOUR)
        with looking(cli, herd) as now:
            schedule, instant, run = (
                explain_text(now, "report"),
                explain_text(now, "report", "--at", "09:00"),
                explain_text(now, "0001"),
            )

    assert 'paused for another 1h by human:you "told to"; resume it: herdbeat resume report' in held
    assert "next run in 30m because of baseline" in schedule
    assert "report was due 2 times from Thu 26 Mar 08:00:00 CET to Thu 26 Mar 09:00:00 CET and did not run." in instant
    assert "skipped paused: the schedule was paused" in instant
    assert "report run 0001 was caused by baseline-cron." in run
    assert "due Thu 26 Mar 10:00:00 CET" in run


async def test_after_it_was_disabled(cli: CommandLine, state: Path) -> None:
    async with open_herd(state, MORNING) as herd:
        herd.schedule("report", cron="0 * * * *", zone=ZONE)
        herd.disable("report")
        await herd.advance(HOUR)
        with looking(cli, herd) as now:
            off = explain_text(now, "report")
        herd.enable("report")
        await herd.advance(HOUR)
        with looking(cli, herd) as now:
            schedule, instant, run = (
                explain_text(now, "report"),
                explain_text(now, "report", "--at", "08:00"),
                explain_text(now, "0001"),
            )

    assert "no next run: disabled by human:you (herdbeat enable report)" in off
    assert "next run in 30m because of baseline" in schedule
    assert "report was due Thu 26 Mar 08:00:00 CET and did not run." in instant
    assert "skipped disabled: the schedule was disabled" in instant
    assert "report run 0001 was caused by baseline-cron." in run


async def test_after_its_plan_broke(cli: CommandLine, state: Path) -> None:
    """A plan that cannot be read, as a newer version or a damaged disk may leave it."""
    async with open_herd(state, MORNING) as herd:
        herd.schedule("report", cron="0 * * * *", zone=ZONE)
        herd.schedule("other", cron="0 * * * *", zone=ZONE)
        await herd.advance(HOUR)
        _break_plan(herd, "report")
        await herd.advance(HOUR)
        with looking(cli, herd) as now:
            schedule, neighbour = explain_text(now, "report"), explain_text(now, "other")
            instant, run = explain_text(now, "report", "--at", "09:00"), explain_text(now, "0001")

    assert "no next run: the schedule is quarantined" in schedule
    assert "fix its configuration, or retry: herdbeat reset report" in schedule
    assert "next run in 30m because of baseline" in neighbour
    assert "skipped config_error: its configuration was invalid" in instant
    assert "report run 0001 was caused by baseline-cron." in run


def _break_plan(herd: SimulatedHerd, label: str) -> None:
    number = herd.snapshot(label).id
    with closing(sqlite3.connect(herd.store.path)) as connection, connection:
        connection.execute("INSERT INTO plan (text) VALUES ('no plan')")
        connection.execute("UPDATE schedule SET plan_id = (SELECT max(id) FROM plan) WHERE id = ?", (number,))


def test_after_its_file_broke(tmp_path: Path) -> None:
    """It used to print the error in the file; but the last good version runs, and the ledger has it."""
    fleet = RunningFleet(tmp_path)
    with fleet.up() as feed:
        assert fleet.call("run", "quick").returncode == 0
        ran = str(feed.until("run_finished")["run_id"])
        fleet.write("commands: [")
        feed.until("files_refused")
        schedule, run = fleet.call("explain", "quick"), fleet.call("explain", ran)
        instant = fleet.call("explain", "quick", "--at", "1s")
    later = fleet.call("explain", "quick")

    assert "because of baseline at 00:00 on 1 January" in " ".join(schedule.stdout.split())
    assert "because of baseline at 00:00 on 1 January" in " ".join(later.stdout.split())
    assert "The files cannot be read (1 problem); showing the ledger. See: herdbeat validate" in later.stderr
    assert f"quick run {ran} was caused by manual by human:" in run.stdout
    assert "and ran." in instant.stdout
