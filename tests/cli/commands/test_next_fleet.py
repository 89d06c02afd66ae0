"""`herdbeat next` beside a ledger: never a time that will not happen."""

from datetime import timedelta

import pytest
from tests.support.fleet_history import create_fleet_history

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Jitter
from herdbeat.store.state_lock import StateLock
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

FLEET = """\
version: 1
timezone: Europe/Berlin
callables:
  - { name: poll, call: "fleet:poll", every: 1h }
  - { name: shaky, call: "fleet:shaky", every: 5m }
  - { name: daily, call: "fleet:daily", cron: "0 9 * * *" }
  - { name: busy, call: "fleet:busy", every: 10m }
  - { name: spread, call: "fleet:spread", cron: "4 * * * *", jitter: 30m }
  - { name: launch, call: "fleet:launch", at: "2026-03-26T13:00:00Z" }
  - { name: unborn, call: "fleet:unborn", every: 2h }
"""
ZONE = "Europe/Berlin"
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def fleet(cli: CommandLine) -> CommandLine:
    """Twenty minutes of a fleet that no longer runs: one is failing, one has fired, one is only in the file."""
    await create_fleet_history(cli, FLEET, _schedules, lasted=20 * MINUTE)
    return cli


def _schedules(herd: SimulatedHerd) -> None:
    herd.schedule("poll", every="1h", zone=ZONE)
    herd.schedule("shaky", every="5m", zone=ZONE, runner=ScriptedRunner(fails=9))
    herd.schedule("daily", cron="0 9 * * *", zone=ZONE)
    herd.schedule("busy", every="10m", zone=ZONE)
    herd.schedule("spread", cron="4 * * * *", zone=ZONE, jitter=Jitter(span=30 * MINUTE))
    herd.schedule("launch", at="2026-03-26T13:00:00Z", zone=ZONE)


def rows(fleet: CommandLine, *words: str) -> dict[str, str]:
    """Return from `next --plain` the first time of each schedule, or why it has none."""
    times: dict[str, str] = {}
    for line in fleet.run("next", "--plain", *words).lines():
        at, schedule, why, _ = line.split("\t")
        times.setdefault(schedule, why if at == "-" else at.partition("T")[2])
    return times


def test_next_uses_the_ledger_and_the_files_for_new_schedules(fleet: CommandLine) -> None:
    times = rows(fleet)

    assert "13:04" < times.pop("spread") < "13:34"
    assert times == {
        "unborn": "13:04:00Z",  # never ran, so at once
        "busy": "13:14:00Z",  # it ran this minute
        "poll": "13:44:00Z",  # an hour after its last run, not after now
        "shaky": "13:14:00Z",  # its failures make it wait longer than its five minutes
        "daily": "08:00:00Z",
        "launch": "ended",
    }


def test_a_pause_without_an_end_has_no_time(fleet: CommandLine) -> None:
    fleet.run("pause", "daily", "--reason", "holidays")

    assert rows(fleet)["daily"] == "paused"
    assert fleet.run("next", "daily").lines() == [
        'daily   0 9 * * *   "at 09:00 every day"   Europe/Berlin',
        '  ‖ paused: paused by human:you "holidays"; resume it: herdbeat resume daily',
    ]


def test_a_pause_with_an_end_shows_what_comes_after_it(fleet: CommandLine) -> None:
    fleet.run("pause", "daily", "--until", "2026-03-30T00:00:00Z")
    fleet.run("pause", "poll", "--for", "3h")

    first = fleet.run("next", "poll", "-n", "1").out

    assert rows(fleet, "daily", "-n", "1") == {"daily": "07:00:00Z"}
    assert "Mon 30 Mar 2026  09:00 CEST" in fleet.run("next", "daily", "-n", "1").out
    assert "17:04 CET" in first
    assert "its pause ends at this time" in first


def test_a_disabled_schedule_shows_who_disabled_it(fleet: CommandLine) -> None:
    fleet.run("disable", "poll")

    assert rows(fleet)["poll"] == "disabled"
    assert "disabled by human:you (herdbeat enable poll)" in fleet.run("next", "poll").out


def test_a_hint_determines_the_times_and_is_named(fleet: CommandLine) -> None:
    fleet.run("hint", "poll", "--every", "30m", "--for", "1h", "--reason", "deploy")

    lines = fleet.run("next", "poll", "-n", "3").lines()

    assert "14:14 CET" in lines[1]
    assert 'hint every 30m by human:you, 1h left "deploy"' in lines[1]
    assert "14:44 CET" in lines[2]
    assert "15:44 CET" in lines[3], "after the hint it is its own hour again"


def test_a_skipped_beat_is_marked(fleet: CommandLine) -> None:
    fleet.run("skip", "daily")

    first, second = fleet.run("next", "daily", "-n", "2").lines()[1:]

    assert "skipped: by_request" in first
    assert "skipped" not in second


async def test_while_an_interval_runs_its_next_time_is_unknown(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (cli.folder / ".herdbeat").mkdir()

    async with open_herd(cli.folder / ".herdbeat", cli.clock.now()) as herd:
        herd.schedule("busy", every="10m", runner=ScriptedRunner(holds=True))
        await herd.tick()

        with StateLock(cli.folder / ".herdbeat"):
            answer = cli.run("next", "busy")
        left = cli.run("next", "busy")  # as a kill leaves it

    assert answer.lines()[1] == "  ● running: the next run is scheduled when the run ends"
    assert left.lines()[1].endswith("scheduled when herdbeat up has recorded its interrupted run")


async def test_a_beat_that_waits_for_capacity_has_no_time(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (cli.folder / ".herdbeat").mkdir()

    async with open_herd(cli.folder / ".herdbeat", cli.clock.now()) as herd:
        herd.schedule("busy/first", every="10m", runner=ScriptedRunner(holds=True))
        herd.schedule("busy/second", every="10m", runner=ScriptedRunner(holds=True))
        await herd.tick()
        with StateLock(cli.folder / ".herdbeat"):
            times = rows(cli)

    assert times == {"busy/first": "running", "busy/second": "late"}


async def test_an_instant_before_its_jittered_start_is_shown(cli: CommandLine) -> None:
    """Between the two, the governor alone would already return the next hour."""
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (cli.folder / ".herdbeat").mkdir()
    async with open_herd(cli.folder / ".herdbeat", cli.clock.now() - MINUTE) as herd:
        herd.schedule("spread", cron="4 * * * *", zone=ZONE, jitter=Jitter(span=30 * MINUTE))
        await herd.tick()
        planned = herd.next_run("spread")
    assert isinstance(cli.clock, FakeClock)
    cli.clock.advance(MINUTE / 2)

    item = cli.run("next", "spread", "-n", "1", "--json").json()["items"][0]

    assert planned is not None
    assert planned > cli.clock.now()
    assert item["due_at"] == "2026-03-26T13:04:00Z"
    assert item["next_run_at"].startswith(planned.strftime("%Y-%m-%dT%H:%M:%S"))


def test_next_uses_a_changed_file_while_nothing_runs(fleet: CommandLine) -> None:
    changed = FLEET.replace("every: 1h", "every: 2h").replace("T13:00", "T15:00").replace('"0 9', '"0 8')
    (fleet.folder / "herdbeat.yaml").write_text(changed, encoding="utf-8")

    times = rows(fleet)

    assert (times["poll"], times["launch"], times["daily"]) == ("14:44:00Z", "15:00:00Z", "07:00:00Z")


def test_while_the_fleet_runs_next_uses_the_ledger_and_not_a_broken_file(fleet: CommandLine) -> None:
    (fleet.folder / "herdbeat.yaml").write_text(FLEET.replace("every: 1h", "every: 1x"), encoding="utf-8")

    with StateLock(fleet.folder / ".herdbeat"):
        times = rows(fleet)

    assert times["poll"] == "13:44:00Z"
    assert "unborn" not in times


def test_a_created_schedule_is_shown_although_no_file_defines_it(fleet: CommandLine) -> None:
    fleet.run("create", "nightly", "--command", "true", "--cron", "0 3 * * *")

    assert rows(fleet)["nightly"] == "02:00:00Z"
    assert rows(fleet, "nightly") == {"nightly": "02:00:00Z"}


def test_a_start_in_the_past_ignores_the_current_state(fleet: CommandLine) -> None:
    """Today's pause does not affect last week."""
    fleet.run("pause", "daily")

    times = fleet.run("next", "daily", "--from", "2026-03-18", "-n", "1").out

    assert "Wed 18 Mar 2026  09:00 CET" in times


async def test_next_agrees_with_the_ledger(fleet: CommandLine) -> None:
    hint = Hint(origin="human:you", every=7 * MINUTE, expires_at=fleet.clock.now() + 40 * MINUTE)
    async with open_herd(fleet.folder / ".herdbeat", fleet.clock.now()) as herd:
        herd.schedule("poll", every="1h", zone=ZONE)
        herd.hint("poll", hint)
        planned = herd.next_run("poll")

    assert planned is not None
    assert rows(fleet)["poll"] == planned.strftime("%H:%M:%SZ")
