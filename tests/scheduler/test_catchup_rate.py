"""What is caught up starts at the pace of the whole fleet, whoever gives the places out."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.store.base import CatchupCursor

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FOREVER = timedelta(days=365)


def test_the_first_starts_at_once_and_the_others_follow_in_step() -> None:
    pacer = CatchupPacer(10)

    start_times = pacer.start_times(3, pacer.next_free_at(NOW, CatchupCursor()))

    assert start_times == [NOW, NOW + SECOND / 10, NOW + SECOND / 5]


def test_places_that_were_given_away_are_passed_over() -> None:
    given_away = CatchupCursor(last_start_at=NOW + 9 * SECOND / 10, free_at=NOW + SECOND)

    assert CatchupPacer(10).next_free_at(NOW, given_away) == NOW + SECOND


def test_one_that_has_just_started_still_holds_its_place() -> None:
    assert CatchupPacer(10).next_free_at(NOW, CatchupCursor(free_at=NOW + SECOND / 20)) == NOW + SECOND / 20


def test_a_mark_left_by_a_clock_that_was_wrong_holds_nobody_up() -> None:
    assert CatchupPacer(10).next_free_at(NOW, CatchupCursor(free_at=NOW + FOREVER)) == NOW + SECOND / 10


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 2_000)), min_size=1, max_size=20), st.integers(1, 50))
def test_however_the_places_are_asked_for_no_two_are_nearer_than_the_pace(
    asked: list[tuple[int, int]], rate: int
) -> None:
    pacer, now, pace, given_out = CatchupPacer(rate), NOW, CatchupCursor(), list[datetime]()

    for number, later in asked:
        now += timedelta(milliseconds=later)
        *start_times, free_at = pacer.start_times(number + 1, pacer.next_free_at(now, pace))
        given_out += start_times
        waiting = [each for each in given_out if each > now]
        pace = CatchupCursor(last_start_at=max(waiting, default=None), free_at=free_at)

    apart = [after - before for before, after in pairwise(given_out)]
    assert all(each >= pacer.spacing for each in apart)
