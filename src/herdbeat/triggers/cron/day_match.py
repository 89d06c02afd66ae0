"""Which days an expression names. The matching is cronsim's; `15W` and the `+` of agentd's dialect are ours."""

import calendar
from bisect import bisect_right
from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime, timedelta
from functools import cached_property

from cronsim import CronSim

ONE_DAY = timedelta(days=1)

# cronsim wants a start. It never walks from here: we only ask it about days, and it answers without a zone.
_CRONSIM_START = datetime(2000, 1, 1)  # noqa: DTZ001 -- wall time has no zone

# Every kind of year there is (7 weekdays of 1 January, leap or not) occurs in any 28 years inside a century:
# a day that is not in here is in no calendar.
_CALENDAR_CYCLE = (date(2000, 1, 1), date(2028, 1, 1))


class DayMatcher(CronSim):
    """The fields of an expression, read by cronsim, and the days that they name.

    Holds no position: many threads may ask one value.
    """

    nearest_days: frozenset[int] = frozenset()
    """The days of month written as `15W`."""

    def __init__(self, fields: list[str], *, require_both: bool = False) -> None:
        """`both` asks for days that match both fields, where cron would take either."""
        super().__init__(" ".join(fields), _CRONSIM_START)
        self.day_and = self.day_and or require_both

    def matches(self, day: date) -> bool:
        return day.month in self.months and self.match_day(day)

    def first(self, day: date) -> date:
        """The first matching day, the given one included. Raises OverflowError where the calendar ends."""
        months, following = self.months, self._next_numbered_day if self.is_numeric else _next_day
        while True:
            if day.month not in months:
                day = self._next_matching_month(day)
            elif self.match_day(day):
                return day
            else:
                day = following(day)

    def _next_numbered_day(self, day: date) -> date:
        """The next day of this month that is named by its number, or the first of the next month."""
        index = bisect_right(self.sorted_days, day.day)
        try:
            return day.replace(day=self.sorted_days[index])
        except (IndexError, ValueError):  # no more numbers, or a 29th to 31st that this month has not
            return self._next_matching_month(day)

    def _next_matching_month(self, day: date) -> date:
        """The first day of the next month that is named."""
        index = bisect_right(self.sorted_months, day.month)
        year = day.year + (index == len(self.sorted_months))
        if year > MAXYEAR:
            raise OverflowError("the calendar ends with the year 9999")
        return date(year, self.sorted_months[index % len(self.sorted_months)], 1)

    def count(self, start: date, end: date) -> int:
        """How many matching days there are from `start` up to, not including, `end`."""
        if self.is_every_day:
            return (end - start).days
        return sum(map(self.matches, _iter_days(start, end)))

    @property
    def is_every_day(self) -> bool:
        return len(self.months) == 12 and self.parts[3] == "*" and self.parts[5] == "*"

    @cached_property
    def is_numeric(self) -> bool:
        """True if only numbers in the day of month decide."""
        return self.parts[5] == "*" and min(self.days, default=0) > 0 and not self.nearest_days

    @cached_property
    def sorted_months(self) -> list[int]:
        return sorted(self.months)

    @cached_property
    def sorted_days(self) -> list[int]:
        return sorted(self.days)

    @property
    def is_possible(self) -> bool:
        """False if no year has such a day, as for 30 February."""
        if self.parts[5] == "*" and not self.nearest_days:
            return True  # with a free weekday, cronsim has compared days and months already
        return any(map(self.matches, _iter_days(*_CALENDAR_CYCLE)))


class NearestWeekdayMatcher(DayMatcher):
    """Days of which some are written as `15W`, which cronsim cannot read."""

    def __init__(self, fields: list[str], nearest_days: frozenset[int], *, require_both: bool = False) -> None:
        *front, day, month, weekday = fields
        # An L beside them, because cronsim can neither read an empty field nor know that "30,15W" is possible
        # in February; it is forgotten again unless it was written.
        super().__init__([*front, f"{day},L" if day else "L", month, weekday], require_both=require_both)
        if "L" not in day.split(","):
            self.days.discard(CronSim.LAST)
        self.nearest_days = nearest_days

    def match_dom(self, d: date) -> bool:
        return super().match_dom(d) or any(nearest_weekday(d.year, d.month, day) == d.day for day in self.nearest_days)


def nearest_weekday(year: int, month: int, day: int) -> int:
    """The weekday nearest to a day, without leaving its month; 0 if the month has no such day."""
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
