"""What a scheduler tells its logger: one line for every start, end and skip, in the documented words."""

from collections.abc import Callable

from herdbeat.domain.beat import SkipReason
from herdbeat.events import BeatSettled, Event, RunFinished, RunStarted, ScheduleQuarantined
from herdbeat.faces.python.documented import SchedulerLogger

CapacityLookup = Callable[[str], tuple[int, int]]
"""How many runs of an agent are going, and how many may."""


class CompatLogger:
    """Listens, counts what was started, and writes the lines."""

    def __init__(self, logger: SchedulerLogger, capacity_lookup: CapacityLookup) -> None:
        self._logger = logger
        self._capacity_lookup = capacity_lookup
        self.started_count = 0

    def on_event(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.started_count += 1
            case RunFinished() if event.status.is_failure:
                line = f"Error executing {event.schedule}: {event.error or event.status}"
                self._logger.error(line)
            case BeatSettled():
                self._logger.info(self._format_skip(event))
            case ScheduleQuarantined():
                line = f"Skipping {event.schedule}: {SkipReason.CONFIG_ERROR} ({event.reason})"
                self._logger.error(line)
            case _:
                return

    def _format_skip(self, event: BeatSettled) -> str:
        if event.reason == SkipReason.AT_CAPACITY:
            return format_capacity_line(event.schedule, *self._capacity_lookup(event.schedule.rpartition("/")[0]))
        return f"Skipping {event.schedule}: {event.reason or event.outcome}"


def format_capacity_line(schedule: str, running: int, limit: int) -> str:
    """The documented sentence."""
    return f"Skipping {schedule}: at max capacity ({running}/{limit})"
