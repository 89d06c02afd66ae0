"""The offset transitions of a zone."""

from datetime import UTC, datetime, timedelta

from herdbeat.timestamps import parse_timestamp, parse_zone
from herdbeat.triggers.cron.dst import OffsetTransition, first_transition, iter_transitions, last_transition

BERLIN = parse_zone("Europe/Berlin")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SPRING = OffsetTransition(
    at=parse_timestamp("2026-03-29T01:00:00Z"), before=timedelta(hours=1), after=timedelta(hours=2)
)
AUTUMN = OffsetTransition(
    at=parse_timestamp("2026-10-25T01:00:00Z"), before=timedelta(hours=2), after=timedelta(hours=1)
)


def test_all_transitions_of_a_year_are_found() -> None:
    found = list(iter_transitions(BERLIN, NEW_YEAR, NEW_YEAR + timedelta(days=365)))

    assert found == [SPRING, AUTUMN]


def test_the_first_and_the_last_transition_are_found() -> None:
    assert first_transition(BERLIN, NEW_YEAR, NEW_YEAR + timedelta(days=365)) == SPRING
    assert last_transition(BERLIN, NEW_YEAR, NEW_YEAR + timedelta(days=365)) == AUTUMN
    assert last_transition(BERLIN, NEW_YEAR, NEW_YEAR + timedelta(days=30)) is None
    assert first_transition(parse_zone("UTC"), NEW_YEAR, NEW_YEAR + timedelta(days=365)) is None


def test_the_span_excludes_its_start_and_includes_its_end() -> None:
    assert first_transition(BERLIN, SPRING.at, SPRING.at + timedelta(hours=1)) is None
    assert first_transition(BERLIN, SPRING.at - timedelta(seconds=1), SPRING.at) == SPRING


def test_a_span_with_microseconds_finds_the_whole_second() -> None:
    bit = timedelta(microseconds=250)

    assert first_transition(BERLIN, SPRING.at - bit, SPRING.at + bit) == SPRING
    assert last_transition(BERLIN, SPRING.at - timedelta(hours=5) - bit, SPRING.at + bit) == SPRING


def test_a_transition_has_the_wall_times_before_and_after() -> None:
    assert SPRING.is_forward
    assert (SPRING.wall_before.hour, SPRING.wall_after.hour) == (2, 3)
    assert not AUTUMN.is_forward
    assert (AUTUMN.wall_before.hour, AUTUMN.wall_after.hour) == (3, 2)
