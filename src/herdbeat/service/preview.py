"""When next? Asked of a schedule or a whole fleet, and answered by the governor itself.

Nothing is reckoned here a second time, so a preview shows what the engine will do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import merge

from herdbeat.domain.decision import Decision, StepKind
from herdbeat.domain.schedule import Schedule
from herdbeat.governor import ScheduleState, decide, upcoming
from herdbeat.service.instants import Idle, Standing, Upcoming, clock_notes, until_calendar_ends

_MOVES = frozenset({StepKind.JITTER, StepKind.CLAMP, StepKind.HOURS, StepKind.BOUND, StepKind.NOTE})


def of_schedule(schedule: Schedule, now: datetime) -> Iterator[Upcoming]:
    """The instants of a schedule created this moment. None at all if it is disabled or waits for events."""
    return until_calendar_ends(_of_schedule(schedule, now))


def of_fleet(schedules: Iterable[Schedule], now: datetime) -> Iterator[Upcoming]:
    """The instants of all schedules in one row, by time; at the same time, in the order of the file."""
    return merge(*(of_schedule(each, now) for each in schedules), key=lambda each: each.next_run_at)


def firsts(schedules: Iterable[Schedule], now: datetime) -> list[Upcoming]:
    """The next instant of each schedule that has one, by time."""
    found = (next(of_schedule(each, now), None) for each in schedules)
    return sorted((each for each in found if each is not None), key=lambda each: each.next_run_at)


def with_wishes(instants: Iterable[Upcoming], wishes: Mapping[str, int]) -> Iterator[Upcoming]:
    """The same, with a note at those that somebody asked to let pass: the first so many of their schedule."""
    left = dict(wishes)
    for each in instants:
        if left.get(each.schedule, 0) > 0:
            left[each.schedule] -= 1
            yield replace(each, notes=("let pass: by_request", *each.notes))
        else:
            yield each


def idle(schedules: Iterable[Schedule], now: datetime) -> list[Idle]:
    """The schedules that have no time, each with the reason."""
    found = ((each, decide(now, ScheduleState.fresh(each, now))) for each in schedules)
    return [_idle(each, decision) for each, decision in found if decision.wake_at is None]


def _of_schedule(schedule: Schedule, now: datetime) -> Iterator[Upcoming]:
    previous: datetime | None = None
    for decision in upcoming(now, ScheduleState.fresh(schedule, now)):
        assert decision.next_run_at is not None
        due_at = decision.due_at or decision.next_run_at
        yield Upcoming(
            schedule=schedule.label,
            due_at=due_at,
            next_run_at=decision.next_run_at,
            source=decision.source,
            notes=(*clock_notes(schedule.trigger, due_at, previous), *_moves(decision)),
            trace=decision.trace,
        )
        previous = due_at


def _idle(schedule: Schedule, decision: Decision) -> Idle:
    standing, reason = _standing(schedule, decision)
    return Idle(schedule=schedule.label, when=schedule.trigger.describe(), standing=standing, reason=reason)


def _standing(schedule: Schedule, decision: Decision) -> tuple[Standing, str]:
    if not schedule.enabled:
        return Standing.DISABLED, "it has no next time until it is enabled"
    if schedule.trigger.kind.waits_for_event:
        return Standing.WAITING, "only an event fires it"
    return Standing.ENDED, decision.trace[-1].text if decision.trace else ""


def _moves(decision: Decision) -> tuple[str, ...]:
    return tuple(step.text for step in decision.trace if step.kind in _MOVES)
