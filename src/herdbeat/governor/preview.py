"""What the governor will answer from now on, if every run takes no time and succeeds."""

from collections.abc import Iterator
from datetime import datetime

from herdbeat.domain.decision import Decision, Source
from herdbeat.governor.decide import decide
from herdbeat.governor.state import ScheduleState


def forecast_decisions(now: datetime, state: ScheduleState) -> Iterator[Decision]:
    """The next runs, one decision each. Endless for most schedules: take as many as you need."""
    while True:
        decision = decide(now, state)
        if decision.wake_at is None:
            return
        now = decision.wake_at
        if decision.source is Source.PAUSED or decision.next_run_at != now:
            continue  # only a moment to decide again: a pause or a hint ends
        yield decision
        assert decision.due_at is not None
        state = state.settled(decision.due_at, now)
