"""A requested skip: the skipped beat is in the ledger like any other, and the next one runs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.schedule_requests import check_against_oracle, skip_next

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.scheduler.evaluate import apply_skip_next
from herdbeat.scheduler.instants import InstantRange, due_since, take_oldest
from herdbeat.scheduler.misfires import InstantOutcome
from herdbeat.testing.herd import ScriptedRunner, open_herd
from herdbeat.triggers.cron import Cron

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
START = TEN - MINUTE


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_the_requested_number_of_next_instants_is_skipped(tmp_path: Path, count: int) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)

        asked = skip_next(herd, "report", count)
        await herd.advance(5 * HOUR)

        assert asked.instants == tuple(TEN + number * HOUR for number in range(count))
        assert herd.outcomes("report") == [("skipped", "by_request", count)] + [("ran", "", 1)] * (5 - count)
        assert [claim.due_at for claim in runner.runs] == [TEN + number * HOUR for number in range(count, 5)]
        check_against_oracle(herd, "report", "0 * * * *", START)


async def test_the_skipped_beats_of_a_hinted_calendar_were_said_to_reach_to_its_own_times(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - HOUR) as herd:
        herd.schedule("report", cron="0 18 * * *")
        await herd.tick()
        herd.hint("report", Hint(origin="human:you", every=HOUR, expires_at=TEN + 5 * HOUR))

        asked = skip_next(herd, "report", 3)
        await herd.advance(3 * HOUR)

        assert asked.instants == (TEN,)
        assert herd.outcomes("report") == [("skipped", "by_request", 3)]


async def test_an_interval_is_anchored_at_the_beat_it_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("triage", every="5m", runner=runner)
        await herd.tick()

        skip_next(herd, "triage")
        await herd.advance(12 * MINUTE)

        assert herd.outcomes("triage") == [("ran", "", 1), ("skipped", "by_request", 1), ("ran", "", 1)]
        assert [claim.due_at for claim in runner.runs] == [TEN, TEN + 10 * MINUTE]
        assert herd.next_run("triage") == TEN + 15 * MINUTE


async def test_a_skip_requested_during_a_run_skips_the_beat_after_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="5m", runner=runner)
        await herd.tick()
        skip_next(herd, "triage")

        runner.let_go()
        await herd.advance(11 * MINUTE)

        assert herd.outcomes("triage") == [("ran", "", 1), ("skipped", "by_request", 1), ("ran", "", 1)]


async def test_a_requested_skip_survives_a_restart_and_wins_over_a_gap(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")
        skip_next(herd, "report")

    async with open_herd(tmp_path, TEN + 2 * HOUR + MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(HOUR)

        assert herd.outcomes("report") == [
            ("skipped", "by_request", 1),
            ("missed", "scheduler_down", 2),
            ("ran", "", 1),
        ]
        check_against_oracle(herd, "report", "0 * * * *", START)


async def test_requesting_a_skip_twice_does_not_add_up_and_zero_takes_it_back(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        skip_next(herd, "report")
        again = skip_next(herd, "report")

        back = skip_next(herd, "report", 0)
        await herd.advance(HOUR)

        assert (again.before, again.skips) == (1, 1)
        assert (back.before, back.skips) == (1, 0)
        assert [claim.due_at for claim in runner.runs] == [TEN]


async def test_an_instant_inside_a_pause_uses_up_a_requested_skip(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        skip_next(herd, "report")

        herd.pause("report", until=TEN + 30 * MINUTE)
        await herd.advance(2 * HOUR)

        assert herd.outcomes("report") == [("skipped", "paused", 1), ("ran", "", 1)]
        assert herd.snapshot("report").skips == 0


async def test_a_skipped_one_shot_hint_is_not_due_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("triage", every="1h", runner=runner)
        await herd.tick()
        herd.hint("triage", Hint(origin="human:you", at=TEN + 5 * MINUTE, expires_at=TEN + 5 * HOUR))
        assert herd.why("triage") is Source.AI_ONESHOT

        skip_next(herd, "triage")
        await herd.advance(10 * MINUTE)
        herd.clear_hints("triage")
        herd.hint("triage", Hint(origin="human:you", at=TEN + 3 * HOUR, expires_at=TEN + 5 * HOUR))

        assert herd.outcomes("triage") == [("ran", "", 1), ("skipped", "by_request", 1)]
        assert herd.next_run("triage") == TEN + HOUR + 5 * MINUTE


async def test_a_one_shot_that_meets_a_run_is_used_up_although_it_was_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(HOUR)
        herd.hint("report", Hint(origin="human:you", at=TEN + 65 * MINUTE, expires_at=TEN + 5 * HOUR))
        await herd.advance(10 * MINUTE)

        runner.let_go()
        await herd.advance(MINUTE)

        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "already_running", 1)]
        assert herd.next_run("report") == TEN + 2 * HOUR


async def test_a_schedule_without_a_next_beat_cannot_skip_one(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("off", cron="0 * * * *")
        herd.schedule("over", at="2026-03-02T09:00:00Z")
        await herd.tick()
        herd.disable("off")

        answers = [skip_next(herd, label).obstacle for label in ("off", "over")]

        assert answers == ["the schedule is disabled and has no next beat", "the schedule has no next beat"]
        assert [herd.snapshot(label).skips for label in ("off", "over")] == [0, 0]


@given(
    expression=st.sampled_from(["* * * * *", "0 * * * *", "5,50 9-11 * * *", "30 2 * * *", "0 0 1 * *"]),
    minutes=st.integers(0, 200_000),
    wanted=st.integers(1, 50),
)
def test_the_oldest_and_the_rest_are_all_instants(expression: str, minutes: int, wanted: int) -> None:
    cron = Cron.parse(expression, ZoneInfo("Europe/Berlin"))
    first_due = next(cron.upcoming(TEN))
    instants = due_since(cron, first_due, first_due + minutes * MINUTE)

    first, rest = take_oldest(cron, instants, wanted)

    assert first.first == instants.first
    assert first.count == min(wanted, instants.count)
    assert (rest.count if rest else 0) == instants.count - first.count
    assert (rest or first).last == instants.last
    assert rest is None or rest.first == cron.next_time(None, first.last)


def test_an_instant_outside_the_active_hours_does_not_use_up_a_requested_skip() -> None:
    cron = Cron.parse("0 * * * *", ZoneInfo("UTC"))
    evening, night, morning = (
        due_since(cron, TEN + at * HOUR, TEN + until * HOUR) for at, until in ((0, 1), (2, 5), (6, 8))
    )
    fates = [
        InstantOutcome(evening, BeatOutcome.PENDING),
        InstantOutcome(night, BeatOutcome.SKIPPED, SkipReason.INACTIVE_HOURS),
        InstantOutcome(morning, BeatOutcome.MISSED, MissedReason.SLEPT),
    ]

    found = apply_skip_next(cron, fates, 3)

    assert [(fate.outcome, fate.reason, fate.instants.count) for fate in found] == [
        ("skipped", "by_request", 2),
        ("skipped", "inactive_hours", 4),
        ("skipped", "by_request", 1),
        ("missed", "slept", 2),
    ]


def test_a_one_shot_that_is_skipped_by_request_is_in_no_row_of_the_calendar() -> None:
    moment = InstantRange.single(datetime(2026, 3, 2, 5, 30, tzinfo=UTC))
    pending = InstantOutcome(moment, BeatOutcome.PENDING, source=Source.AI_ONESHOT, origin="human:you")

    (skipped,) = apply_skip_next(Cron.parse("0 * * * *", ZoneInfo("UTC")), [pending], 1)

    assert (skipped.outcome, skipped.reason) == (BeatOutcome.SKIPPED, SkipReason.BY_REQUEST)
    assert (skipped.source, skipped.origin) == (Source.AI_ONESHOT, "human:you")
