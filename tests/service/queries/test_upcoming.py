"""What a fleet will do, as the governor says."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.agent_reports import reach_limit

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import ActiveHours, Bounds, Catchup, Jitter, Limits, Policies
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.trigger import Trigger
from herdbeat.service.queries.expressions import NoNextRunReason, iter_trigger_runs, parse_expression
from herdbeat.service.queries.upcoming import (
    ForecastInput,
    annotate_skips,
    build_file_forecast,
    find_next_runs,
    find_unscheduled,
    iter_fleet_runs,
    iter_schedule_runs,
    load_upcoming,
)
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd
from herdbeat.triggers import Cron, Interval, Webhook

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
POLICIES = Policies(zone=BERLIN, timeout=timedelta(hours=1), catchup=Catchup.SKIP)
DAILY = Cron.parse("0 9 * * *", BERLIN)


def schedule(name: str, trigger: Trigger, policies: Policies = POLICIES, *, enabled: bool = True) -> Schedule:
    return Schedule(target="triage", name=name, trigger=trigger, policies=policies, enabled=enabled)


def outlooks(schedules: list[Schedule]) -> list[ForecastInput]:
    return [build_file_forecast(each, NOW) for each in schedules]


def test_a_new_interval_runs_at_once_and_then_at_its_interval() -> None:
    found = list(islice(iter_schedule_runs(schedule("poll", Interval.parse("5m")), NOW), 3))

    assert [each.next_run_at for each in found] == [NOW, NOW + timedelta(minutes=5), NOW + timedelta(minutes=10)]
    assert [each.source for each in found] == [Source.FIRST_RUN, *[Source.BASELINE_INTERVAL] * 2]


def test_limits_jitter_and_hours_are_in_the_preview_and_say_so() -> None:
    hours = ActiveHours(opens=time(10), closes=time(12), zone=BERLIN)
    policies = replace(POLICIES, active_hours=hours, jitter=Jitter(span=timedelta(minutes=5)))

    found = list(islice(iter_schedule_runs(schedule("s", Cron.parse("0 * * * *", BERLIN), policies), NOW), 4))

    assert {each.due_at.astimezone(BERLIN).hour for each in found} == {10, 11}
    assert all(timedelta(0) <= each.next_run_at - each.due_at < timedelta(minutes=5) for each in found)
    assert any("jitter 5m adds" in note for note in found[0].notes)
    assert any("active_hours 10:00-12:00" in note for note in found[0].notes)


def test_a_limit_that_moves_a_run_is_its_source() -> None:
    policies = replace(POLICIES, limits=Limits(at_least=timedelta(minutes=7)))

    second = list(islice(iter_schedule_runs(schedule("s", Interval.parse("5m"), policies), NOW), 2))[1]

    assert (second.next_run_at, second.source) == (NOW + timedelta(minutes=7), Source.CLAMPED_MIN)


def test_the_runs_of_a_fleet_are_merged_in_time_order() -> None:
    fleet = [schedule("daily", DAILY), schedule("poll", Interval.parse("8h"))]

    found = [(each.schedule, each.next_run_at - NOW) for each in islice(iter_fleet_runs(outlooks(fleet), NOW), 4)]

    assert found == [
        ("triage/poll", timedelta(0)),
        ("triage/poll", timedelta(hours=8)),
        ("triage/poll", timedelta(hours=16)),
        ("triage/daily", timedelta(hours=18, minutes=56)),
    ]


def test_each_schedule_has_one_first_time() -> None:
    fleet = [schedule("daily", DAILY), schedule("poll", Interval.parse("8h")), schedule("hook", Webhook())]

    assert [each.schedule for each in find_next_runs(outlooks(fleet), NOW)] == ["triage/poll", "triage/daily"]


@pytest.mark.parametrize(
    ("without", "cause"),
    [
        (schedule("off", DAILY, enabled=False), NoNextRunReason.DISABLED),
        (schedule("off", Webhook(), enabled=False), NoNextRunReason.DISABLED),
        (schedule("hook", Webhook()), NoNextRunReason.WAITING),
        (schedule("over", DAILY, replace(POLICIES, bounds=Bounds(ends_at=NOW))), NoNextRunReason.ENDED),
    ],
)
def test_a_schedule_without_a_time_is_never_shown_with_one(without: Schedule, cause: NoNextRunReason) -> None:
    found = find_unscheduled(outlooks([without, schedule("daily", DAILY)]), NOW)

    assert [(each.schedule, each.cause) for each in found] == [(without.id, cause)]
    assert found[0].reason
    assert list(iter_schedule_runs(without, NOW)) == []


def test_requested_skips_are_noted_only_at_the_first_instants_of_their_schedule() -> None:
    fleet = [schedule("daily", DAILY), schedule("other", DAILY)]

    found = list(islice(annotate_skips(iter_fleet_runs(outlooks(fleet), NOW), {"triage/daily": 2}), 6))

    noted = [(each.schedule, "skipped: by_request" in each.notes) for each in found]
    assert noted[::2] == [("triage/daily", True), ("triage/daily", True), ("triage/daily", False)]
    assert noted[1::2] == [("triage/other", False)] * 3


@pytest.mark.parametrize("text", ["*/15 * * * *", "30 2 * * *", "@monthly", "90s", "2027-01-01T00:00:00Z"])
def test_an_expression_is_what_the_governor_says_of_a_schedule_without_policies(text: str) -> None:
    trigger = parse_expression(text, BERLIN)
    assert trigger is not None
    bare = [
        (each.due_at, each.next_run_at, each.source, each.notes) for each in islice(iter_trigger_runs(trigger, NOW), 9)
    ]

    governed = iter_schedule_runs(schedule("s", trigger), NOW)
    judged = [(each.due_at, each.next_run_at, each.source, each.notes) for each in islice(governed, 10)]

    assert bare == [each for each in judged if each[2] is not Source.FIRST_RUN][:9]


async def test_next_said_queued_for_a_beat_that_waits_for_its_account(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        agent = AgentSpec(runtime="claude", working_directory=".", account="team")
        refused = ScriptedRunner(outcomes=[reach_limit(herd.now + timedelta(hours=2))])
        herd.schedule("scout", every="5m", runner=refused, agent=agent)
        await herd.tick()

        with closing(SqliteReader(herd.store.path)) as reader:
            (idle,) = load_upcoming(reader, None, herd.now, start=herd.now, count=3, has_live_node=True).unscheduled

    assert idle.cause is NoNextRunReason.LATE
    assert idle.reason == "a beat waits for the account team, which opens in 2h (rate_limited)"
