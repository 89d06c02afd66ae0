"""The catch-up matrix: outage x policy x max_late x grace, against a model too simple to be wrong."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.scheduler.misfires import InstantOutcome, classify_due
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

UTC_ZONE = ZoneInfo("UTC")
NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOURLY = Cron.parse("0 * * * *", UTC_ZONE)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def policies(
    catchup: Catchup, *, grace: timedelta = timedelta(seconds=30), max_late: timedelta | None = None, most: int = 100
) -> Policies:
    return Policies(zone=UTC_ZONE, timeout=HOUR, catchup=catchup, grace=grace, max_late=max_late, catchup_max=most)


def down(since: datetime, until: datetime) -> Gap:
    return Gap(from_at=since, until=until, reason=MissedReason.SCHEDULER_DOWN)


def told(fates: list[InstantOutcome]) -> list[tuple[str, str, int, int, str]]:
    """(outcome, reason, first hour, count, source)"""
    return [
        (fate.outcome, fate.reason, fate.instants.first.hour, fate.instants.count, fate.source or "") for fate in fates
    ]


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (Catchup.SKIP, [("missed", "scheduler_down", 9, 4, "")]),
        (Catchup.ONCE, [("merged", "once", 9, 3, ""), ("pending", "", 12, 1, "catch-up")]),
        (Catchup.ALL, [("pending", "", hour, 1, "catch-up") for hour in (9, 10, 11, 12)]),
    ],
)
def test_four_hours_of_outage(catchup: Catchup, expected: list[tuple[str, str, int, int, str]]) -> None:
    now = NINE + timedelta(hours=3, minutes=20)

    fates = classify_due(now, NINE, HOURLY, policies(catchup), [down(NINE - MINUTE, now)])

    assert told(fates) == expected


def test_a_restart_over_nine_o_clock_loses_nothing() -> None:
    now = NINE + timedelta(seconds=20)

    fates = classify_due(now, NINE, HOURLY, policies(Catchup.SKIP), [down(NINE - MINUTE, now)])

    assert told(fates) == [("pending", "", 9, 1, "")]


def test_without_a_gap_an_instant_runs_however_late() -> None:
    fates = classify_due(NINE + timedelta(minutes=50), NINE, HOURLY, policies(Catchup.SKIP), [])

    assert told(fates) == [("pending", "", 9, 1, "")]


def test_past_max_late_nothing_runs() -> None:
    now = NINE + timedelta(hours=3, minutes=20)

    fates = classify_due(now, NINE, HOURLY, policies(Catchup.ONCE, max_late=HOUR), [down(NINE - MINUTE, now)])

    assert told(fates) == [("missed", "too_late", 9, 3, ""), ("pending", "", 12, 1, "catch-up")]


def test_the_newest_missed_are_caught_up_and_the_older_are_missed() -> None:
    now = NINE + timedelta(hours=3, minutes=20)

    fates = classify_due(now, NINE, HOURLY, policies(Catchup.ALL, most=2), [down(NINE - MINUTE, now)])

    assert told(fates) == [
        ("missed", "scheduler_down", 9, 2, ""),
        ("pending", "", 11, 1, "catch-up"),
        ("pending", "", 12, 1, "catch-up"),
    ]


def test_a_missed_instant_is_absorbed_by_one_that_runs_now_anyway() -> None:
    up_again = NINE + timedelta(hours=2, minutes=30)
    now = NINE + timedelta(hours=3)

    fates = classify_due(now, NINE, HOURLY, policies(Catchup.ONCE), [down(NINE - MINUTE, up_again)])

    assert told(fates) == [("merged", "once", 9, 3, ""), ("pending", "", 12, 1, "")]


def test_ten_years_of_every_second_are_three_numbers() -> None:
    every_second = Cron.parse("* * * * * *", UTC_ZONE)
    now = NINE + timedelta(days=3_650)

    fates = classify_due(now, NINE, every_second, policies(Catchup.SKIP), [down(NINE - MINUTE, now - MINUTE)])

    assert sum(fate.instants.count for fate in fates) == 3_650 * 86_400 + 1


def test_an_overdue_interval_is_one_instant() -> None:
    now = NINE + timedelta(days=2)

    fates = classify_due(now, NINE, Interval(every=MINUTE), policies(Catchup.ONCE), [down(NINE - MINUTE, now)])

    assert told(fates) == [("pending", "", 9, 1, "catch-up")]


minutes = st.integers(0, 400).map(lambda count: count * MINUTE)
some_gaps = st.lists(st.tuples(minutes, minutes), max_size=3)


@given(
    expression=st.sampled_from(["0 * * * *", "*/15 * * * *", "5,50 9-11 * * *", "30 */2 * * *"]),
    late=minutes,
    edges=some_gaps,
    catchup=st.sampled_from(Catchup),
    grace=minutes,
    max_late=st.none() | minutes,
    most=st.integers(1, 5),
)
def test_a_naive_model_agrees_on_every_instant(
    expression: str,
    late: timedelta,
    edges: list[tuple[timedelta, timedelta]],
    catchup: Catchup,
    grace: timedelta,
    max_late: timedelta | None,
    most: int,
) -> None:
    cron = Cron.parse(expression, UTC_ZONE)
    due_at = next(cron.upcoming(NINE))
    now = due_at + late
    gaps = [down(due_at - HOUR + start, due_at - HOUR + start + length) for start, length in edges]
    gaps = _apart([gap for gap in gaps if gap.until <= now])
    chosen = policies(catchup, grace=grace, max_late=max_late, most=most)

    fates = classify_due(now, due_at, cron, chosen, gaps)

    assert _instant_by_instant(cron, fates) == _model(now, due_at, cron, chosen, gaps)


def _apart(gaps: list[Gap]) -> list[Gap]:
    """Gaps as they are recorded: in order, not overlapping."""
    kept: list[Gap] = []
    for gap in sorted(gaps, key=lambda gap: gap.from_at):
        if not kept or gap.from_at >= kept[-1].until:
            kept.append(gap)
    return kept


def _instant_by_instant(cron: Cron, fates: list[InstantOutcome]) -> dict[datetime, tuple[str, str, str]]:
    found: dict[datetime, tuple[str, str, str]] = {}
    for fate in fates:
        covered = [fate.instants.first]
        while len(covered) < fate.instants.count:
            following = cron.next_time(None, covered[-1])
            assert following is not None
            covered.append(following)
        assert covered[-1] == fate.instants.last
        assert not found.keys() & set(covered)
        found |= dict.fromkeys(covered, (fate.outcome, fate.reason, fate.source or ""))
    return found


def _model(
    now: datetime, due_at: datetime, cron: Cron, chosen: Policies, gaps: list[Gap]
) -> dict[datetime, tuple[str, str, str]]:
    """One instant after the other, by the words of the rule."""
    instants = [due_at]
    while (following := cron.next_time(None, instants[-1])) is not None and following <= now:
        instants.append(following)
    fates: dict[datetime, tuple[str, str, str]] = {}
    missed: list[datetime] = []
    for instant in instants:
        if chosen.max_late is not None and now - instant > chosen.max_late:
            fates[instant] = (BeatOutcome.MISSED, MissedReason.TOO_LATE, "")
        elif any(gap.from_at < instant <= gap.until for gap in gaps):
            missed.append(instant)
        else:
            fates[instant] = (BeatOutcome.PENDING, "", "")
    if missed and now - missed[-1] <= chosen.grace:
        fates[missed.pop()] = (BeatOutcome.PENDING, "", "")
    runs_anyway = any(outcome == BeatOutcome.PENDING for outcome, _, _ in fates.values())
    for back, instant in enumerate(reversed(missed)):
        fates[instant] = _missed_fate(chosen, back, runs_anyway=runs_anyway)
    return fates


def _missed_fate(chosen: Policies, back: int, *, runs_anyway: bool) -> tuple[str, str, str]:
    caught_up = (BeatOutcome.PENDING, "", Source.CATCH_UP)
    if chosen.catchup is Catchup.SKIP:
        return BeatOutcome.MISSED, MissedReason.SCHEDULER_DOWN, ""
    if chosen.catchup is Catchup.ALL:
        return caught_up if back < chosen.catchup_max else (BeatOutcome.MISSED, MissedReason.SCHEDULER_DOWN, "")
    return caught_up if back == 0 and not runs_anyway else (BeatOutcome.MERGED, Catchup.ONCE, "")
