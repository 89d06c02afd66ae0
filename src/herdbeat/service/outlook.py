"""Where a look ahead begins: at what the files say, or at how the schedule stands in the ledger.

Told from the files alone, `next` showed times of schedules that were paused, and "now" for an interval that had just
run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.hint import Hint
from herdbeat.domain.origin import is_unmanaged
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.governor import Pause, ScheduleState
from herdbeat.service.holds import describe_disabled, describe_pause, is_paused
from herdbeat.service.instants import NoNextRunReason, UnscheduledEntry
from herdbeat.triggers import Delay

_ONE_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastInput:
    """A schedule, and the state from which its coming instants are told.

    `held` says why none can be told. `begins_at` lies before the moment of asking if an instant was due by then that
    is still going to start. `skips` counts the beats that somebody asked to let pass.
    """

    label: str
    zone: ZoneInfo
    as_of: datetime
    state: ScheduleState
    is_in_ledger: bool = False
    unscheduled: UnscheduledEntry | None = None
    start_override: datetime | None = None
    skips: int = 0

    @property
    def id(self) -> str:
        return self.state.schedule

    @property
    def trigger(self) -> Trigger:
        return self.state.timing.trigger

    def uses_ledger(self, start: datetime) -> bool:
        """Whether the ledger has a say in what comes after a moment. Of the past it would tell today's pause."""
        return self.is_in_ledger and start >= self.as_of

    def find_unscheduled(self, start: datetime) -> UnscheduledEntry | None:
        return self.unscheduled if self.uses_ledger(start) else None

    def starting_point(self, start: datetime) -> tuple[datetime, ScheduleState]:
        """From when, and from which state, the governor is asked; else as if it were created at that moment."""
        if not self.uses_ledger(start):
            new = replace(self.state, anchor_at=start, is_new=True, failures=0, runs=0, hints=(), pause=None)
            return start, new
        is_now = start == self.as_of and self.start_override is not None
        return (self.start_override or start) if is_now else start, self.state


def build_file_forecast(schedule: Schedule, now: datetime) -> ForecastInput:
    """A schedule that no ledger knows."""
    return ForecastInput(
        label=schedule.label,
        zone=schedule.policies.zone,
        as_of=now,
        state=ScheduleState.fresh(schedule, now),
    )


def build_ledger_forecast(
    record: ScheduleRecord, hints: Sequence[Hint], now: datetime, *, has_live_node: bool
) -> ForecastInput:
    """A schedule as it stands."""
    return ForecastInput(
        label=record.label,
        zone=record.plan.policies.zone,
        as_of=now,
        state=build_governor_state(record, hints),
        is_in_ledger=True,
        unscheduled=_build_unscheduled_entry(record, now, has_live_node=has_live_node),
        start_override=_forecast_start(record, now, has_live_node=has_live_node),
        skips=record.skips,
    )


def merge_files_and_ledger(
    schedules: Iterable[Schedule], known: Sequence[ScheduleRecord], hints: dict[str, list[Hint]], now: datetime
) -> list[ForecastInput]:
    """What the next `up` would begin with: the files, as the ledger stands, and what somebody made by hand."""
    records = {(each.target, each.name): each for each in known}
    found = []
    for each in schedules:
        record = records.pop((each.target, each.name), None)
        found.append(
            build_file_forecast(each, now)
            if record is None
            else _merge_edited(each, record, hints.get(each.label, []), now)
        )
    unmanaged = [each for each in records.values() if is_unmanaged(each.origin)]
    return found + [
        build_ledger_forecast(each, hints.get(each.label, []), now, has_live_node=False) for each in unmanaged
    ]


def build_governor_state(record: ScheduleRecord, hints: Sequence[Hint]) -> ScheduleState:
    """What the governor would look at."""
    pause = Pause(until=record.paused_until, by=record.paused_by, reason=record.paused_reason)
    return ScheduleState(
        schedule=f"{record.target}/{record.name}",  # the whole of it, as the engine has it: jitter hangs on it
        timing=record.plan.timing,
        anchor_at=record.anchor_at,
        is_new=record.is_new,
        failures=record.failures,
        runs=record.runs,
        hints=tuple(hints),
        pause=pause if record.paused else None,
        enabled=record.enabled and record.disabled_by is None,
    )


def _merge_edited(schedule: Schedule, record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> ForecastInput:
    """As it stands, unless its file has changed since: then as it will be decided again."""
    timing = TimingPolicy.from_policies(schedule.trigger, schedule.policies)
    current = build_ledger_forecast(record, hints, now, has_live_node=False)
    if timing == _timing_as_configured(record) and schedule.enabled == record.enabled:
        return current
    if isinstance(schedule.trigger, Delay):
        return build_file_forecast(schedule, now)  # another time arms it anew
    is_enabled = schedule.enabled and record.disabled_by is None
    return replace(
        current,
        zone=schedule.policies.zone,
        state=replace(current.state, timing=timing, enabled=is_enabled),
        unscheduled=_build_unscheduled_entry(
            replace(record, enabled=schedule.enabled, quarantine=None), now, has_live_node=False
        ),
        start_override=None,
    )


def _timing_as_configured(record: ScheduleRecord) -> TimingPolicy:
    """A one-shot that was armed again knows how often; no file says so."""
    timing = record.plan.timing
    trigger = timing.trigger
    return replace(timing, trigger=replace(trigger, arm=1)) if isinstance(trigger, Delay) else timing


def _build_unscheduled_entry(record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> UnscheduledEntry | None:
    found = _find_ledger_cause(record, now, has_live_node=has_live_node)
    if found is None:
        return None
    cause, reason = found
    return UnscheduledEntry(schedule=record.label, when=record.plan.trigger.describe(), cause=cause, reason=reason)


def _find_ledger_cause(
    record: ScheduleRecord, now: datetime, *, has_live_node: bool
) -> tuple[NoNextRunReason, str] | None:
    if not record.enabled or record.disabled_by is not None:
        return NoNextRunReason.DISABLED, describe_disabled(record)
    if record.quarantine is not None:
        return NoNextRunReason.BROKEN, f"it cannot be decided; see: herdbeat explain {record.label}"
    if is_paused(record, now) and record.paused_until is None:
        return NoNextRunReason.PAUSED, describe_pause(record, now)
    if record.next_run_at is None and record.running:
        ends = "the run ends" if has_live_node else "herdbeat up finds that its run was cut off"
        return NoNextRunReason.RUNNING, f"the next time is decided when {ends}"
    if record.next_run_at is None and record.waiting:
        return NoNextRunReason.LATE, "a beat of it is due and waits; the next time is decided when that one has run"
    return None


def _forecast_start(record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> datetime | None:
    """Right before an instant that was due and is still to start: by jitter, or since the scheduler is at it."""
    due, at = record.next_due_at, record.next_run_at
    if due is None or at is None or due > now or (at <= now and not has_live_node):
        return None
    return due - _ONE_MICROSECOND
