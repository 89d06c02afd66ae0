"""Every clock change of every zone from 2020 to 2035 follows the documented rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zlib import crc32
from zoneinfo import ZoneInfo, available_timezones

import pytest
from tests.support.wall_clock import SampledWallClock, transitions_by_sampling

from herdbeat.triggers import Cron
from herdbeat.triggers.cron.dst import iter_transitions

FIRST_YEAR, LAST_YEAR = 2020, 2035
YEARS = LAST_YEAR - FIRST_YEAR + 1
SECOND = timedelta(seconds=1)
SHARES = 8
"""The zones are distributed over this many tests, which can run in parallel. Zones with the same rules are in one."""


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, and the instants it must have around one clock change."""

    expression: str
    expected: list[datetime]


@cache
def zones_by_share() -> dict[int, list[ZoneInfo]]:
    """Return all zones, so that those with the same offsets are in one share.

    The offset of each week tells that apart in a fraction of the time that it takes to find the transitions.
    """
    shares: dict[int, list[ZoneInfo]] = {share: [] for share in range(SHARES)}
    for zone in map(ZoneInfo, sorted(available_timezones())):
        weeks = (datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) + timedelta(weeks=each) for each in range(YEARS * 53))
        shares[crc32(repr([_offset(zone, week) for week in weeks]).encode()) % SHARES].append(zone)
    return shares


@cache
def zones_that_differ(share: int) -> list[tuple[ZoneInfo, tuple[datetime, ...]]]:
    """Return each zone of the share with its transitions. Of zones that are equal in these years, one is enough."""
    found: dict[tuple[object, ...], tuple[ZoneInfo, tuple[datetime, ...]]] = {}
    for zone in zones_by_share()[share]:
        times = tuple(transitions_by_sampling(zone, FIRST_YEAR, LAST_YEAR))
        behaviour = (times, *(_offset(zone, each + step) for each in times for step in (-SECOND, SECOND)))
        found.setdefault(behaviour, (zone, times))
    return [each for each in found.values() if each[1]]


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def cases(zone: ZoneInfo, change: datetime, clock: SampledWallClock) -> Iterator[Case]:
    """Return times in the middle of what is skipped or repeated, at its edges, and around it."""
    before, after = (_offset(zone, each) for each in (change - SECOND, change))
    assert before is not None
    assert after is not None
    middle = (change + (before + after) / 2).replace(tzinfo=None)
    edge = (change + after).replace(tzinfo=None)
    hours = {(middle.hour + each) % 24 for each in (-2, -1, 0, 1, 2)}
    listed = ",".join(map(str, sorted(hours)))
    for minute, hour in {(middle.minute, middle.hour), (edge.minute, edge.hour)}:
        yield Case(f"{minute} {hour} * * *", clock.first_instants({minute}, {hour}))
        yield Case(f"*/10 {hour} * * *", clock.instants_shown(set(range(0, 60, 10)), {hour}))
        yield Case(f"{minute} * * * *", clock.instants_shown({minute}, set(range(24))))
    yield Case(f"0,15,30,45 {listed} * * *", clock.first_instants({0, 15, 30, 45}, hours))
    yield Case("*/15 * * * *", clock.instants_shown({0, 15, 30, 45}, set(range(24))))


def wrong_answers(cron: Cron, clock: SampledWallClock, expected: list[datetime]) -> Iterator[str]:
    """Return the wrong results, searched from every few minutes in both passes, and from right before and at each
    instant.
    """
    starts = [at for at, _ in clock.minutes[::11]] + [each - step for each in expected for step in (SECOND, SECOND * 0)]
    for start in starts:
        wanted = next((each for each in expected if each > start), None)
        got = cron.next_time(None, start)
        if wanted is not None and got != wanted:
            yield f"{cron} from {start}: {got}, not {wanted}"
    if cron.count(clock.start, clock.end) != len(expected):
        yield f"{cron}: count {cron.count(clock.start, clock.end)}, not {len(expected)}"
    if cron.latest(clock.start, clock.end) != (expected[-1] if expected else None):
        yield f"{cron}: latest {cron.latest(clock.start, clock.end)}, not {expected[-1:]}"


@pytest.mark.parametrize("share", range(SHARES))
def test_fixed_times_run_once_and_frequent_ones_follow_real_time(share: int) -> None:
    zones = zones_that_differ(share)

    wrong = [
        answer
        for zone, times in zones
        for change in times
        for clock in [SampledWallClock.sample_around(zone, change, hours=5)]
        for case in cases(zone, change, clock)
        for answer in wrong_answers(Cron.parse(case.expression, zone), clock, case.expected)
    ]

    assert zones
    assert wrong == []


@pytest.mark.parametrize("share", range(SHARES))
def test_no_transition_is_missed(share: int) -> None:
    start, end = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)

    for zone, times in zones_that_differ(share):
        assert tuple(change.at for change in iter_transitions(zone, start, end)) == times, zone
