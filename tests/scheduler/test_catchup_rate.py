"""Catch-up beats start at the rate of the whole fleet, whichever node assigns the slots."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.store.base import CatchupCursor

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FOREVER = timedelta(days=365)


def test_the_first_starts_at_once_and_the_others_follow_at_the_rate() -> None:
    pacer = CatchupPacer(10)

    start_times = pacer.start_times(3, pacer.next_free_at(NOW, CatchupCursor()))

    assert start_times == [NOW, NOW + SECOND / 10, NOW + SECOND / 5]


def test_slots_that_are_taken_are_not_assigned_again() -> None:
    given_away = CatchupCursor(last_start_at=NOW + 9 * SECOND / 10, free_at=NOW + SECOND)

    assert CatchupPacer(10).next_free_at(NOW, given_away) == NOW + SECOND


def test_a_beat_that_has_just_started_still_takes_its_slot() -> None:
    assert CatchupPacer(10).next_free_at(NOW, CatchupCursor(free_at=NOW + SECOND / 20)) == NOW + SECOND / 20


def test_a_cursor_left_by_a_wrong_clock_delays_no_beat() -> None:
    assert CatchupPacer(10).next_free_at(NOW, CatchupCursor(free_at=NOW + FOREVER)) == NOW + SECOND / 10


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 2_000)), min_size=1, max_size=20), st.integers(1, 50))
def test_no_two_slots_are_closer_than_the_rate_allows(asked: list[tuple[int, int]], rate: int) -> None:
    pacer, now, pace, given_out = CatchupPacer(rate), NOW, CatchupCursor(), list[datetime]()

    for number, later in asked:
        now += timedelta(milliseconds=later)
        *start_times, free_at = pacer.start_times(number + 1, pacer.next_free_at(now, pace))
        given_out += start_times
        waiting = [each for each in given_out if each > now]
        pace = CatchupCursor(last_start_at=max(waiting, default=None), free_at=free_at)

    apart = [after - before for before, after in pairwise(given_out)]
    assert all(each >= pacer.spacing for each in apart)
