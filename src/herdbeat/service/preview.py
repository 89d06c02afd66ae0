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
from herdbeat.governor import decide, upcoming
from herdbeat.service.instants import Idle, Standing, Upcoming, clock_notes, until_calendar_ends
from herdbeat.service.outlook import Outlook, of_file

_WISHED = frozenset({Source.AI_INTERVAL, Source.AI_ONESHOT})
_MOVES = frozenset({StepKind.JITTER, StepKind.CLAMP, StepKind.HOURS, StepKind.BOUND, StepKind.NOTE})


def of_schedule(schedule: Schedule, now: datetime) -> Iterator[Upcoming]:
    """The instants of a schedule created this moment. None at all if it is disabled or waits for events."""
    return of_outlook(of_file(schedule, now), now)


def of_outlook(outlook: Outlook, start: datetime) -> Iterator[Upcoming]:
    """The instants of a schedule. None at all if it is held, disabled, or waits for events."""
    return until_calendar_ends(_of_outlook(outlook, start))


def of_fleet(outlooks: Iterable[Outlook], start: datetime) -> Iterator[Upcoming]:
    """The instants of all schedules in one row, by time; at the same time, in the order of the file."""
    return merge(*(of_outlook(each, start) for each in outlooks), key=lambda each: each.next_run_at)


def firsts(outlooks: Iterable[Outlook], start: datetime) -> list[Upcoming]:
    """The next instant of each schedule that has one, by time."""
    found = (next(of_outlook(each, start), None) for each in outlooks)
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


def idle(outlooks: Iterable[Outlook], start: datetime) -> list[Idle]:
    """The schedules that have no time, each with the reason."""
    found = (_idle(each, start) for each in outlooks)
    return [each for each in found if each is not None]


def _of_outlook(outlook: Outlook, start: datetime) -> Iterator[Upcoming]:
    if outlook.held_at(start) is not None:
        return
    previous: datetime | None = None
    for decision in upcoming(*outlook.begin(start)):
        assert decision.next_run_at is not None
        due_at = decision.due_at or decision.next_run_at
        yield Upcoming(
            schedule=outlook.label,
            due_at=due_at,
            next_run_at=max(start, decision.next_run_at),
            source=decision.source,
            notes=(*clock_notes(outlook.trigger, due_at, previous), *_moves(decision), *_release(outlook, decision)),
            trace=decision.trace,
        )
        previous = due_at


def _idle(outlook: Outlook, start: datetime) -> Idle | None:
    if (held := outlook.held_at(start)) is not None:
        return held
    decision = decide(*outlook.begin(start))
    if decision.wake_at is not None:
        return None
    standing, reason = _standing(outlook, decision)
    return Idle(schedule=outlook.label, when=outlook.trigger.describe(), standing=standing, reason=reason)


def _standing(outlook: Outlook, decision: Decision) -> tuple[Standing, str]:
    if not outlook.state.enabled:
        return Standing.DISABLED, "it has no next time until it is enabled"
    if outlook.trigger.kind.waits_for_event:
        return Standing.WAITING, "only an event fires it"
    return Standing.ENDED, decision.trace[-1].text if decision.trace else ""


def _moves(decision: Decision) -> tuple[str, ...]:
    return tuple(step.text for step in decision.trace if step.kind in _MOVES or (step.won and step.source in _WISHED))


def _release(outlook: Outlook, decision: Decision) -> tuple[str, ...]:
    pause = outlook.state.pause
    return ("its pause ends then",) if pause is not None and pause.until == decision.next_run_at else ()
