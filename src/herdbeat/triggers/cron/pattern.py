"""The wall-clock times that an expression matches, without regard to clock changes; and the fields of an expression."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta

from herdbeat.triggers.cron.day_match import ONE_DAY, DayMatcher

_ALL_HOURS = tuple(range(24))
_ALL_MINUTES = _ALL_SECONDS = tuple(range(60))


@dataclass(frozen=True, slots=True)
class CronPattern:
    """The matching wall-clock times. `instants` decides what a clock change does to them.

    `seconds` are relative to the first one, which is `shift`. So "15 30 2 * * *" is "30 2 * * *" plus 15
    seconds, also in the night in which 02:30 is moved.
    """

    days: DayMatcher
    is_every_day: bool
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    shift: timedelta
    is_fixed: bool
    """True if neither minute nor hour begins with `*`: it means certain times of day, not "every n minutes"."""

    @classmethod
    def from_days(cls, days: DayMatcher) -> "CronPattern":
        seconds = _sorted_values(days.seconds, _ALL_SECONDS)
        if first := seconds[0]:
            seconds = tuple(second - first for second in seconds)
        return cls(
            days,
            days.is_every_day,
            _sorted_values(days.hours, _ALL_HOURS),
            _sorted_values(days.minutes, _ALL_MINUTES),
            seconds,
            timedelta(seconds=first),
            not days.parts[1].startswith("*") and not days.parts[2].startswith("*"),
        )

    def first(self, wall: datetime) -> datetime:
        """Return the first matching time at or after `wall`, with its tzinfo. Raises OverflowError after year 9999."""
        if self.is_every_day or self.days.matches(wall.date()):
            hour, minute = wall.hour, wall.minute
            if hour in self.days.hours:
                if minute in self.days.minutes:
                    at = bisect_left(self.seconds, wall.second)
                    if at < len(self.seconds):
                        second = self.seconds[at]
                        return wall if second == wall.second else wall.replace(second=second)
                at = bisect_right(self.minutes, minute)
                if at < len(self.minutes):
                    return wall.replace(minute=self.minutes[at], second=0)
            at = bisect_right(self.hours, hour)
            if at < len(self.hours):
                return wall.replace(hour=self.hours[at], minute=self.minutes[0], second=0)
        day = self.days.first(wall.date() + ONE_DAY)
        return datetime(day.year, day.month, day.day, self.hours[0], self.minutes[0], tzinfo=wall.tzinfo)

    def count(self, start: datetime, end: datetime) -> int:
        """Return the number of matching times from `start` up to, not including, `end`: days x times per day."""
        if start >= end:
            return 0
        per_day = len(self.hours) * len(self.minutes) * len(self.seconds)
        whole = self.days.count(start.date(), end.date()) * per_day
        return whole - self._count_since_midnight(start) + self._count_since_midnight(end)

    def _count_since_midnight(self, wall: datetime) -> int:
        """Return the number of matching times of that day before `wall`."""
        return self._count_before(wall.time()) if self.days.matches(wall.date()) else 0

    def _count_before(self, at: time) -> int:
        count = bisect_left(self.hours, at.hour) * len(self.minutes) * len(self.seconds)
        if at.hour in self.hours:
            count += bisect_left(self.minutes, at.minute) * len(self.seconds)
            if at.minute in self.minutes:
                count += bisect_left(self.seconds, at.second)
        return count


def _sorted_values(values: set[int], every: tuple[int, ...]) -> tuple[int, ...]:
    return every if len(values) == len(every) else tuple(sorted(values))


MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronField:
    """One field of an expression: its name, its range, and the names that are allowed instead of numbers."""

    name: str
    low: int
    high: int
    names: dict[str, int] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        """The range as messages show it: "0-23", "1-12 or JAN-DEC"."""
        if not self.names:
            return f"{self.low}-{self.high}"
        return f"{self.low}-{self.high} or {next(iter(self.names))}-{list(self.names)[-1]}"

    def value(self, token: str) -> int | None:
        """Return the number of a token; None if it is neither a number in range nor a name of this field."""
        if token in self.names:
            return self.names[token]
        return int(token) if token.isdigit() and self.low <= int(token) <= self.high else None


SECOND = CronField(name="second", low=0, high=59)
MINUTE = CronField(name="minute", low=0, high=59)
HOUR = CronField(name="hour", low=0, high=23)
DAY_OF_MONTH = CronField(name="day of month", low=1, high=31)
MONTH = CronField(name="month", low=1, high=12, names={name: at + 1 for at, name in enumerate(MONTH_NAMES)})
DAY_OF_WEEK = CronField(name="day of week", low=0, high=7, names={name: at for at, name in enumerate(WEEKDAY_NAMES)})

CRON_FIELDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


def select_cron_fields(fields: list[str]) -> tuple[CronField, ...]:
    """Return the fields that an expression of five or six parts has: five omit the second."""
    return CRON_FIELDS[-len(fields) :]
