"""What a node tells those who listen: every start, end and skip, once, and only when it is written down."""

from collections.abc import Collection, Sequence
from datetime import datetime

from herdbeat.domain.claim import Claim
from herdbeat.domain.gap import Gap
from herdbeat.events import (
    BeatSettled,
    Listener,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    TimeLost,
    contained,
    nobody,
)
from herdbeat.scheduler.finish import Finished
from herdbeat.scheduler.quarantine import Quarantined
from herdbeat.scheduler.running import Occupants, Running
from herdbeat.store.base import NewBeat


class Teller:
    """Makes events of what the ledger was told. A listener that fails harms nobody."""

    def __init__(self, listener: Listener) -> None:
        self._tell = contained(listener)

    def started(self, now: datetime, claims: Sequence[Claim]) -> None:
        if self._tell is nobody:
            return  # thousands of values a second that nobody would look at
        for each in claims:
            self._tell(RunStarted(now, each.label, each.run_id, each.source, each.due_at, each.attempt))

    def settled(self, now: datetime, beats: Sequence[tuple[str, NewBeat]], running: Collection[Running]) -> None:
        """`running` has the runs that may be in the way of what has to wait."""
        if self._tell is nobody or not beats:
            return
        occupants = Occupants.of(running)
        for label, beat in beats:
            what = (beat.outcome, beat.reason, beat.due_at, beat.last_due_at, beat.number)
            self._tell(BeatSettled(now, label, *what, *occupants.before(beat)))

    def finished(self, finished: Finished) -> None:
        for each in finished.closed:
            self._tell(RunFinished(finished.at, *each))

    def quarantined(self, now: datetime, schedules: Sequence[Quarantined]) -> None:
        for each in schedules:
            self._tell(ScheduleQuarantined(now, *each))

    def time_lost(self, now: datetime, gap: Gap) -> None:
        self._tell(TimeLost(now, gap))
