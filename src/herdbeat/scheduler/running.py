"""The runs that a node holds right now, and which of them is in the way of a beat."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.claim import Claim
from herdbeat.domain.run import Outcome
from herdbeat.store.base import NewBeat


class ActiveRun(NamedTuple):
    """A run that this node holds."""

    claim: Claim
    task: asyncio.Task[None]
    since: datetime


@dataclass(slots=True)
class PendingCancel:
    """How a run ends that was told to. It is `out` when only what cannot be stopped is left of it."""

    outcome: Outcome
    is_detached: bool = False


class BlockingRun(NamedTuple):
    """A run that is in the way of a beat; nothing if none is, or it is another node's."""

    run_id: int | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BlockingRuns:
    """The oldest run of each target and of each schedule."""

    targets: dict[int, BlockingRun]
    schedules: dict[int, BlockingRun]

    @classmethod
    def from_runs(cls, running: Iterable[ActiveRun]) -> "BlockingRuns":
        blocking_runs = cls({}, {})
        for claim, _, since in running:
            blocking_run = BlockingRun(claim.run_id, since)
            blocking_runs.targets.setdefault(claim.target_id, blocking_run)
            blocking_runs.schedules.setdefault(claim.schedule_id, blocking_run)
        return blocking_runs

    def blocking(self, beat: NewBeat) -> BlockingRun:
        """Who has the place that this beat did not get."""
        if beat.reason == SkipReason.AT_CAPACITY:
            return self.targets.get(beat.target_id, BlockingRun())
        if beat.reason == SkipReason.ALREADY_RUNNING:
            return self.schedules.get(beat.schedule_id, BlockingRun())
        return BlockingRun()
