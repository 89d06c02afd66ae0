"""Simulations: the real scheduler on a moved clock, compared with counts that share no code with it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from herdbeat.config.loader import load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.service.simulation.engine import SimulationSettings, UsageLimit, simulate
from herdbeat.service.simulation.report import SimulatedSchedule, SimulationReport, build_report
from herdbeat.service.simulation.run_model import GivenValues, ProfileSource, build_profiles
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd

START = datetime(2026, 3, 16, tzinfo=UTC)
AT_ONCE = GivenValues(durations={"*": timedelta(seconds=1)}, failure_rates={"*": 0.0})

HEADER = "version: 1\nfleet: { name: simulated }\ntimezone: UTC\n"


def load(folder: Path, text: str) -> Fleet:
    path = folder / "herdbeat.yaml"
    path.write_text(HEADER + text, encoding="utf-8")
    return load_fleet(path, environ={}, system_zone=ZoneInfo("UTC"))


def run(
    fleet: Fleet,
    days: float = 1,
    given: GivenValues = AT_ONCE,
    *,
    start: datetime = START,
    seed: int = 0,
    usage_limit: UsageLimit | None = None,
) -> SimulationReport:
    profiles = build_profiles(fleet, None, given)
    chosen = SimulationSettings(start=start, until=start + timedelta(days=days), seed=seed, usage_limit=usage_limit)
    return build_report(fleet, profiles, chosen, simulate(fleet, profiles, chosen))


def by_name(report: SimulationReport) -> Mapping[str, SimulatedSchedule]:
    return {each.schedule: each for each in report.schedules}


def count_cron(expression: str, start: datetime, until: datetime) -> int:
    """Count the instants in (start, until) with another implementation of cron."""
    walk, count = croniter(expression, start), 0
    while walk.get_next(datetime) < until:
        count += 1
    return count


@settings(max_examples=15, deadline=None)
@given(
    minute=st.integers(0, 59),
    hours=st.sampled_from(["*", "*/3", "2", "1,13,22"]),
    weekdays=st.sampled_from(["*", "1-5", "0"]),
    overlap=st.sampled_from(["skip", "queue", "cancel", "allow"]),
    takes=st.sampled_from([1, 600, 5_000]),
    hours_simulated=st.integers(20, 80),
)
def test_the_beats_of_a_schedule_are_its_due_instants_each_accounted_for_once(
    tmp_path_factory: pytest.TempPathFactory,
    minute: int,
    hours: str,
    weekdays: str,
    overlap: str,
    takes: int,
    hours_simulated: int,
) -> None:
    expression = f"{minute} {hours} * * {weekdays}"
    text = f'commands:\n  - {{ name: c, command: [x], cron: "{expression}", overlap: {overlap}, timeout: 3h }}\n'
    fleet = load(tmp_path_factory.mktemp("simulate"), text)
    given_values = GivenValues(durations={"*": timedelta(seconds=takes)}, failure_rates={"*": 0.0})

    (found,) = run(fleet, hours_simulated / 24, given_values).schedules

    assert found.beats == count_cron(expression, START, START + timedelta(hours=hours_simulated))
    assert found.beats == found.ran + found.skipped + found.missed + found.merged + found.pending + found.running


def test_an_interval_counts_from_the_end_of_each_run(tmp_path: Path) -> None:
    fleet = load(tmp_path, "commands:\n  - { name: c, command: [x], every: 1h }\n")
    half_an_hour = GivenValues(durations={"*": timedelta(minutes=30)}, failure_rates={"*": 0.0})

    (found,) = run(fleet, 1, half_an_hour).schedules

    assert (found.runs, found.busy_s) == (16, 16 * 1_800)  # at 0:00, 1:30, 3:00 and so on


MIXED = """\
agents:
  - { name: a, runtime: claude, schedules: { s: { type: interval, interval: 20m, prompt: Work. } } }
commands:
  - { name: c, command: [x], cron: "*/10 * * * *", retry: { attempts: 2 } }
  - { name: d, command: [x], every: 45m }
"""


def test_the_same_seed_gives_the_same_result_and_another_seed_another(tmp_path: Path) -> None:
    fleet = load(tmp_path, MIXED)
    assumed = GivenValues()

    first, again, other = (run(fleet, 2, assumed, seed=seed) for seed in (7, 7, 8))

    assert first == again
    assert first.schedules != other.schedules


def test_a_further_schedule_does_not_change_what_the_others_draw(tmp_path: Path) -> None:
    fleet = load(tmp_path, MIXED)
    smaller = replace(fleet, targets=fleet.targets[:1], schedules=fleet.schedules[:1])

    alone, together = (by_name(run(each, 1, GivenValues()))["a/s"] for each in (smaller, fleet))

    assert alone == together


def test_a_full_target_makes_beats_wait(tmp_path: Path) -> None:
    text = """\
commands:
  - name: c
    command: [x]
    instances: { max_concurrent: 1 }
    schedules:
      one: { type: cron, cron: "0 * * * *" }
      two: { type: cron, cron: "0 * * * *" }
"""
    ten_minutes = GivenValues(durations={"*": timedelta(minutes=10)}, failure_rates={"*": 0.0})

    report = run(load(tmp_path, text), 1, ten_minutes)

    assert report.totals.capacity_waits == 23
    assert (report.totals.late_max_s, report.totals.most_active) == (600.0, 1)
    assert report.totals.collision_seconds == 0  # one of them always waits


def test_schedules_that_start_in_the_same_second_collide(tmp_path: Path) -> None:
    targets = "".join(f'  - {{ name: c{number}, command: [x], cron: "0 12 * * *" }}\n' for number in range(3))

    report = run(load(tmp_path, f"commands:\n{targets}"), 3)

    assert report.totals.collision_seconds == 3
    assert [each.starts for each in report.collisions] == [3, 3, 3]
    assert report.collisions[0].at == START + timedelta(hours=12)
    assert set(report.collisions[0].schedules) == {"c0", "c1", "c2"}


def test_costs_are_added_up_and_a_budget_stops_the_rest_of_the_day(tmp_path: Path) -> None:
    text = """\
agents:
  - name: a
    runtime: claude
    budget: { usd_per_day: 1.00 }
    schedules: { s: { type: cron, cron: "0 * * * *", prompt: Work. } }
"""
    costs = GivenValues(durations={"*": timedelta(minutes=1)}, failure_rates={"*": 0.0}, costs={"a": 0.25})

    (found,) = run(load(tmp_path, text), 3, costs).schedules

    assert found.cost_usd is not None
    assert 3.0 <= found.cost_usd <= 3.75  # a day may end a run above its budget, and no more
    assert found.budget_days == 3
    assert found.reasons == {"budget_exceeded": found.beats - found.ran}


def test_an_unknown_cost_is_not_nothing(tmp_path: Path) -> None:
    report = run(load(tmp_path, MIXED), 1, GivenValues())

    assert by_name(report)["a/s"].cost_usd is None
    assert by_name(report)["d"].cost_usd == 0.0
    assert report.totals.unknown_costs == 1


def test_a_usage_limit_holds_the_account_until_its_window_ends(tmp_path: Path) -> None:
    text = """\
agents:
  - { name: a, runtime: claude, account: team, schedules: { s: { type: cron, cron: "*/20 * * * *", prompt: Work } } }
  - { name: b, runtime: claude, account: team, schedules: { s: { type: cron, cron: "10 * * * *", prompt: Work } } }
"""
    limit = UsageLimit(4, timedelta(hours=2))

    report = run(load(tmp_path, text), 1, AT_ONCE, usage_limit=limit)

    found = by_name(report)
    accepted = sum(each.runs - each.limited for each in report.schedules)
    assert accepted <= 4 * 12
    assert report.totals.usage_limit_holds > 5
    assert found["a/s"].late_max_s > 600  # it waited for the account
    assert sum(each.failed for each in report.schedules) == 0


def test_the_night_without_half_past_two_is_named(tmp_path: Path) -> None:
    text = 'commands:\n  - { name: c, command: [x], cron: "30 2 * * *", timezone: Europe/Berlin }\n'
    fleet = load(tmp_path, text)

    report = run(fleet, 4, start=datetime(2026, 3, 27, 12, tzinfo=UTC))

    first = report.odd_nights[0]
    assert (first.at, first.schedule) == (datetime(2026, 3, 29, 1, tzinfo=UTC), "c")
    assert "does not exist" in first.note
    assert report.schedules[0].beats == 4


def test_given_values_replace_assumed_ones_by_pattern(tmp_path: Path) -> None:
    fleet = load(tmp_path, MIXED)
    given_values = GivenValues(
        durations={"*": timedelta(minutes=1), "c": timedelta(minutes=2)}, failure_rates={"d/default": 1.0}
    )

    profiles = build_profiles(fleet, None, given_values)
    report = by_name(run(fleet, 1, given_values))

    assert profiles["a/s"].duration == timedelta(minutes=1)
    assert profiles["c/default"].duration == timedelta(minutes=2)
    assert {each.source for each in profiles.values()} == {ProfileSource.GIVEN}
    assert report["d"].failed == report["d"].runs


def test_a_value_for_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no schedule"):
        build_profiles(load(tmp_path, MIXED), None, GivenValues(costs={"nobody": 1.0}))


def test_days_add_up_to_all_starts(tmp_path: Path) -> None:
    report = run(load(tmp_path, MIXED), 2, GivenValues())

    assert sum(sum(day.starts) for day in report.days) == report.totals.runs
    assert len(report.days) == 2


async def test_recorded_runs_are_drawn_whole(tmp_path: Path) -> None:
    fleet = load(tmp_path, "commands:\n  - { name: slow, command: [x], every: 6h }\n")
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(fails=1, takes=timedelta(minutes=7), usage={"usd": 0.3})
        herd.schedule("slow", every="6h", runner=runner)
        await herd.advance(timedelta(days=1))

    with closing(SqliteReader(tmp_path / "herdbeat.db")) as reader:
        profile = build_profiles(fleet, reader, GivenValues())["slow/default"]
        halved = build_profiles(fleet, reader, GivenValues(failure_rates={"slow": 0.5}))["slow/default"]

    assert profile.source is ProfileSource.RECORDED
    assert len(profile.recorded) == len(runner.runs)
    assert [run.has_failed for run in profile.recorded].count(True) == 1
    assert {(run.duration, run.usd) for run in profile.recorded} == {(timedelta(minutes=7), 0.3)}
    assert halved.failure_rate == 0.5
    assert halved.usd == pytest.approx(0.3)
    assert halved.duration.total_seconds() == pytest.approx(420)
