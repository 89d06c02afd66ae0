"""Where a look ahead begins: at what the files say, or at how the schedule stands in the ledger.

Told from the files alone, `next` showed times of schedules that were paused, and "now" for an interval that had just
run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.hint import Hint
from herdbeat.domain.origin import is_by_hand
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.timing import Timing
from herdbeat.domain.trigger import Trigger
from herdbeat.governor import Pause, ScheduleState
from herdbeat.service.holds import disabled_words, is_paused, paused_words
from herdbeat.service.instants import Idle, Standing
from herdbeat.triggers import Delay

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A schedule, and the state from which its coming instants are told.

    `held` says why none can be told. `begins_at` lies before the moment of asking if an instant was due by then that
    is still going to start. `skips` counts the beats that somebody asked to let pass.
    """

    label: str
    zone: ZoneInfo
    asked_at: datetime
    state: ScheduleState
    is_known: bool = False
    held: Idle | None = None
    begins_at: datetime | None = None
    skips: int = 0

    @property
    def id(self) -> str:
        return self.state.schedule

    @property
    def trigger(self) -> Trigger:
        return self.state.timing.trigger

    def is_told(self, start: datetime) -> bool:
        """Whether the ledger has a say in what comes after a moment. Of the past it would tell today's pause."""
        return self.is_known and start >= self.asked_at

    def held_at(self, start: datetime) -> Idle | None:
        return self.held if self.is_told(start) else None

    def begin(self, start: datetime) -> tuple[datetime, ScheduleState]:
        """From when, and from which state, the governor is asked; else as if it were created at that moment."""
        if not self.is_told(start):
            new = replace(self.state, anchor_at=start, is_new=True, failures=0, runs=0, hints=(), pause=None)
            return start, new
        is_now = start == self.asked_at and self.begins_at is not None
        return (self.begins_at or start) if is_now else start, self.state


def of_file(schedule: Schedule, now: datetime) -> Outlook:
    """A schedule that no ledger knows."""
    return Outlook(
        label=schedule.label,
        zone=schedule.policies.zone,
        asked_at=now,
        state=ScheduleState.fresh(schedule, now),
    )


def of_record(record: ScheduleRecord, hints: Sequence[Hint], now: datetime, *, is_served: bool) -> Outlook:
    """A schedule as it stands."""
    return Outlook(
        label=record.label,
        zone=record.plan.policies.zone,
        asked_at=now,
        state=state_in(record, hints),
        is_known=True,
        held=_held(record, now, is_served=is_served),
        begins_at=_begin(record, now, is_served=is_served),
        skips=record.skips,
    )


def of_both(
    schedules: Iterable[Schedule], known: Sequence[ScheduleRecord], hints: dict[str, list[Hint]], now: datetime
) -> list[Outlook]:
    """What the next `up` would begin with: the files, as the ledger stands, and what somebody made by hand."""
    records = {(each.target, each.name): each for each in known}
    found = []
    for each in schedules:
        record = records.pop((each.target, each.name), None)
        found.append(of_file(each, now) if record is None else _edited(each, record, hints.get(each.label, []), now))
    left = [each for each in records.values() if is_by_hand(each.origin)]
    return found + [of_record(each, hints.get(each.label, []), now, is_served=False) for each in left]


def state_in(record: ScheduleRecord, hints: Sequence[Hint]) -> ScheduleState:
    """What the governor would look at."""
    hold = Pause(until=record.paused_until, by=record.paused_by, reason=record.paused_reason)
    return ScheduleState(
        schedule=f"{record.target}/{record.name}",  # the whole of it, as the engine has it: jitter hangs on it
        timing=record.plan.timing,
        anchor_at=record.anchor_at,
        is_new=record.is_new,
        failures=record.failures,
        runs=record.runs,
        hints=tuple(hints),
        pause=hold if record.paused else None,
        enabled=record.enabled and record.disabled_by is None,
    )


def _edited(schedule: Schedule, record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> Outlook:
    """As it stands, unless its file has changed since: then as it will be decided again."""
    timing = Timing.of(schedule.trigger, schedule.policies)
    stands = of_record(record, hints, now, is_served=False)
    if timing == _as_written(record) and schedule.enabled == record.enabled:
        return stands
    if isinstance(schedule.trigger, Delay):
        return of_file(schedule, now)  # another time arms it anew
    on = schedule.enabled and record.disabled_by is None
    return replace(
        stands,
        zone=schedule.policies.zone,
        state=replace(stands.state, timing=timing, enabled=on),
        held=_held(replace(record, enabled=schedule.enabled, quarantine=None), now, is_served=False),
        begins_at=None,
    )


def _as_written(record: ScheduleRecord) -> Timing:
    """A one-shot that was armed again knows how often; no file says so."""
    timing = record.plan.timing
    trigger = timing.trigger
    return replace(timing, trigger=replace(trigger, arm=1)) if isinstance(trigger, Delay) else timing


def _held(record: ScheduleRecord, now: datetime, *, is_served: bool) -> Idle | None:
    found = _standing(record, now, is_served=is_served)
    if found is None:
        return None
    standing, reason = found
    return Idle(schedule=record.label, when=record.plan.trigger.describe(), standing=standing, reason=reason)


def _standing(record: ScheduleRecord, now: datetime, *, is_served: bool) -> tuple[Standing, str] | None:
    if not record.enabled or record.disabled_by is not None:
        return Standing.DISABLED, disabled_words(record)
    if record.quarantine is not None:
        return Standing.BROKEN, f"it cannot be decided; see: herdbeat explain {record.label}"
    if is_paused(record, now) and record.paused_until is None:
        return Standing.PAUSED, paused_words(record, now)
    if record.next_run_at is None and record.running:
        ends = "the run ends" if is_served else "herdbeat up finds that its run was cut off"
        return Standing.RUNNING, f"the next time is decided when {ends}"
    if record.next_run_at is None and record.waiting:
        return Standing.LATE, "a beat of it is due and waits; the next time is decided when that one has run"
    return None


def _begin(record: ScheduleRecord, now: datetime, *, is_served: bool) -> datetime | None:
    """Right before an instant that was due and is still to start: by jitter, or since the scheduler is at it."""
    due, at = record.next_due_at, record.next_run_at
    if due is None or at is None or due > now or (at <= now and not is_served):
        return None
    return due - _TICK
