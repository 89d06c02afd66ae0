"""What a node tells those who listen: every start, end and skip, once, and only when it is written down."""

from collections.abc import Collection, Sequence
from datetime import datetime

from herdbeat.domain.claim import Claim
from herdbeat.domain.gap import Gap
from herdbeat.events import (
    BeatSettled,
    EventListener,
    GapDetected,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    null_listener,
    safe_listener,
)
from herdbeat.scheduler.finish import CompletionResult
from herdbeat.scheduler.quarantine import QuarantinedSchedule
from herdbeat.scheduler.running import ActiveRun, BlockingRuns
from herdbeat.store.base import NewBeat


class EventPublisher:
    """Makes events of what the ledger was told. A listener that fails harms nobody."""

    def __init__(self, listener: EventListener) -> None:
        self._listener = safe_listener(listener)

    def started(self, now: datetime, claims: Sequence[Claim]) -> None:
        if self._listener is null_listener:
            return  # thousands of values a second that nobody would look at
        for each in claims:
            self._listener(RunStarted(now, each.label, each.run_id, each.source, each.due_at, each.attempt))

    def settled(self, now: datetime, beats: Sequence[tuple[str, NewBeat]], running: Collection[ActiveRun]) -> None:
        """`running` has the runs that may be in the way of what has to wait."""
        if self._listener is null_listener or not beats:
            return
        blocking_runs = BlockingRuns.from_runs(running)
        for label, beat in beats:
            what = (beat.outcome, beat.reason, beat.due_at, beat.last_due_at, beat.number)
            self._listener(BeatSettled(now, label, *what, *blocking_runs.blocking(beat)))

    def finished(self, finished: CompletionResult) -> None:
        for each in finished.completed:
            self._listener(RunFinished(finished.at, *each))

    def quarantined(self, now: datetime, schedules: Sequence[QuarantinedSchedule]) -> None:
        for each in schedules:
            self._listener(ScheduleQuarantined(now, *each))

    def time_lost(self, now: datetime, gap: Gap) -> None:
        self._listener(GapDetected(now, gap))
