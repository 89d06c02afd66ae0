"""Where a look ahead begins: at what the files say, or at how the schedule stands in the ledger.

Told from the files alone, `next` showed times of schedules that were paused, and "now" for an interval that had just
run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from herdbeat.domain.decision import Decision, Source, StepKind
from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import is_unmanaged
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.durations import format_duration
from herdbeat.governor import Pause, ScheduleState, decide, forecast_decisions
from herdbeat.service.queries.expressions import (
    NoNextRunReason,
    UnscheduledEntry,
    UpcomingRun,
    describe_clock_change,
    stop_at_calendar_end,
)
from herdbeat.service.queries.schedule_state import describe_disabled, describe_pause, is_enabled, resolve_condition
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
        unscheduled=_find_unscheduled_in_ledger(record, now, has_live_node=has_live_node),
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
        enabled=is_enabled(record),
    )


def _merge_edited(schedule: Schedule, record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> ForecastInput:
    """As it stands, unless its file has changed since: then as it will be decided again."""
    timing = TimingPolicy.from_policies(schedule.trigger, schedule.policies)
    current = build_ledger_forecast(record, hints, now, has_live_node=False)
    if timing == _timing_as_configured(record) and schedule.enabled == record.enabled:
        return current
    if isinstance(schedule.trigger, Delay):
        return build_file_forecast(schedule, now)  # another time arms it anew
    edited = replace(record, enabled=schedule.enabled, quarantine=None)
    return replace(
        current,
        zone=schedule.policies.zone,
        state=replace(current.state, timing=timing, enabled=is_enabled(edited)),
        unscheduled=_find_unscheduled_in_ledger(edited, now, has_live_node=False),
        start_override=None,
    )


def _timing_as_configured(record: ScheduleRecord) -> TimingPolicy:
    """A one-shot that was armed again knows how often; no file says so."""
    timing = record.plan.timing
    trigger = timing.trigger
    return replace(timing, trigger=replace(trigger, arm=1)) if isinstance(trigger, Delay) else timing


def _find_unscheduled_in_ledger(
    record: ScheduleRecord, now: datetime, *, has_live_node: bool
) -> UnscheduledEntry | None:
    """Return why the ledger has no next time for a schedule; None if it has one, or the governor decides it."""
    condition = resolve_condition(record, now)
    has_no_time = record.next_run_at is None
    if not condition.is_enabled:
        cause, reason = NoNextRunReason.DISABLED, describe_disabled(record)
    elif condition.is_quarantined:
        cause, reason = NoNextRunReason.BROKEN, f"it cannot be decided; see: herdbeat explain {record.label}"
    elif condition.is_paused and record.paused_until is None:
        cause, reason = NoNextRunReason.PAUSED, describe_pause(record, now)
    elif has_no_time and record.running:
        ends = "the run ends" if has_live_node else "herdbeat up finds that its run was cut off"
        cause, reason = NoNextRunReason.RUNNING, f"the next time is decided when {ends}"
    elif has_no_time and record.waiting:
        cause = NoNextRunReason.LATE
        reason = "a beat of it is due and waits; the next time is decided when that one has run"
    else:
        return None
    return UnscheduledEntry(schedule=record.label, when=record.plan.trigger.describe(), cause=cause, reason=reason)


def _forecast_start(record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> datetime | None:
    """Right before an instant that was due and is still to start: by jitter, or since the scheduler is at it."""
    due, at = record.next_due_at, record.next_run_at
    if due is None or at is None or due > now or (at <= now and not has_live_node):
        return None
    return due - _ONE_MICROSECOND


# What comes after the next run: a few instants, how long that goes on, and what then. The governor itself is asked.


MAX_PREVIEW_INSTANTS = 3
"""Instants that are asked for: two of them and their distance tell how it goes on."""

_MAX_DESCRIBED_INTERVAL = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPreview:
    """`instants` begin with the next run. `is_all` says that nothing comes after them, `pace` how they go on.

    `is_hoped` says that all but the first are so only if it succeeds. `until` is when the hint ends that makes them so;
    `after` is what counts from then on.
    """

    instants: tuple[datetime, ...] = ()
    is_complete: bool = False
    pace: str = ""
    is_conditional: bool = False
    until: datetime | None = None
    after: str = ""


def preview_runs(record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> RunPreview:
    """Nothing for a schedule whose next run depends on how one ends that is still going, or on who enables it."""
    if record.next_run_at is None or record.quarantine is not None:
        return RunPreview()
    # What somebody asked to let pass will not run.
    found = list(
        islice(
            forecast_decisions(now, build_governor_state(record, hints)),
            record.skips,
            record.skips + MAX_PREVIEW_INSTANTS,
        )
    )
    instants = tuple(each.next_run_at for each in found if each.next_run_at is not None)
    hint = _find_deciding_hint(found, hints)
    return RunPreview(
        instants=instants,
        is_complete=len(found) < MAX_PREVIEW_INSTANTS,
        pace=_describe_interval(record, instants),
        is_conditional=record.failures > 0 and record.plan.trigger.interval is not None and hint is None,
        until=hint.expires_at if hint else None,
        after=record.plan.trigger.describe() if hint else "",
    )


def _find_deciding_hint(found: Sequence[Decision], hints: Sequence[Hint]) -> Hint | None:
    """The pace that somebody wished for, if it is what makes these instants."""
    if not found or not any(step.won and step.source is Source.AI_INTERVAL for step in found[0].trace):
        return None
    interval_hints = [hint for hint in hints if hint.every is not None]
    return min(interval_hints, key=lambda hint: hint.rank, default=None)


def _describe_interval(record: ScheduleRecord, instants: Sequence[datetime]) -> str:
    """`every 30s` as it will really be, limits included; a calendar in its own words."""
    gaps = {later - earlier for earlier, later in pairwise(instants[1:])}
    if record.plan.trigger.interval is None or len(gaps) != 1 or (gap := gaps.pop()) > _MAX_DESCRIBED_INTERVAL:
        return record.plan.trigger.describe()
    whole = timedelta(seconds=round(gap.total_seconds()))
    return f"every {format_duration(whole)}" if whole else record.plan.trigger.describe()


# When next? Asked of a schedule or a whole fleet, and answered by the governor itself.
#
# Nothing is reckoned here a second time, so a preview shows what the engine will do. `start` is the moment from which
# on instants are wanted.


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
