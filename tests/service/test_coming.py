"""What comes after the next run, as the governor itself would decide it."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.service.records import MINUTE, NOW, UTC_ZONE, plan, schedule

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Backoff, Bounds, Jitter, Limits
from herdbeat.moments import parse_moment
from herdbeat.service.coming import Coming, coming
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import open_herd
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay

SECOND = timedelta(seconds=1)


def after_now(*minutes: float) -> tuple[datetime, ...]:
    return tuple(NOW + each * MINUTE for each in minutes)


def wish(every: timedelta, lasts: timedelta, origin: str = "rule:surge") -> Hint:
    return Hint(origin=origin, every=every, expires_at=NOW + lasts)


def test_an_interval_goes_on_at_its_pace() -> None:
    found = coming(schedule(), [], NOW)

    assert found == Coming(instants=after_now(4, 9, 14), pace="every 5m")


def test_a_calendar_goes_on_in_its_own_words() -> None:
    daily = plan(Cron.parse("0 9 * * *", UTC_ZONE))

    found = coming(schedule(plan=daily), [], NOW)

    assert found.instants[0] == parse_moment("2026-03-27T09:00:00Z")
    assert found.pace == "at 09:00 every day"


def test_a_hint_is_followed_by_the_baseline() -> None:
    found = coming(schedule(), [wish(30 * SECOND, 11 * MINUTE)], NOW)

    assert found.instants == after_now(0, 0.5, 1)
    assert (found.pace, found.until, found.after) == ("every 30s", NOW + 11 * MINUTE, "every 5m")


def test_of_two_hints_the_end_of_the_stronger_counts() -> None:
    hints = [wish(10 * MINUTE, 40 * MINUTE, "planner"), wish(30 * SECOND, 11 * MINUTE)]

    assert coming(schedule(), hints, NOW).until == NOW + 11 * MINUTE


def test_a_limit_shows_in_the_pace() -> None:
    record = schedule(plan=plan(limits=Limits(at_least=15 * SECOND)))

    found = coming(record, [wish(5 * SECOND, 10 * MINUTE)], NOW)

    assert found.pace == "every 15s"


async def test_jitter_moves_what_is_told_as_it_moves_the_engine(tmp_path: Path) -> None:
    """Once `explain` named two times for one run: the jitter was asked of a name that the engine does not use."""
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("nightly", cron="0 2 * * *", jitter=Jitter(span=10 * MINUTE))
        planned = herd.next_run("nightly")
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter())
        reader.close()

    assert coming(record, [], NOW).instants[0] == planned


def test_what_fails_goes_on_as_usual_only_if_it_succeeds() -> None:
    record = schedule(failures=2, plan=plan(backoff=Backoff()), next_run_at=NOW + 19 * MINUTE)

    found = coming(record, [], NOW)

    assert found.instants == after_now(19, 24, 29)
    assert (found.pace, found.is_hoped) == ("every 5m", True)


def test_the_last_of_its_runs_is_told_as_the_last() -> None:
    found = coming(schedule(runs=8, plan=plan(bounds=Bounds(max_runs=10))), [], NOW)

    assert (found.instants, found.is_all) == (after_now(4, 9), True)


def test_what_fires_once_comes_once() -> None:
    once = plan(Delay(NOW + MINUTE))

    found = coming(schedule(plan=once, is_new=True), [], NOW)

    assert (found.instants, found.is_all) == (after_now(1), True)


def test_a_pause_is_waited_for() -> None:
    found = coming(schedule(paused=True, paused_until=NOW + 60 * MINUTE), [], NOW)

    assert found.instants[0] == NOW + 60 * MINUTE


def test_what_is_to_pass_is_not_promised() -> None:
    assert coming(schedule(skips=1), [], NOW).instants == after_now(9, 14, 19)


@pytest.mark.parametrize("changes", [{"next_run_at": None, "running": 1}, {"quarantine": "no such zone"}])
def test_nothing_is_promised_that_nobody_can_know(changes: dict[str, Any]) -> None:
    assert coming(schedule(**changes), [], NOW) == Coming()
