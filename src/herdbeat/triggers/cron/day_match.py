"""Matches days. The matching is cronsim's; this module adds `15W` and the `+` of agentd's dialect."""

import calendar
from bisect import bisect_right
from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime, timedelta
from functools import cached_property

from cronsim import CronSim

ONE_DAY = timedelta(days=1)

# cronsim requires a start time, but only its iterator uses it. Here it only matches days, for which it needs no zone.
_CRONSIM_START = datetime(2000, 1, 1)  # noqa: DTZ001 -- wall time has no zone

# The 14 kinds of years (7 weekdays of 1 January, leap year or not) all occur within any 28 years that contain no
# omitted leap year: an expression that matches no day in this period never matches one.
_CALENDAR_CYCLE = (date(2000, 1, 1), date(2028, 1, 1))


class DayMatcher(CronSim):
    """The fields of an expression as cronsim parses them, and the days that they match.

    It keeps no position, unlike cronsim's iterator, so several threads can use one value.
    """

    nearest_days: frozenset[int] = frozenset()
    """The days of month written as `15W`."""

    def __init__(self, fields: list[str], *, require_both: bool = False) -> None:
        """Parse the fields. With `require_both` a day must match both day fields, where cron accepts either."""
        super().__init__(" ".join(fields), _CRONSIM_START)
        self.day_and = self.day_and or require_both

    def matches(self, day: date) -> bool:
        return day.month in self.months and self.match_day(day)

    def first(self, day: date) -> date:
        """Return the first matching day at or after `day`. Raises OverflowError after year 9999."""
        months, following = self.months, self._next_numbered_day if self.is_numeric else _next_day
        while True:
            if day.month not in months:
                day = self._next_matching_month(day)
            elif self.match_day(day):
                return day
            else:
                day = following(day)

    def _next_numbered_day(self, day: date) -> date:
        """Return the next day of this month that is listed by number, or the first day of the next matching month."""
        index = bisect_right(self.sorted_days, day.day)
        try:
            return day.replace(day=self.sorted_days[index])
        except (IndexError, ValueError):  # no further number, or a 29th to 31st that this month does not have
            return self._next_matching_month(day)

    def _next_matching_month(self, day: date) -> date:
        """Return the first day of the next matching month."""
        index = bisect_right(self.sorted_months, day.month)
        year = day.year + (index == len(self.sorted_months))
        if year > MAXYEAR:
            raise OverflowError("dates after the year 9999 are not supported")
        return date(year, self.sorted_months[index % len(self.sorted_months)], 1)

    def count(self, start: date, end: date) -> int:
        """Return the number of matching days from `start` up to, not including, `end`."""
        return (end - start).days if self.is_every_day else sum(map(self.matches, _iter_days(start, end)))

    @property
    def is_every_day(self) -> bool:
        return len(self.months) == 12 and self.parts[3] == "*" and self.parts[5] == "*"

    @cached_property
    def is_numeric(self) -> bool:
        """True if only day-of-month numbers decide, so that `first` can jump instead of testing each day."""
        return self.parts[5] == "*" and min(self.days, default=0) > 0 and not self.nearest_days

    @cached_property
    def sorted_months(self) -> list[int]:
        return sorted(self.months)

    @cached_property
    def sorted_days(self) -> list[int]:
        return sorted(self.days)

    @property
    def is_possible(self) -> bool:
        """False if no year has a matching day, as for 30 February."""
        if self.parts[5] == "*" and not self.nearest_days:
            return True  # without weekdays, cronsim itself rejects days that none of the months has
        return any(map(self.matches, _iter_days(*_CALENDAR_CYCLE)))


class NearestWeekdayMatcher(DayMatcher):
    """Matches also the weekday nearest to a day of month (`15W`), which cronsim does not know."""

    def __init__(self, fields: list[str], nearest_days: frozenset[int], *, require_both: bool = False) -> None:
        *front, day, month, weekday = fields
        # cronsim gets an extra L, because it rejects an empty field, and also "30,15W" in February. The L is removed
        # afterwards, unless it was in the expression.
        super().__init__([*front, f"{day},L" if day else "L", month, weekday], require_both=require_both)
        if "L" not in day.split(","):
            self.days.discard(CronSim.LAST)
        self.nearest_days = nearest_days

    def match_dom(self, d: date) -> bool:
        return super().match_dom(d) or any(nearest_weekday(d.year, d.month, day) == d.day for day in self.nearest_days)


def nearest_weekday(year: int, month: int, day: int) -> int:
    """Return the weekday (Monday to Friday) nearest to a day, within its month; 0 if the month has no such day."""
    first_weekday, length = calendar.monthrange(year, month)
    if day > length:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _next_day(day: date) -> date:
    return day + ONE_DAY


def _iter_days(start: date, end: date) -> Iterator[date]:
    return map(date.fromordinal, range(start.toordinal(), end.toordinal()))
