"""`interval` triggers: due a fixed time after the last run has ended, or after the last due instant."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Self

from herdbeat.domain.trigger import InstantSeries, IntervalAnchor, TriggerKind
from herdbeat.durations import format_duration, parse_duration
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.variables import beat_variables


@dataclass(frozen=True, slots=True)
class Interval:
    """Keeps `every` between the end of one run and the start of the next, so runs never pile up."""

    kind: ClassVar[TriggerKind] = TriggerKind.INTERVAL
    anchor: ClassVar[IntervalAnchor] = IntervalAnchor.END
    every: timedelta

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "5m". Raises IntervalParseError."""
        return cls(parse_duration(text))

    @staticmethod
    def from_options(options: Mapping[str, str]) -> "Interval":
        return (FixedRate if options.get("anchor") == IntervalAnchor.START else Interval).parse(options["every"])

    @property
    def interval(self) -> timedelta:
        return self.every

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None:
        """Return `last + every`, which may be in the past (overdue), or `now` if there was no beat yet."""
        return now if last is None else last + self.every

    def dedup_id(self, due_at: datetime, schedule: str) -> str:  # noqa: ARG002 -- the contract of Trigger
        return f"{self.kind}:{format_timestamp(due_at)}"

    def variables(self, due_at: datetime, schedule: str) -> dict[str, str]:
        return beat_variables(self, due_at, schedule, f"Interval trigger: {format_duration(self.every)}")

    def describe(self) -> str:
        return f"every {format_duration(self.every)}"

    def options(self) -> dict[str, str]:
        return {"every": format_duration(self.every)}


@dataclass(frozen=True, slots=True)
class FixedRate(Interval, InstantSeries):
    """Due every `every`, however long the runs take: each instant is counted from the last one."""

    anchor: ClassVar[IntervalAnchor] = IntervalAnchor.START

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None:
        """Return the first instant strictly after `now`, counted from `last`, or from `now` without one."""
        start = now if last is None else last
        try:
            return start + max(1, (now - start) // self.every + 1) * self.every
        except OverflowError:
            return None

    def count(self, after: datetime, until: datetime) -> int:
        """Return the number of instants in (after, until]. `after` is one itself."""
        return max(0, (until - after) // self.every)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the newest instant in (after, until]; None if there is none. `after` is one itself."""
        count = self.count(after, until)
        return after + count * self.every if count else None

    def describe(self) -> str:
        return f"every {format_duration(self.every)} from start to start"

    def options(self) -> dict[str, str]:
        return {"every": format_duration(self.every), "anchor": self.anchor}
