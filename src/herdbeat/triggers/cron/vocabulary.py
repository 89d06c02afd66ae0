"""The six fields of an expression: their names, their ranges, and the words that stand for numbers."""

from dataclasses import dataclass, field

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronField:
    """One field: what people call it and what may stand in it."""

    name: str
    low: int
    high: int
    names: dict[str, int] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        """The range as a message says it: "0-23", "1-12 or JAN-DEC"."""
        if not self.names:
            return f"{self.low}-{self.high}"
        return f"{self.low}-{self.high} or {next(iter(self.names))}-{list(self.names)[-1]}"

    def value(self, token: str) -> int | None:
        """The number that a token stands for; None if it is not one of this field."""
        if token in self.names:
            return self.names[token]
        if not token.isdigit() or not self.low <= int(token) <= self.high:
            return None
        return int(token)


SECOND = CronField(name="second", low=0, high=59)
MINUTE = CronField(name="minute", low=0, high=59)
HOUR = CronField(name="hour", low=0, high=23)
DAY_OF_MONTH = CronField(name="day of month", low=1, high=31)
MONTH = CronField(name="month", low=1, high=12, names={name: at + 1 for at, name in enumerate(MONTH_NAMES)})
DAY_OF_WEEK = CronField(name="day of week", low=0, high=7, names={name: at for at, name in enumerate(WEEKDAY_NAMES)})

CRON_FIELDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


def select_cron_fields(fields: list[str]) -> tuple[CronField, ...]:
    """The fields in the order written: five leave the second out."""
    return CRON_FIELDS[-len(fields) :]
