"""Upcoming runs of a schedule or a whole fleet. The governor itself decides them, so a preview shows what will happen.

A forecast begins with the files or with the ledger. From the files alone, `next` showed times of paused schedules, and
"now" for an interval that had just run. `start` is always the moment from which on instants are wanted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice, pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.decision import Decision, Source, StepKind
from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.timing import ScheduleSpec, TimingPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.durations import format_duration, humanize
from herdbeat.governor import Pause, ScheduleState, decide, forecast_decisions
from herdbeat.governor.state import decision_from_json
from herdbeat.service.queries.expressions import (
    NoNextRunReason,
    UnscheduledEntry,
    UpcomingRun,
    UpcomingView,
    describe_clock_change,
    stop_at_calendar_end,
)
from herdbeat.service.queries.hints import build_hint
from herdbeat.service.queries.schedule_state import (
    describe_disabled,
    describe_pause,
    describe_retry_number,
    describe_window,
    drop_dead_runs,
    is_enabled,
    resolve_condition,
)
from herdbeat.service.queries.schedules import find_account_holds, find_schedules
from herdbeat.store.reader import Reader, ScheduleQuery
from herdbeat.triggers import Delay

if TYPE_CHECKING:
    from herdbeat.domain.schedule import Schedule

MAX_SCHEDULES = 1_000_000
BY_REQUEST_NOTE = "skipped: by_request"
_ONE_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastInput:
    """A schedule, and the state from which the governor forecasts its instants.

    `unscheduled` says why there are none. `start_override` lies before `as_of` if an instant was due by then and is
    still going to start. `skips` counts the next beats that will be skipped by request. `retry` is the next attempt at
    a beat that has run; an interval is decided after it.
    """

    label: str
    zone: ZoneInfo
    as_of: datetime
    state: ScheduleState
    is_in_ledger: bool = False
    unscheduled: UnscheduledEntry | None = None
    start_override: datetime | None = None
    skips: int = 0
    retry: UpcomingRun | None = None
    placed: Decision | None = None
    """The decision of an instant that has passed and will start: its spread, or its place among others."""

    @property
    def id(self) -> str:
        return self.state.schedule

    @property
    def trigger(self) -> Trigger:
        return self.state.timing.trigger

    def uses_ledger(self, start: datetime) -> bool:
        """Whether the ledger matters for instants after `start`. For the past it would apply today's pause."""
        return self.is_in_ledger and start >= self.as_of

    def find_unscheduled(self, start: datetime) -> UnscheduledEntry | None:
        return self.unscheduled if self.uses_ledger(start) else None

    def find_retry(self, start: datetime) -> UpcomingRun | None:
        is_ahead = self.retry is not None and self.uses_ledger(start) and self.retry.next_run_at >= start
        return self.retry if is_ahead else None

    def find_forecast_start(self, start: datetime) -> tuple[datetime, ScheduleState]:
        """Return when the forecast begins, and from which state. Without the ledger the schedule is new at `start`."""
        if not self.uses_ledger(start):
            new = replace(
                self.state, anchor_at=start, is_new=True, failures=0, runs=0, hints=(), pause=None, windows=()
            )
            return start, new
        if self.retry is not None and self.trigger.interval is not None:
            at = max(start, self.retry.next_run_at)
            return at, self.state.settled(self.retry.due_at, at)
        is_now = start == self.as_of and self.start_override is not None
        return (self.start_override or start) if is_now else start, self.state

    def decisions(self, start: datetime) -> Iterator[Decision]:
        """Yield the coming decisions. Without a ledger the schedule is new at `start`."""
        placed = self.placed
        if placed is not None and placed.next_run_at is not None and self.as_of <= start <= placed.next_run_at:
            return _continue_from(placed, self.state)
        return forecast_decisions(*self.find_forecast_start(start))


def build_file_forecast(schedule: "Schedule", now: datetime) -> ForecastInput:
    """Forecast a schedule that is in no ledger."""
    state = ScheduleState.fresh(schedule, now)
    return ForecastInput(label=schedule.label, zone=schedule.policies.zone, as_of=now, state=state)


def build_ledger_forecast(
    record: ScheduleRecord, hints: Sequence[Hint], now: datetime, *, has_live_node: bool
) -> ForecastInput:
    return ForecastInput(
        label=record.label,
        zone=record.plan.policies.zone,
        as_of=now,
        state=build_governor_state(record, hints),
        is_in_ledger=True,
        unscheduled=_find_unscheduled_in_ledger(record, now, has_live_node=has_live_node),
        start_override=_find_late_start(record, now, has_live_node=has_live_node),
        skips=record.skips,
        placed=_find_placed_decision(record, now),
        retry=_build_retry(record, now),
    )


def _build_retry(record: ScheduleRecord, now: datetime) -> UpcomingRun | None:
    if record.retry_attempt is None or record.running:
        return None
    at = max(now, record.retry_at or now)
    note = describe_retry_number(record)
    return UpcomingRun(schedule=record.label, due_at=at, next_run_at=at, source=Source.RETRY, notes=(note,))


def _find_placed_decision(record: ScheduleRecord, now: datetime) -> Decision | None:
    """Return the decision of an interval whose instant has passed and that starts later, by its spread or its place.

    Deciding it again would say that it is overdue and starts now. That of a first run stays, too: a hint made since
    takes back no instant that was reached.
    """
    at, due_at, source = record.next_run_at, record.next_due_at, record.next_source
    if at is None or due_at is None or source is None:
        return None
    is_reached_first_run = source is Source.FIRST_RUN and at <= now
    if not (due_at <= now < at or is_reached_first_run):
        return None
    if record.plan.trigger.interval is None or source is Source.PAUSED:
        return None
    trace = decision_from_json(json.loads(record.next_trace)).trace if record.next_trace else ()
    return Decision(next_run_at=max(at, now), source=source, trace=trace, due_at=due_at, origin=record.next_origin)


def _continue_from(placed: Decision, state: ScheduleState) -> Iterator[Decision]:
    assert placed.next_run_at is not None
    assert placed.due_at is not None
    yield placed
    yield from forecast_decisions(placed.next_run_at, state.settled(placed.due_at, placed.next_run_at))


def merge_files_and_ledger(
    schedules: "Iterable[Schedule]", known: Sequence[ScheduleRecord], hints: dict[str, list[Hint]], now: datetime
) -> list[ForecastInput]:
    """Return what the next `up` would begin with: the files, with their state, and schedules created by hand."""

    from herdbeat.domain.target import is_unmanaged  # noqa: PLC0415 - few commands need it

    records = {(each.target, each.name): each for each in known}
    forecasts = []
    for schedule in schedules:
        if record := records.pop((schedule.target, schedule.name), None):
            forecasts.append(_merge_edited(schedule, record, hints.get(schedule.label, []), now))
        else:
            forecasts.append(build_file_forecast(schedule, now))
    unmanaged = [each for each in records.values() if is_unmanaged(each.origin)]
    return forecasts + [
        build_ledger_forecast(each, hints.get(each.label, []), now, has_live_node=False) for each in unmanaged
    ]


def build_governor_state(record: ScheduleRecord, hints: Sequence[Hint]) -> ScheduleState:
    pause = Pause(until=record.paused_until, by=record.paused_by, reason=record.paused_reason)
    is_planned = any(each.until == record.paused_until for each in record.windows)
    return ScheduleState(
        schedule=f"{record.target}/{record.name}",  # the full id, as in the engine: jitter is derived from it
        timing=record.plan.timing,
        anchor_at=record.anchor_at,
        is_new=record.is_new,
        failures=record.failures,
        runs=record.runs,
        hints=tuple(hints),
        pause=pause if record.paused and not is_planned else None,
        enabled=is_enabled(record),
        windows=record.windows,
    )


def _merge_edited(schedule: "Schedule", record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> ForecastInput:
    """Forecast from the record, unless the file has changed since: then from what `apply` will decide."""
    timing = TimingPolicy.from_policies(schedule.trigger, schedule.policies)
    current = build_ledger_forecast(record, hints, now, has_live_node=False)
    if timing == _drop_rearm_count(record) and schedule.enabled == record.enabled:
        return current
    if isinstance(schedule.trigger, Delay):
        return build_file_forecast(schedule, now)  # a new time arms it again
    edited = replace(record, enabled=schedule.enabled, quarantine=None)
    return replace(
        current,
        zone=schedule.policies.zone,
        state=replace(current.state, timing=timing, enabled=is_enabled(edited)),
        unscheduled=_find_unscheduled_in_ledger(edited, now, has_live_node=False),
        start_override=None,
        placed=None,
    )


def _drop_rearm_count(record: ScheduleRecord) -> TimingPolicy:
    """Without the count of a re-armed one-shot, which no file has."""
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
        cause, reason = NoNextRunReason.BROKEN, f"the schedule is quarantined; see: herdbeat explain {record.label}"
    elif condition.is_paused and record.paused_until is None:
        cause, reason = NoNextRunReason.PAUSED, describe_pause(record, now)
    elif has_no_time and record.running and has_live_node:
        cause, reason = NoNextRunReason.RUNNING, "the next run is scheduled when the run ends"
    elif has_no_time and (record.running or record.was_cut_off):
        cause = NoNextRunReason.CUT_OFF
        reason = "the next run is scheduled when herdbeat up has recorded its interrupted run"
    elif has_no_time and record.waiting:
        cause = NoNextRunReason.LATE
        reason = "a beat is due and waiting; the next run is scheduled after it has run"
    else:
        return None
    return UnscheduledEntry(schedule=record.label, when=record.plan.trigger.describe(), cause=cause, reason=reason)


def _find_late_start(record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> datetime | None:
    """Return the moment before an instant that was due and still will start, after jitter or in this very cycle."""
    due, at = record.next_due_at, record.next_run_at
    if due is None or at is None or due > now or (at <= now and not has_live_node):
        return None
    return due - _ONE_MICROSECOND


def load_ledger_forecasts(
    reader: Reader, selector: str | None, now: datetime, *, has_live_node: bool
) -> list[ForecastInput]:
    """Return the schedules that a selector names, or all, as the ledger has them. Raises NotFound."""
    names = () if selector is None else (selector,)
    records = find_schedules(reader, ScheduleQuery(now=now, names=names, limit=MAX_SCHEDULES))
    if not has_live_node:
        records = [drop_dead_runs(each) for each in records]
    hints, holds = _find_open_hints(reader, records, now), find_account_holds(reader, records, now)
    forecasts = (
        (record, build_ledger_forecast(record, hints.get(record.label, []), now, has_live_node=has_live_node))
        for record in records
    )
    return [_name_account(forecast, holds.get(record.id), now) for record, forecast in forecasts]


def _name_account(forecast: ForecastInput, hold: AccountHold | None, now: datetime) -> ForecastInput:
    """Say which account a beat waits for, if that is why its schedule has no next time."""
    entry = forecast.unscheduled
    if hold is None or entry is None or entry.cause is not NoNextRunReason.LATE:
        return forecast
    reason = f"a beat waits for the account {hold.account}, which opens in {humanize(hold.until - now)} (rate_limited)"
    return replace(forecast, unscheduled=replace(entry, reason=reason))


def load_merged_forecasts(reader: Reader, schedules: "Iterable[Schedule]", now: datetime) -> list[ForecastInput]:
    """Return what the next `up` would begin with: the schedules of the files, in the state that the ledger has."""
    records = [drop_dead_runs(each) for each in reader.find(ScheduleQuery(now=now, limit=MAX_SCHEDULES))]
    return merge_files_and_ledger(schedules, records, _find_open_hints(reader, records, now), now)


def _find_open_hints(reader: Reader, records: Iterable[ScheduleRecord], now: datetime) -> dict[str, list[Hint]]:
    """Return the hints that have not ended, by the label of their schedule."""
    hints: dict[str, list[Hint]] = {}
    if reader.has_hints():
        for record in reader.hints([each.id for each in records], ended_since=now, limit=MAX_SCHEDULES):
            if record.ended_at is None:
                hints.setdefault(record.schedule, []).append(build_hint(record))
    return hints


MAX_PREVIEW_INSTANTS = 3
"""The next run, and two more whose distance shows the recurrence."""

_MAX_DESCRIBED_INTERVAL = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPreview:
    """The next few runs. `is_complete` says that nothing follows `instants`; `pace` says how they continue.

    `is_conditional` marks instants that hold only if the next run succeeds. `until` is when the hint that causes them
    expires; `after` is what applies from then on.
    """

    instants: tuple[datetime, ...] = ()
    is_complete: bool = False
    pace: str = ""
    is_conditional: bool = False
    until: datetime | None = None
    after: str = ""


def preview_runs(record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> RunPreview:
    """Return the next runs; empty for a schedule without a next time, whose future depends on a run or on a person."""
    if record.next_run_at is None or record.quarantine is not None:
        return RunPreview()
    state, placed = build_governor_state(record, hints), _find_placed_decision(record, now)
    forecast = forecast_decisions(now, state) if placed is None else _continue_from(placed, state)
    # The first `skips` beats are skipped by request.
    decisions = list(islice(forecast, record.skips, record.skips + MAX_PREVIEW_INSTANTS))
    instants = tuple(each.next_run_at for each in decisions if each.next_run_at is not None)
    hint = _find_deciding_hint(decisions, hints)
    return RunPreview(
        instants=instants,
        is_complete=len(decisions) < MAX_PREVIEW_INSTANTS,
        pace=_describe_interval(record, decisions),
        is_conditional=record.failures > 0 and record.plan.trigger.interval is not None and hint is None,
        until=hint.expires_at if hint else None,
        after=_describe_baseline(record) if hint else "",
    )


def find_run_before_hint(record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> datetime | None:
    """Return the next run if an interval hint ends before the time that it asks for; else None.

    The ledger has what was decided, with the hint. It is decided again when the hint ends, and that comes first.
    """
    at = record.next_run_at
    if at is None or not any(hint.every is not None and now < hint.expires_at < at for hint in hints):
        return None
    first = next(iter(preview_runs(record, hints, now).instants), None)
    return first if first is not None and first < at else None


def expect_next_run(record: ScheduleRecord, hints: Sequence[Hint], now: datetime) -> ScheduleRecord:
    """Return the record with the time at which it will run, for screens that show only that."""
    at = find_run_before_hint(record, hints, now)
    return record if at is None else replace(record, next_run_at=at)


def _find_deciding_hint(decisions: Sequence[Decision], hints: Sequence[Hint]) -> Hint | None:
    """Return the interval hint that causes these decisions, if one does."""
    if not decisions or not any(step.won and step.source is Source.AI_INTERVAL for step in decisions[0].trace):
        return None
    interval_hints = [hint for hint in hints if hint.every is not None]
    return min(interval_hints, key=lambda hint: hint.rank, default=None)


def _describe_interval(record: ScheduleRecord, decisions: Sequence[Decision]) -> str:
    """Return `every 30s` with limits applied; a calendar describes itself, unless `max_interval` is shorter."""
    # From start to due: jitter moves every start by something else.
    gaps = {
        later.due_at - earlier.next_run_at
        for earlier, later in pairwise(decisions[1:])
        if later.due_at is not None and earlier.next_run_at is not None
    }
    if not _is_paced(record) or len(gaps) != 1 or (gap := gaps.pop()) > _MAX_DESCRIBED_INTERVAL:
        return _describe_baseline(record)
    whole = timedelta(seconds=round(gap.total_seconds()))
    return f"every {format_duration(whole)}" if whole else _describe_baseline(record)


def _is_paced(record: ScheduleRecord) -> bool:
    return record.plan.trigger.interval is not None or record.next_source is Source.CLAMPED_MAX


def _describe_baseline(record: ScheduleRecord) -> str:
    """Return how the schedule continues without hints and failures: an interval with its limits applied."""
    interval = record.plan.trigger.interval
    if interval is None:
        return record.plan.trigger.describe()
    return f"every {format_duration(record.plan.policies.limits.clamp(interval))}"


_HINT_SOURCES = frozenset({Source.AI_INTERVAL, Source.AI_ONESHOT})
_ADJUSTMENT_STEPS = frozenset({StepKind.JITTER, StepKind.CLAMP, StepKind.HOURS, StepKind.BOUND, StepKind.NOTE})


def iter_schedule_runs(schedule: "Schedule", now: datetime) -> Iterator[UpcomingRun]:
    """Yield the instants of a schedule created this moment; none if it is disabled or waits for events."""
    return iter_forecast_runs(build_file_forecast(schedule, now), now)


def iter_edited_runs(schedule_id: str, plan: ScheduleSpec, now: datetime) -> Iterator[UpcomingRun]:
    """Yield the instants of a schedule that gets another plan now, within its limits, hours and bounds.

    An interval counts from `now`, as if a run had just ended.
    """
    state = ScheduleState(schedule=schedule_id, timing=plan.timing, anchor_at=now)
    forecast = ForecastInput(label=schedule_id, zone=plan.policies.zone, as_of=now, state=state, is_in_ledger=True)
    return iter_forecast_runs(forecast, now)


def iter_forecast_runs(forecast: ForecastInput, start: datetime) -> Iterator[UpcomingRun]:
    """Yield the instants of a schedule; none if it is held, disabled, or waits for events."""
    return stop_at_calendar_end(_iter_forecast_runs(forecast, start))


def iter_fleet_runs(forecasts: Iterable[ForecastInput], start: datetime) -> Iterator[UpcomingRun]:
    """Yield the instants of all schedules by time; at the same time, in the order of the file."""
    return merge(*(iter_forecast_runs(each, start) for each in forecasts), key=lambda each: each.next_run_at)


def find_next_runs(forecasts: Iterable[ForecastInput], start: datetime) -> list[UpcomingRun]:
    """Return the next instant of each schedule that has one, by time."""
    first = (next(iter_forecast_runs(each, start), None) for each in forecasts)
    return sorted((each for each in first if each is not None), key=lambda each: each.next_run_at)


def annotate_skips(instants: Iterable[UpcomingRun], skips: Mapping[str, int]) -> Iterator[UpcomingRun]:
    """Yield the instants with a note at those that are skipped by request: the first so many of their schedule."""
    left = dict(skips)
    for each in instants:
        if left.get(each.schedule, 0) > 0:
            left[each.schedule] -= 1
            yield replace(each, notes=(BY_REQUEST_NOTE, *each.notes))
        else:
            yield each


def find_unscheduled(forecasts: Iterable[ForecastInput], start: datetime) -> list[UnscheduledEntry]:
    """Return the schedules that have no next time, each with the reason."""
    entries = (_find_unscheduled_entry(each, start) for each in forecasts)
    return [each for each in entries if each is not None]


def _iter_forecast_runs(forecast: ForecastInput, start: datetime) -> Iterator[UpcomingRun]:
    if forecast.find_unscheduled(start) is not None:
        return
    if (retry := forecast.find_retry(start)) is not None:
        yield retry
    previous: datetime | None = None
    for decision in forecast.decisions(start):
        assert decision.next_run_at is not None
        due_at = decision.due_at or decision.next_run_at
        yield UpcomingRun(
            schedule=forecast.label,
            due_at=due_at,
            next_run_at=max(start, decision.next_run_at),
            source=decision.source,
            notes=(
                *describe_clock_change(forecast.trigger, due_at, previous),
                *_describe_changes(forecast, decision),
                *_describe_windows(forecast, previous or start, decision.next_run_at),
            ),
            trace=decision.trace,
        )
        previous = due_at


def _find_unscheduled_entry(forecast: ForecastInput, start: datetime) -> UnscheduledEntry | None:
    if (unscheduled := forecast.find_unscheduled(start)) is not None:
        return unscheduled
    if forecast.find_retry(start) is not None:
        return None
    decision = decide(*forecast.find_forecast_start(start))
    if decision.wake_at is not None:
        return None
    if not forecast.state.enabled:
        cause, reason = NoNextRunReason.DISABLED, "no next run until the schedule is enabled"
    elif forecast.trigger.kind.waits_for_event:
        cause, reason = NoNextRunReason.WAITING, "waits for an event"
    else:
        cause, reason = NoNextRunReason.ENDED, decision.trace[-1].text if decision.trace else ""
    return UnscheduledEntry(schedule=forecast.label, when=forecast.trigger.describe(), cause=cause, reason=reason)


def _describe_changes(forecast: ForecastInput, decision: Decision) -> Iterator[str]:
    for step in decision.trace:
        if step.kind in _ADJUSTMENT_STEPS or (step.won and step.source in _HINT_SOURCES):
            yield step.text
    if forecast.state.pause is not None and forecast.state.pause.until == decision.next_run_at:
        yield "its pause ends at this time"


def _describe_windows(forecast: ForecastInput, after: datetime, at: datetime) -> Iterator[str]:
    """Name the planned pauses between two runs: they say why there is none in between."""
    for window in forecast.state.windows:
        if window.until > after and window.from_at < at:
            yield f"after a planned pause: {describe_window(window, forecast.zone)}"


def load_upcoming(
    reader: Reader,
    selector: str | None,
    now: datetime,
    *,
    start: datetime,
    count: int,
    has_live_node: bool,
    zone: ZoneInfo | None = None,
) -> UpcomingView:
    """Return the next instants of one schedule, of a target or of the fleet, by time. Raises NotFound.

    Local times are those of a single schedule's zone, else of `zone`.
    """
    forecasts = load_ledger_forecasts(reader, selector, now, has_live_node=has_live_node)
    instants: Iterable[UpcomingRun] = islice(iter_fleet_runs(forecasts, start), count)
    skips = {each.label: each.skips for each in forecasts if each.skips}
    if skips and start == now:
        instants = annotate_skips(instants, skips)
    zone = forecasts[0].zone if len(forecasts) == 1 else zone or ZoneInfo("UTC")
    unscheduled = tuple(find_unscheduled(forecasts, start))
    return UpcomingView(zone=zone, start=start, instants=tuple(instants), unscheduled=unscheduled)
