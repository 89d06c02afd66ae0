"""More is due of a target without room than one turn can park: the beats of others do not stand behind it.

Parking is work too. Once, 100,000 schedules of one full target that fell due together took six seconds to park, and
every other beat waited as long. Now the others are looked at first, and the crowd is parked a slice at a time.
Who is passed by is only looked at later: whether there is room is always asked anew.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.scheduler.room import Rooms
from herdbeat.scheduler.verdict import Verdict
from herdbeat.store.base import Standing, Transaction

SLICE = 100
"""Schedules of a crowd that one turn parks: a few milliseconds, and no beat of another target is held up longer."""

MANY = 10
"""Fewer of one target in one turn are no crowd: they pass with the others."""

_MARGIN = timedelta(milliseconds=250)
"""A finish writes down what was now when it began, so what has been seen just now is looked through once more."""


class Crowd(NamedTuple):
    """Full targets of which more is due, and the moment before which nothing else is."""

    targets: frozenset[int]
    alone_until: datetime


class Look(NamedTuple):
    """What a turn takes up, whether more is due, and the moment before which only the crowd's is left."""

    due: list[Standing]
    is_more: bool
    alone_until: datetime


def look(tx: Transaction, now: datetime, limit: int, crowd: Crowd | None) -> Look:
    """What is due, the oldest first; beside a crowd, what is not of it before a slice of it."""
    if crowd is None:
        due = tx.due_schedules(now, limit)
        return Look(due, len(due) == limit, (due[0].wake_at or now) if due else now)
    others = tx.due_beside(now, limit, crowd.targets, crowd.alone_until)
    sliced = tx.due_schedules(now, SLICE)
    seen = {each.id for each in others}
    alone_until = max(crowd.alone_until, now - _MARGIN) if len(others) < limit else crowd.alone_until
    return Look(others + [each for each in sliced if each.id not in seen], len(sliced) == SLICE, alone_until)


def crowd_after(looked: Look, verdicts: Iterable[Verdict], rooms: Rooms, before: Crowd | None) -> Crowd | None:
    """Whom the next turn passes by at first. None, as nearly always, if this turn has come to an end of it."""
    if not looked.is_more:
        return None
    parked = Counter(each.standing.target_id for each in verdicts if each.parked)
    many = frozenset(target for target, count in parked.items() if count >= MANY and rooms.free.get(target, 0) <= 0)
    if not many:
        return None
    return Crowd(many | before.targets if before else many, looked.alone_until)
