"""Active hours in the engine: what lies outside is skipped, a whole night as one row, and nothing vanishes."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.oracle import CronExpectation, check_cron, check_hours, check_reasons

from herdbeat.domain.policies import ActiveHours, Catchup, Jitter, Overlap
from herdbeat.scheduler.active_hours import split_by_active_hours
from herdbeat.scheduler.instants import due_since
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2026, 3, 2, 12, 0, 10, tzinfo=UTC)


def hours(text: str, zone: str = "UTC") -> ActiveHours:
    opens, closes = (time.fromisoformat(part) for part in text.split("-"))
    return ActiveHours(opens=opens, closes=closes, zone=ZoneInfo(zone))


OFFICE = hours("07:00-22:00")


def consult_the_oracle(herd: SimulatedHerd, label: str, expression: str, since: datetime) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronExpectation(label, expression, since, herd.snapshot(label).settled_until))
        check_hours(reader, label, OFFICE)
        check_reasons(reader, label)
    finally:
        reader.close()


async def test_a_night_is_one_row_with_its_count_and_its_range(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE)

        await herd.advance(DAY)

        night = [beat for beat in herd.beats("report") if beat.outcome == "skipped"]
        assert [(beat.reason, beat.count) for beat in night] == [("inactive_hours", 9)]
        assert (night[0].due_at.hour, night[0].last_due_at.hour) == (22, 6)
        assert sum(outcome == "ran" for outcome, _, _ in herd.outcomes("report")) == 15
        consult_the_oracle(herd, "report", "0 * * * *", NOON)


async def test_an_interval_waits_for_the_opening_and_leaves_no_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        runner = ScriptedRunner()
        herd.schedule("triage", every="4h", active_hours=OFFICE, runner=runner)

        await herd.advance(DAY)

        assert [claim.due_at.hour for claim in runner.runs] == [12, 16, 20, 7, 11]
        assert {outcome for outcome, _, _ in herd.outcomes("triage")} == {"ran"}


async def test_a_delay_outside_its_hours_waits_and_runs_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        runner = ScriptedRunner()
        herd.schedule("launch", at="2026-03-02T23:30:00Z", active_hours=OFFICE, runner=runner)

        await herd.advance(DAY)

        assert [claim.due_at for claim in runner.runs] == [datetime(2026, 3, 2, 23, 30, tzinfo=UTC)]
        assert herd.outcomes("launch") == [("ran", "", 1)]


async def test_instants_outside_the_hours_during_an_outage_are_not_missed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE)
        await herd.tick()

    async with open_herd(tmp_path, NOON + 3 * DAY) as herd:
        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE)
        await herd.tick()

        assert herd.outcomes("report") == [
            ("missed", "scheduler_down", 9),
            ("skipped", "inactive_hours", 9),
            ("missed", "scheduler_down", 15),
            ("skipped", "inactive_hours", 9),
            ("missed", "scheduler_down", 15),
            ("skipped", "inactive_hours", 9),
            ("missed", "scheduler_down", 5),
            ("ran", "", 1),  # 12:00, ten seconds late: that is grace
        ]
        consult_the_oracle(herd, "report", "0 * * * *", NOON)


async def test_what_is_caught_up_is_taken_from_inside_the_hours(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="30 * * * *", active_hours=OFFICE, catchup=Catchup.ONCE)
        await herd.tick()

    async with open_herd(tmp_path, NOON + 20 * HOUR) as herd:  # 08:00 the next day
        runner = ScriptedRunner()
        herd.schedule("report", cron="30 * * * *", active_hours=OFFICE, catchup=Catchup.ONCE, runner=runner)
        await herd.tick()

        assert [claim.due_at.strftime("%H:%M") for claim in runner.runs] == ["07:30"]
        assert herd.outcomes("report") == [("merged", "once", 10), ("skipped", "inactive_hours", 9), ("ran", "", 1)]


async def test_a_catch_up_of_a_calendar_does_not_start_outside_the_hours(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="30 * * * *", active_hours=OFFICE, catchup=Catchup.ONCE)
        await herd.tick()

    async with open_herd(tmp_path, NOON + 11 * HOUR) as herd:  # 23:00: closed
        runner = ScriptedRunner()
        herd.schedule("report", cron="30 * * * *", active_hours=OFFICE, catchup=Catchup.ONCE, runner=runner)
        await herd.advance(MINUTE)

        assert runner.runs == []
        assert herd.outcomes("report") == [
            ("merged", "once", 9),
            ("skipped", "inactive_hours", 1),
            ("skipped", "inactive_hours", 1),
        ]


async def test_an_overdue_interval_waits_for_the_opening_instead_of_losing_a_day(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("daily", every="1d", active_hours=OFFICE)
        await herd.tick()

    async with open_herd(tmp_path, NOON + 42 * HOUR) as herd:  # 06:00, two days later
        runner = ScriptedRunner()
        herd.schedule("daily", every="1d", active_hours=OFFICE, runner=runner)
        await herd.advance(2 * HOUR)

        assert len(runner.runs) == 1
        assert herd.beats("daily")[-1].settled_at == datetime(2026, 3, 4, 7, 0, tzinfo=UTC)


async def test_a_beat_that_waited_for_room_past_the_closing_is_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        busy, late = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", cron="0 21 * * *", runner=busy)
        herd.schedule("worker/late", cron="30 21 * * *", active_hours=OFFICE, runner=late)
        await herd.advance(10 * HOUR)
        assert herd.outcomes("worker/late") == [("pending", "at_capacity", 1)]

        busy.let_go()
        await herd.advance(MINUTE)

        assert late.runs == []
        assert herd.outcomes("worker/late") == [("skipped", "inactive_hours", 1)]


async def test_a_beat_of_the_last_minute_that_jitter_carries_past_the_closing_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        runner = ScriptedRunner()
        herd.schedule(
            "report", cron="59 21 * * *", active_hours=OFFICE, jitter=Jitter(span=HOUR), runner=runner, grace=HOUR
        )

        await herd.advance(DAY)

        assert [claim.due_at.strftime("%H:%M") for claim in runner.runs] == ["21:59"]


async def test_a_pause_at_night_begins_where_the_hours_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE)
        await herd.advance(14 * HOUR)  # 02:00

        herd.pause("report")
        await herd.advance(10 * HOUR)  # noon
        herd.resume("report")

        assert herd.outcomes("report")[-2:] == [("skipped", "inactive_hours", 5), ("skipped", "paused", 10)]
        consult_the_oracle(herd, "report", "0 * * * *", NOON)


async def test_an_edit_at_night_loses_no_instant_of_the_night(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE)
        await herd.advance(14 * HOUR)  # 02:00

        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE, overlap=Overlap.QUEUE)
        await herd.advance(10 * HOUR)

        assert ("skipped", "inactive_hours", 9) in herd.outcomes("report")
        consult_the_oracle(herd, "report", "0 * * * *", NOON)


async def test_a_year_of_outage_costs_two_rows_a_day_and_counts_every_instant(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("report", cron="* * * * *", active_hours=OFFICE)
        await herd.tick()

    async with open_herd(tmp_path, NOON + 365 * DAY) as herd:
        herd.schedule("report", cron="* * * * *", active_hours=OFFICE)
        await herd.tick()

        beats = herd.beats("report")
        assert len(beats) == 2 * 365 + 2
        assert sum(beat.count for beat in beats) == 365 * 24 * 60


crons = st.sampled_from(["* * * * *", "*/15 * * * *", "0 * * * *", "30 2 * * *", "7 */5 * * *", "0 0 * * 1"])
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1), timezones=st.just(UTC))
clocks = st.times().map(lambda moment: time(moment.hour, moment.minute))


@given(crons, zones, clocks, clocks, moments, st.timedeltas(timedelta(0), 4 * DAY))
def test_a_split_by_hours_loses_and_doubles_nothing(
    expression: str, zone: str, opens: time, closes: time, since: datetime, lasts: timedelta
) -> None:
    trigger = Cron.parse(expression, ZoneInfo(zone))
    window = ActiveHours(opens=opens, closes=closes, zone=ZoneInfo(zone))
    first = trigger.next_time(None, since)
    assert first is not None
    instants = due_since(trigger, first, since + lasts)

    inside, outside = split_by_active_hours(trigger, instants, window)

    pieces = sorted((*inside, *outside), key=lambda piece: piece.first)
    assert sum(piece.count for piece in pieces) == instants.count
    assert (pieces[0].first, pieces[-1].last) == (instants.first, instants.last)
    for earlier, later in pairwise(pieces):
        assert trigger.next_time(None, earlier.last) == later.first
    for piece in inside:
        assert window.contains(piece.first)
        assert window.contains(piece.last)


@pytest.mark.parametrize("window", [None, OFFICE])
def test_only_a_calendar_is_split(window: ActiveHours | None) -> None:
    trigger = Interval(5 * MINUTE)
    instants = due_since(trigger, NOON + 11 * HOUR, NOON + DAY)

    assert split_by_active_hours(trigger, instants, window) == ([instants], [])
