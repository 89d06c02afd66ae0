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


class Running(NamedTuple):
    """A run that this node holds."""

    claim: Claim
    task: asyncio.Task[None]
    since: datetime


@dataclass(slots=True)
class Ending:
    """How a run ends that was told to. It is `out` when only what cannot be stopped is left of it."""

    outcome: Outcome
    is_out: bool = False


class Occupant(NamedTuple):
    """A run that is in the way of a beat; nothing if none is, or it is another node's."""

    run_id: int | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Occupants:
    """The oldest run of each target and of each schedule."""

    targets: dict[int, Occupant]
    schedules: dict[int, Occupant]

    @classmethod
    def of(cls, running: Iterable[Running]) -> "Occupants":
        occupants = cls({}, {})
        for claim, _, since in running:
            occupant = Occupant(claim.run_id, since)
            occupants.targets.setdefault(claim.target_id, occupant)
            occupants.schedules.setdefault(claim.schedule_id, occupant)
        return occupants

    def before(self, beat: NewBeat) -> Occupant:
        """Who has the place that this beat did not get."""
        if beat.reason == SkipReason.AT_CAPACITY:
            return self.targets.get(beat.target_id, Occupant())
        if beat.reason == SkipReason.ALREADY_RUNNING:
            return self.schedules.get(beat.schedule_id, Occupant())
        return Occupant()
