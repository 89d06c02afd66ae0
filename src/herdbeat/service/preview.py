"""When next? Asked of a schedule or a whole fleet, and answered by the governor itself.

Nothing is reckoned here a second time, so a preview shows what the engine will do. `start` is the moment from which on
instants are wanted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import merge

from herdbeat.domain.decision import Decision, Source, StepKind
from herdbeat.domain.schedule import Schedule
from herdbeat.governor import decide, forecast_decisions
from herdbeat.service.instants import (
    NoNextRunReason,
    UnscheduledEntry,
    UpcomingRun,
    describe_clock_change,
    stop_at_calendar_end,
)
from herdbeat.service.outlook import ForecastInput, build_file_forecast

_HINT_SOURCES = frozenset({Source.AI_INTERVAL, Source.AI_ONESHOT})
_ADJUSTMENT_STEPS = frozenset({StepKind.JITTER, StepKind.CLAMP, StepKind.HOURS, StepKind.BOUND, StepKind.NOTE})


def iter_schedule_runs(schedule: Schedule, now: datetime) -> Iterator[UpcomingRun]:
    """The instants of a schedule created this moment. None at all if it is disabled or waits for events."""
    return iter_forecast_runs(build_file_forecast(schedule, now), now)


def iter_forecast_runs(forecast: ForecastInput, start: datetime) -> Iterator[UpcomingRun]:
    """The instants of a schedule. None at all if it is held, disabled, or waits for events."""
    return stop_at_calendar_end(_iter_forecast_runs(forecast, start))


def iter_fleet_runs(forecasts: Iterable[ForecastInput], start: datetime) -> Iterator[UpcomingRun]:
    """The instants of all schedules in one row, by time; at the same time, in the order of the file."""
    return merge(*(iter_forecast_runs(each, start) for each in forecasts), key=lambda each: each.next_run_at)


def find_next_runs(forecasts: Iterable[ForecastInput], start: datetime) -> list[UpcomingRun]:
    """The next instant of each schedule that has one, by time."""
    found = (next(iter_forecast_runs(each, start), None) for each in forecasts)
    return sorted((each for each in found if each is not None), key=lambda each: each.next_run_at)


def annotate_skips(instants: Iterable[UpcomingRun], skips: Mapping[str, int]) -> Iterator[UpcomingRun]:
    """The same, with a note at those that somebody asked to let pass: the first so many of their schedule."""
    left = dict(skips)
    for each in instants:
        if left.get(each.schedule, 0) > 0:
            left[each.schedule] -= 1
            yield replace(each, notes=("let pass: by_request", *each.notes))
        else:
            yield each


def find_unscheduled(forecasts: Iterable[ForecastInput], start: datetime) -> list[UnscheduledEntry]:
    """The schedules that have no time, each with the reason."""
    found = (_find_unscheduled_entry(each, start) for each in forecasts)
    return [each for each in found if each is not None]


def _iter_forecast_runs(forecast: ForecastInput, start: datetime) -> Iterator[UpcomingRun]:
    if forecast.find_unscheduled(start) is not None:
        return
    previous: datetime | None = None
    for decision in forecast_decisions(*forecast.starting_point(start)):
        assert decision.next_run_at is not None
        due_at = decision.due_at or decision.next_run_at
        yield UpcomingRun(
            schedule=forecast.label,
            due_at=due_at,
            next_run_at=max(start, decision.next_run_at),
            source=decision.source,
            notes=(
                *describe_clock_change(forecast.trigger, due_at, previous),
                *_describe_adjustments(decision),
                *_describe_pause_end(forecast, decision),
            ),
            trace=decision.trace,
        )
        previous = due_at


def _find_unscheduled_entry(forecast: ForecastInput, start: datetime) -> UnscheduledEntry | None:
    if (unscheduled := forecast.find_unscheduled(start)) is not None:
        return unscheduled
    decision = decide(*forecast.starting_point(start))
    if decision.wake_at is not None:
        return None
    cause, reason = _find_forecast_cause(forecast, decision)
    return UnscheduledEntry(schedule=forecast.label, when=forecast.trigger.describe(), cause=cause, reason=reason)


def _find_forecast_cause(forecast: ForecastInput, decision: Decision) -> tuple[NoNextRunReason, str]:
    if not forecast.state.enabled:
        return NoNextRunReason.DISABLED, "it has no next time until it is enabled"
    if forecast.trigger.kind.waits_for_event:
        return NoNextRunReason.WAITING, "only an event fires it"
    return NoNextRunReason.ENDED, decision.trace[-1].text if decision.trace else ""


def _describe_adjustments(decision: Decision) -> tuple[str, ...]:
    return tuple(
        step.text
        for step in decision.trace
        if step.kind in _ADJUSTMENT_STEPS or (step.won and step.source in _HINT_SOURCES)
    )


def _describe_pause_end(forecast: ForecastInput, decision: Decision) -> tuple[str, ...]:
    pause = forecast.state.pause
    return ("its pause ends then",) if pause is not None and pause.until == decision.next_run_at else ()
