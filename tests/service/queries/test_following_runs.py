"""What comes after the next run, as the governor itself would decide it."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.record_builders import MINUTE, NOW, UTC_ZONE, make_schedule_record, make_schedule_spec

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Backoff, Bounds, Jitter, Limits
from herdbeat.service.queries.upcoming import RunPreview, preview_runs
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import open_herd
from herdbeat.timestamps import parse_timestamp
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay

SECOND = timedelta(seconds=1)


def after_now(*minutes: float) -> tuple[datetime, ...]:
    return tuple(NOW + each * MINUTE for each in minutes)


def wish(every: timedelta, lasts: timedelta, origin: str = "rule:surge") -> Hint:
    return Hint(origin=origin, every=every, expires_at=NOW + lasts)


def test_an_interval_continues_every_so_often() -> None:
    found = preview_runs(make_schedule_record(), [], NOW)

    assert found == RunPreview(instants=after_now(4, 9, 14), pace="every 5m")


def test_a_calendar_describes_its_own_recurrence() -> None:
    daily = make_schedule_spec(Cron.parse("0 9 * * *", UTC_ZONE))

    found = preview_runs(make_schedule_record(plan=daily), [], NOW)

    assert found.instants[0] == parse_timestamp("2026-03-27T09:00:00Z")
    assert found.pace == "at 09:00 every day"


def test_a_hint_is_followed_by_the_baseline() -> None:
    found = preview_runs(make_schedule_record(), [wish(30 * SECOND, 11 * MINUTE)], NOW)

    assert found.instants == after_now(0, 0.5, 1)
    assert (found.pace, found.until, found.after) == ("every 30s", NOW + 11 * MINUTE, "every 5m")


def test_what_follows_a_hint_respects_max_interval() -> None:
    record = make_schedule_record(plan=make_schedule_spec(limits=Limits(at_most=2 * MINUTE)))

    assert preview_runs(record, [wish(30 * SECOND, 11 * MINUTE)], NOW).after == "every 2m"


def test_a_calendar_that_max_interval_shortens_is_described_by_its_pace() -> None:
    plan = make_schedule_spec(Cron.parse("0 9 * * *", UTC_ZONE), limits=Limits(at_most=timedelta(hours=1)))
    record = make_schedule_record(plan=plan, next_source=Source.CLAMPED_MAX)

    assert preview_runs(record, [], NOW).pace == "every 1h"


def test_of_two_hints_the_end_of_the_stronger_counts() -> None:
    hints = [wish(10 * MINUTE, 40 * MINUTE, "planner"), wish(30 * SECOND, 11 * MINUTE)]

    assert preview_runs(make_schedule_record(), hints, NOW).until == NOW + 11 * MINUTE


def test_a_limit_shows_in_the_described_interval() -> None:
    record = make_schedule_record(plan=make_schedule_spec(limits=Limits(at_least=15 * SECOND)))

    found = preview_runs(record, [wish(5 * SECOND, 10 * MINUTE)], NOW)

    assert found.pace == "every 15s"


async def test_jitter_moves_the_preview_as_it_moves_the_engine(tmp_path: Path) -> None:
    """Once `explain` named two times for one run: the jitter was asked of a name that the engine does not use."""
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("nightly", cron="0 2 * * *", jitter=Jitter(span=10 * MINUTE))
        planned = herd.next_run("nightly")
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter())
        reader.close()

    assert preview_runs(record, [], NOW).instants[0] == planned


def test_the_preview_of_a_failing_schedule_holds_only_if_the_next_run_succeeds() -> None:
    record = make_schedule_record(failures=2, plan=make_schedule_spec(backoff=Backoff()), next_run_at=NOW + 19 * MINUTE)

    found = preview_runs(record, [], NOW)

    assert found.instants == after_now(19, 24, 29)
    assert (found.pace, found.is_conditional) == ("every 5m", True)


def test_the_last_run_is_marked_as_the_last() -> None:
    found = preview_runs(make_schedule_record(runs=8, plan=make_schedule_spec(bounds=Bounds(max_runs=10))), [], NOW)

    assert (found.instants, found.is_complete) == (after_now(4, 9), True)


def test_a_one_shot_has_one_instant() -> None:
    once = make_schedule_spec(Delay(NOW + MINUTE))

    found = preview_runs(make_schedule_record(plan=once, is_new=True), [], NOW)

    assert (found.instants, found.is_complete) == (after_now(1), True)


def test_the_preview_begins_after_the_pause() -> None:
    found = preview_runs(make_schedule_record(paused=True, paused_until=NOW + 60 * MINUTE), [], NOW)

    assert found.instants[0] == NOW + 60 * MINUTE


def test_beats_that_will_be_skipped_are_not_in_the_preview() -> None:
    assert preview_runs(make_schedule_record(skips=1), [], NOW).instants == after_now(9, 14, 19)


@pytest.mark.parametrize("changes", [{"next_run_at": None, "running": 1}, {"quarantine": "no such zone"}])
def test_a_schedule_whose_future_is_unknown_has_no_preview(changes: dict[str, Any]) -> None:
    assert preview_runs(make_schedule_record(**changes), [], NOW) == RunPreview()
