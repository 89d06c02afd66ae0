"""`cron` triggers: an expression that is due at wall-clock times of a zone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import ClassVar, Self
from zoneinfo import ZoneInfo

from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.timestamps import format_timestamp, parse_zone
from herdbeat.triggers.cron.describe import DstNote, DstNoteKind, describe_pattern, find_dst_notes
from herdbeat.triggers.cron.instants import count_instants, latest_instant, next_instant
from herdbeat.triggers.cron.parser import parse_expression
from herdbeat.triggers.cron.pattern import CronPattern
from herdbeat.triggers.variables import beat_variables

__all__ = ["Cron", "DstNote", "DstNoteKind"]


@dataclass(frozen=True, slots=True)
class Cron(CalendarTrigger):
    """An expression on the wall clock of a zone. Parsed once, by `parse`; safe to use from several threads.

    Clock changes are handled as in Debian's cron. A fixed time that the clocks skip runs once, right after
    the gap; one that occurs twice runs the first time. Frequent expressions (minute or hour begins with `*`)
    follow real time: no instant in the gap, and both passes of a repeated hour.
    """

    kind: ClassVar[TriggerKind] = TriggerKind.CRON
    interval: ClassVar[None] = None
    anchor: ClassVar[None] = None
    expression: str
    zone: ZoneInfo
    pattern: CronPattern = field(repr=False, compare=False)

    @classmethod
    def parse(cls, expression: str, zone: ZoneInfo) -> Self:
        """Parse an expression.

        Raises CronParseError, which names field, token and range, and CronNeverFires if no year has such a day.
        """
        return cls(" ".join(expression.split()), zone, parse_expression(expression))

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        return cls.parse(options["expression"], parse_zone(options["timezone"]))

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None:  # noqa: ARG002 -- the contract
        """Return the first instant strictly after `now`, in whole seconds UTC; None only after year 9999."""
        try:
            return next_instant(self.pattern, self.zone, now)
        except OverflowError:
            return None

    def upcoming(self, after: datetime) -> Iterator[datetime]:
        """Yield all instants strictly after `after`, in order."""
        instant = self.next_time(None, after)
        while instant is not None:
            yield instant
            instant = self.next_time(None, instant)

    def count(self, after: datetime, until: datetime) -> int:
        """Return the number of instants in (after, until], by arithmetic: ten years take milliseconds."""
        return count_instants(self.pattern, self.zone, after, until)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the newest instant in (after, until]; None if there is none."""
        return latest_instant(partial(self.next_time, None), after, until)

    def notes(self, instant: datetime, previous: datetime | None = None) -> tuple[DstNote, ...]:
        """Return what clock changes did to an instant of this trigger, or since the previous one."""
        return find_dst_notes(self.pattern, self.zone, instant, previous)

    def dedup_id(self, due_at: datetime, schedule: str) -> str:  # noqa: ARG002 -- the contract of Trigger
        return f"{self.kind}:{format_timestamp(due_at.replace(microsecond=0))}"

    def variables(self, due_at: datetime, schedule: str) -> dict[str, str]:
        due_at, title = due_at.replace(microsecond=0), f"Cron trigger: {self.expression}"
        return beat_variables(self, due_at, schedule, title, cron_expression=self.expression)

    def describe(self) -> str:
        return describe_pattern(self.pattern)

    def options(self) -> dict[str, str]:
        return {"expression": self.expression, "timezone": self.zone.key}
