"""A slow and simple reference for clock changes: it reads the wall clock once a minute."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
SAMPLE_STEP = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class SampledWallClock:
    """Every minute of a few hours: the instant, and the wall time then."""

    minutes: tuple[tuple[datetime, datetime], ...]

    @classmethod
    def sample_around(cls, zone: ZoneInfo, moment: datetime, hours: int) -> "SampledWallClock":
        start = moment - timedelta(hours=hours)
        instants = (start + MINUTE * each for each in range(hours * 120))
        return cls(tuple((each, each.astimezone(zone).replace(tzinfo=None, fold=0)) for each in instants))

    @property
    def start(self) -> datetime:
        return self.minutes[0][0] - MINUTE

    @property
    def end(self) -> datetime:
        return self.minutes[-1][0]

    def instants_shown(self, minutes: set[int], hours: set[int]) -> list[datetime]:
        """Return all instants at which the wall clock shows such a time."""
        return [at for at, wall in self.minutes if wall.minute in minutes and wall.hour in hours]

    def first_instants(self, minutes: set[int], hours: set[int]) -> list[datetime]:
        """Return, for every such time, the first instant at which the wall clock shows it or has jumped past it."""
        highest = self.minutes[0][1] - MINUTE
        found: list[datetime] = []
        for at, wall in self.minutes:
            passed = [highest + MINUTE * each for each in range(1, (wall - highest) // MINUTE + 1)]
            if any(each.minute in minutes and each.hour in hours for each in passed):
                found.append(at)
            highest = max(highest, wall)
        return found


def transitions_by_sampling(zone: ZoneInfo, first_year: int, last_year: int) -> list[datetime]:
    """Return when the offset changes, to the minute, found without the code under test."""
    at, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    found = []
    before = at.astimezone(zone).utcoffset()
    while at < end:
        after = (at + SAMPLE_STEP).astimezone(zone).utcoffset()
        if before != after:
            found.append(_transition_within(zone, at))
        at, before = at + SAMPLE_STEP, after
    return found


def _transition_within(zone: ZoneInfo, at: datetime) -> datetime:
    before = at.astimezone(zone).utcoffset()
    low, high = 0, SAMPLE_STEP // MINUTE
    while high - low > 1:
        middle = (low + high) // 2
        if (at + MINUTE * middle).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return at + MINUTE * high
