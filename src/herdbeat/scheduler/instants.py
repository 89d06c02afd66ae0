"""Due instants that have passed, as ranges: a year of outage is three numbers, not half a million rows."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.trigger import Calendar, Trigger

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Instants:
    """Consecutive instants of one schedule: first, last, and how many. Never empty."""

    first: datetime
    last: datetime
    count: int = 1

    @classmethod
    def one(cls, instant: datetime) -> "Instants":
        return cls(instant, instant)


def passed(trigger: Trigger, first: datetime, until: datetime) -> Instants:
    """`first`, which is due, and what the calendar had after it up to `until`."""
    if not isinstance(trigger, Calendar):
        return Instants.one(first)
    last = trigger.latest(first, until)
    if last is None:
        return Instants.one(first)
    return Instants(first, last, 1 + trigger.count(first, until))


def up_to(trigger: Trigger, instants: Instants, moment: datetime) -> tuple[Instants | None, Instants | None]:
    """Part them: those at or before the moment, and those after it."""
    if instants.last <= moment:
        return instants, None
    if instants.first > moment:
        return None, instants
    assert isinstance(trigger, Calendar)
    early_last = trigger.latest(instants.first, moment)
    early = Instants(instants.first, early_last, 1 + trigger.count(instants.first, moment)) if early_last else None
    early = early or Instants.one(instants.first)
    late_first = trigger.next_time(None, early.last)
    assert late_first is not None
    return early, Instants(late_first, instants.last, instants.count - early.count)


def newest(trigger: Trigger, instants: Instants, wanted: int) -> tuple[Instants | None, list[datetime]]:
    """The newest so many, one by one, and the older rest as a range."""
    if instants.count == 1 or not isinstance(trigger, Calendar):
        return None, [instants.last]
    rest = _drop_newest(trigger, instants, wanted)
    listed: list[datetime] = []
    instant = instants.first if rest is None else trigger.next_time(None, rest.last)
    while instant is not None and instant <= instants.last:
        listed.append(instant)
        instant = trigger.next_time(None, instant)
    return rest, listed


def oldest(trigger: Trigger, instants: Instants, wanted: int) -> tuple[Instants, Instants | None]:
    """The first so many (at least one), and the rest."""
    if instants.count <= wanted or not isinstance(trigger, Calendar):
        return instants, None
    first = _drop_newest(trigger, instants, instants.count - wanted)
    assert first is not None
    following = trigger.next_time(None, first.last)
    assert following is not None
    return first, Instants(following, instants.last, instants.count - first.count)


def _drop_newest(trigger: Calendar, instants: Instants, dropped: int) -> Instants | None:
    """What is left without the newest ones: found by halving the time, for counting is cheap and walking is not."""
    left = instants.count - dropped
    if left <= 0:
        return None
    low, high = instants.first, instants.last
    while True:
        middle = low + (high - low) / 2
        held = 1 + trigger.count(instants.first, middle)
        if held == left:
            last = trigger.latest(instants.first - _TICK, middle) or instants.first
            return Instants(instants.first, last, left)
        low, high = (middle, high) if held < left else (low, middle)
