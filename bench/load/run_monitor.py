"""A listener that counts the finished runs of a node and how late each started."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.run import RunStatus
from herdbeat.events import Event, RunFinished, RunStarted

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Percentiles of `count` times, in milliseconds."""

    count: int
    p50: float
    p99: float
    longest: float

    @classmethod
    def from_times(cls, times: Sequence[timedelta]) -> "Percentiles":
        ordered = sorted(each / _MILLISECOND for each in times)
        return cls(
            count=len(ordered),
            p50=_percentile(ordered, 0.50),
            p99=_percentile(ordered, 0.99),
            longest=_percentile(ordered, 1.0),
        )


class RunMonitor:
    """Event listener. Its lateness covers schedules that begin with `prefix` and beats due at or after `since`."""

    def __init__(self, prefix: str = "", since: datetime | None = None) -> None:
        self._prefix = prefix
        self._since = since
        self._due: dict[int, datetime] = {}
        self._late: list[timedelta] = []
        self._enough = asyncio.Event()
        self._wanted = 0
        self.finished = 0
        self.failed: list[str] = []

    def __call__(self, event: Event) -> None:
        match event:
            case RunFinished():
                self._finish(event)
            case RunStarted() if event.schedule.startswith(self._prefix):
                self._due[event.run_id] = event.due_at
            case _:
                pass

    async def wait_finished(self, wanted: int) -> None:
        """Return once that many runs have finished and are durable."""
        self._wanted = wanted
        self._enough.clear()
        if self.finished < wanted:
            await self._enough.wait()

    @property
    def lateness(self) -> Percentiles:
        return Percentiles.from_times(self._late)

    def _finish(self, event: RunFinished) -> None:
        self.finished += 1
        if event.status is not RunStatus.SUCCEEDED:
            self.failed.append(f"{event.schedule}: {event.status} {event.error}")
        due_at = self._due.pop(event.run_id, None)
        if due_at is not None and event.started_at is not None and (self._since is None or due_at >= self._since):
            self._late.append(event.started_at - due_at)
        if self.finished >= self._wanted:
            self._enough.set()


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest rank, which is a measured value; NaN for an empty sequence."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
