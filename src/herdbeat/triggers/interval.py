"""`interval` triggers: due a fixed time after the last beat was settled."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Self

from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration, parse_duration
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.variables import beat_variables


@dataclass(frozen=True, slots=True)
class Interval:
    """Keeps `every` between the end of one run and the start of the next, so runs never pile up."""

    kind: ClassVar[TriggerKind] = TriggerKind.INTERVAL
    every: timedelta

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "5m". Raises IntervalParseError."""
        return cls(parse_duration(text))

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        return cls.parse(options["every"])

    @property
    def interval(self) -> timedelta:
        return self.every

    def next_time(self, last: datetime | None, now: datetime) -> datetime:
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
