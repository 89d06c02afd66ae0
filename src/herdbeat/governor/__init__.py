"""The governor: a pure function from the state of a schedule to its next run, with a trace of how it decided."""

from herdbeat.domain.decision import Decision
from herdbeat.governor.decide import decide
from herdbeat.governor.forecast import forecast_decisions
from herdbeat.governor.state import Pause, ScheduleState

__all__ = ["Decision", "Pause", "ScheduleState", "decide", "forecast_decisions"]
