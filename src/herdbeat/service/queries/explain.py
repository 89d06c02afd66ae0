"""Explanations: why the next run is when it is, what happened at an instant, and why a run happened.

Each `explain_…` is a pure function of stored data, so the answer is still true when the files have changed since. The
`load_…` functions read that data from the ledger, so that every adapter gives the same answer.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, assert_never
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, Gap, MergedReason, MissedReason, SkipReason
from herdbeat.domain.decision import Source, step_to_json
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.planned_pause import find_window
from herdbeat.domain.policies import OnInterrupt
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord, planned_start
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.durations import format_elapsed, humanize
from herdbeat.scheduler.budgets import ScheduleBudgets
from herdbeat.service.queries.expressions import UpcomingRun
from herdbeat.service.queries.gates import (
    MISSED_TEXTS,
    GateContext,
    GateStatus,
    describe_closed,
    describe_skip,
    evaluate_gates,
    find_deciding_policy,
    is_skipped_by_active_hours,
    load_gate_context,
    load_schedule_budgets,
)
from herdbeat.service.queries.hints import (
    HintState,
    HintView,
    build_hint,
    classify_hints,
    refresh_hint_steps,
)
from herdbeat.service.queries.schedule_state import (
    DisplayState,
    ScheduleCondition,
    describe_disabled,
    describe_pause,
    describe_retry,
    describe_skips,
    describe_window,
    drop_dead_runs,
    resolve_condition,
)
from herdbeat.service.queries.upcoming import (
    BY_REQUEST_NOTE,
    ForecastInput,
    RunPreview,
    annotate_skips,
    build_ledger_forecast,
    find_run_before_hint,
    find_unscheduled,
    iter_forecast_runs,
    preview_runs,
)
from herdbeat.service.serialize import JsonObject
from herdbeat.store.reader import Filter, Reader

if TYPE_CHECKING:
    from herdbeat.domain.rule_state import RuleStep

TraceSteps: TypeAlias = tuple[JsonObject, ...]
"""The governor's trace as it was stored: frozen with the decision, so later versions still show what was decided."""

NEAREST_BEAT_TOLERANCE = timedelta(minutes=1)
"""A question about 09:00 also means the interval that came due at 09:00:12."""

MAX_SEARCHED_BEATS = 100
"""How far from a merged beat the one that absorbed it is searched."""

_ABSORBED_BY_LATER = frozenset({MergedReason.ONCE, MergedReason.CANCEL, MergedReason.CATCHUP_MAX})
_NOW_THRESHOLD = timedelta(seconds=1)
_ONE_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer as data. `facts` are lines of a word and a text; `untraced_hints` are those that `steps` leave out.

    Without `has_live_node` nothing starts, whatever is planned.
    """

    schedule: str
    now: datetime
    text: str
    next_run_at: datetime | None = None
    source: Source | None = None
    origin: str = ""
    state: DisplayState | None = None
    has_live_node: bool = True
    steps: TraceSteps = ()
    gates: tuple[GateStatus, ...] = ()
    hints: tuple[HintView, ...] = ()
    untraced_hints: tuple[HintView, ...] = ()
    last: str = ""
    preview: RunPreview = field(default_factory=RunPreview)
    facts: tuple[tuple[str, str], ...] = ()
    rules: "tuple[RuleStep, ...]" = ()
    fix: str = ""
    beat: BeatRecord | None = None
    run: RunRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatHistory:
    """What the ledger keeps of an instant.

    `gap` is the time without a scheduler that it fell into; `budgets` are those of its day, if they stopped it;
    `absorbed_by` is the beat that runs for a merged one.
    """

    beat: BeatRecord
    absorbed_by: BeatRecord | None = None
    gap: Gap | None = None
    budgets: ScheduleBudgets | None = None
    runs: tuple[RunRecord, ...] = ()
    trace: str | None = None


def load_next_explanation(reader: Reader, record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> Explanation:
    """Explain the next run, or why there is none. `has_live_node` says whether a node runs the fleet."""
    was_cut_off = record.running > 0 and not has_live_node
    if not has_live_node:
        record = drop_dead_runs(record)
    pending = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
    explanation = explain_next(
        record,
        now,
        has_live_node=has_live_node,
        waiting=next(iter(reader.beats(pending)), None) if record.waiting else None,
        hints=tuple(classify_hints(reader.hints([record.id], ended_since=now), now)),
        context=load_gate_context(reader, record, now, has_live_node=has_live_node),
        was_cut_off=was_cut_off,
    )
    return replace(explanation, rules=_load_rules(reader, record)) if record.plan.policies.adapt else explanation


def _load_rules(reader: Reader, record: ScheduleRecord) -> "tuple[RuleStep, ...]":
    """Return the outcome of each rule after the newest run, in the order of the file. New ones have seen no run yet."""
    from herdbeat.rules.rule import load_rules  # noqa: PLC0415 -- few schedules have rules

    known = reader.rule_steps(record.id)
    return tuple(
        known[rule.name]._replace(for_runs=rule.for_runs)
        for rule in load_rules(record.plan.policies.adapt)
        if rule.name in known
    )


def load_instant_explanation(
    reader: Reader, record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo
) -> Explanation:
    """Explain what happened at a moment, or within a minute of it."""
    beat_id = reader.beat_at(record.target, record.name, at)
    before, after = (None if each is None else reader.beat(each) for each in reader.adjacent_beats(record.id, at))
    beat = reader.beat(beat_id) if beat_id is not None else _find_nearest_beat(at, before, after)
    if beat is None:
        return explain_no_beat(record, at, (before, after), now, zone)
    gaps = reader.gaps(beat.due_at) if beat.outcome is BeatOutcome.MISSED else []
    gap = next((gap for gap in gaps if gap.covers(beat.last_due_at)), None)
    runs = tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs)))) if beat.runs else ()
    past = BeatHistory(beat=beat, gap=gap, runs=runs, trace=reader.beat_trace(beat.id))
    if beat.reason == SkipReason.BUDGET_EXCEEDED:
        past = replace(past, budgets=load_schedule_budgets(reader, record, beat.last_due_at))
    if beat.outcome is BeatOutcome.MERGED:
        past = replace(past, absorbed_by=_find_absorbing_beat(reader, record, beat))
    explanation = explain_instant(record, past, now, zone)
    given = _describe_given(reader, beat.id, beat.dedup_id)
    return replace(explanation, facts=(*explanation.facts, *given))


def load_future_explanation(
    reader: Reader, record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo, *, has_live_node: bool
) -> Explanation:
    """Explain what is planned for a moment ahead, or within a minute of it."""
    records = reader.hints([record.id], ended_since=now)
    hints = [build_hint(each) for each in records if each.ended_at is None]
    forecast = build_ledger_forecast(record, hints, now, has_live_node=has_live_node)
    return explain_future(record, forecast, at, now, zone, has_live_node=has_live_node)


def _find_absorbing_beat(reader: Reader, record: ScheduleRecord, merged: BeatRecord) -> BeatRecord | None:
    """Return the nearest beat of the clock, before or after it as the reason says, that was open when it was merged."""
    is_later = merged.reason in _ABSORBED_BY_LATER
    nearest = merged
    for _ in range(MAX_SEARCHED_BEATS):
        at = nearest.last_due_at if is_later else nearest.due_at - _ONE_MICROSECOND
        beat_id = reader.adjacent_beats(record.id, at)[is_later]
        beat = None if beat_id is None else reader.beat(beat_id)
        if beat is None:
            return None
        if beat.source.is_clock and beat.outcome is not BeatOutcome.MERGED and _was_open(beat, merged.settled_at):
            return beat
        nearest = beat
    return None


def _was_open(beat: BeatRecord, at: datetime | None) -> bool:
    """Whether it waited or ran at that moment. One without a run that was settled then had not been open."""
    if beat.settled_at is None or at is None:
        return True
    return beat.settled_at >= at if beat.runs else beat.settled_at > at


def load_run_explanation(reader: Reader, run: RunRecord, now: datetime, zone: ZoneInfo) -> Explanation:
    explanation = explain_run(run, reader.beat_trace(run.beat_id), now, zone, reader.details(run.id))
    given = _describe_given(reader, run.beat_id, run.dedup_id)
    return replace(explanation, facts=(*explanation.facts, *given))


def _describe_given(reader: Reader, beat_id: int, dedup_id: str) -> Iterator[tuple[str, str]]:
    from herdbeat.service.queries.run_requests import describe_request, find_request  # noqa: PLC0415 -- of past beats

    return describe_request(find_request(reader, beat_id, dedup_id))


def _find_nearest_beat(at: datetime, before: BeatRecord | None, after: BeatRecord | None) -> BeatRecord | None:
    if after is not None and after.due_at - at < NEAREST_BEAT_TOLERANCE:
        return after
    return before if before is not None and at - before.last_due_at < NEAREST_BEAT_TOLERANCE else None


def explain_next(
    record: ScheduleRecord,
    now: datetime,
    *,
    has_live_node: bool,
    waiting: BeatRecord | None = None,
    hints: tuple[HintView, ...] = (),
    context: GateContext | None = None,
    was_cut_off: bool = False,
) -> Explanation:
    """Explain the next run. `waiting` is a beat that is due and has not started; `was_cut_off` is a run that died.

    `hints` are those of now: the trace has those of the moment it was decided, which may be long ago.
    """
    hints = tuple(each for each in hints if each.state in (HintState.ACTIVE, HintState.SHADOWED))
    steps, traced = _parse_trace_steps(record.next_trace), tuple[HintView, ...]()
    if record.next_run_at is not None:  # during a run they are what caused the run
        steps, traced = refresh_hint_steps(steps, hints, now)
    condition = resolve_condition(record, now)
    open_hints = [build_hint(each.record) for each in hints]
    run_before_hint = find_run_before_hint(record, open_hints, now) if condition.state is DisplayState.OK else None
    gates = evaluate_gates(record, context or GateContext(has_live_node=has_live_node), now)
    sentences = (
        _describe_cut_off(record) if was_cut_off else "",
        _describe_pending_beat(record, waiting, now, has_live_node=has_live_node) if waiting is not None else "",
        _describe_next_run(record, now, condition, steps, has_live_node=has_live_node)
        if run_before_hint is None
        else _describe_run_before_hint(record, run_before_hint, now, steps, has_live_node=has_live_node),
        describe_skips(record) if record.skips else "",
        *_describe_coming_windows(record, now),
        *describe_closed(gates, now),
    )
    # Without a scheduler nothing would happen at those times.
    preview = preview_runs(record, open_hints, now) if has_live_node else RunPreview()
    return Explanation(
        schedule=record.label,
        now=now,
        text="; ".join(filter(None, sentences)),
        next_run_at=run_before_hint or record.next_run_at,
        source=record.next_source,
        origin=record.next_origin,
        state=condition.state,
        has_live_node=has_live_node,
        steps=steps,
        gates=gates,
        hints=hints,
        untraced_hints=tuple(each for each in hints if each not in traced),
        last=_describe_last_failure(record, now),
        preview=preview,
        beat=waiting,
    )


def explain_instant(record: ScheduleRecord, past: BeatHistory, now: datetime, zone: ZoneInfo) -> Explanation:
    """Explain the outcome of a beat."""
    beat, runs = past.beat, past.runs
    due = _format_local_time(beat.due_at, zone, now)
    if beat.count > 1:
        due = f"{beat.count} times from {due} to {_format_local_time(beat.last_due_at, zone, now)}"
    facts = [_describe_outcome(past, zone, now)]
    rule = find_deciding_policy(record, beat, past.budgets)
    fix = ""
    if rule is not None:
        facts.append((rule.key, rule.text))
        fix = _suggest_fix(record, rule.fix, is_shared=rule.is_shared) if rule.fix else ""
    if beat.settled_at is not None:
        facts.append(("recorded", f"beat {format_short_id(beat.id)}, {_format_local_time(beat.settled_at, zone, now)}"))
    text = f"{record.label} was due {due} and {_describe_end(beat)}."
    return replace(
        _explain_past(record, now, text, facts, fix),
        source=beat.source,
        origin=beat.origin,
        steps=_parse_trace_steps(past.trace) if runs and beat.source.is_clock else (),
        beat=beat,
        run=runs[0] if runs else None,
    )


Neighbours: TypeAlias = tuple[BeatRecord | None, BeatRecord | None]
"""The last beat that was due before a moment, and the first after it."""


def explain_no_beat(
    record: ScheduleRecord, at: datetime, neighbours: Neighbours, now: datetime, zone: ZoneInfo
) -> Explanation:
    """Explain a moment at which nothing was due, by what was due before and after it."""
    if is_skipped_by_active_hours(record, at, now):
        return _explain_outside_hours(record, at, now, zone)
    before, after = neighbours
    facts = []
    if before is not None:
        facts.append(
            ("before", f"{_format_local_time(before.last_due_at, zone, now)}, {_describe_beat_outcome(before)}")
        )
    if after is not None:
        facts.append(("after", f"{_format_local_time(after.due_at, zone, now)}, {_describe_beat_outcome(after)}"))
    elif record.next_run_at is not None:
        facts.append(("after", f"{_format_local_time(record.next_run_at, zone, now)}, planned"))
    text = f"{record.label} had no beat due at {_format_local_time(at, zone, now)} (not_due)."
    return _explain_past(record, now, text, facts)


MAX_FORECAST_RUNS = 20_000
"""Runs that are forecast to answer for a moment ahead: about a second of work."""


def explain_future(
    record: ScheduleRecord,
    forecast: ForecastInput,
    at: datetime,
    now: datetime,
    zone: ZoneInfo,
    *,
    has_live_node: bool = True,
) -> Explanation:
    """Explain what will happen at a moment, with the pause, the skips and the hints of now."""
    explanation = _explain_skipped_in_pause(record, at, now, zone) or _explain_planned(record, forecast, at, now, zone)
    if has_live_node:
        return explanation
    text = explanation.text.replace(" and will ", " and, if the scheduler were running, would ")
    return replace(explanation, text=text, has_live_node=False)


def _explain_skipped_in_pause(
    record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo
) -> Explanation | None:
    """An instant of the calendar inside the pause is skipped. An interval has no instants there."""
    trigger = record.plan.trigger
    if not isinstance(trigger, CalendarTrigger):
        return None
    due = trigger.latest(at - NEAREST_BEAT_TOLERANCE, at + NEAREST_BEAT_TOLERANCE)
    window = None if due is None else find_window(record.windows, due)
    if due is not None and window is not None:
        text = f"{record.label} is due {_format_local_time(due, zone, now)}, in a planned pause: it will be skipped."
        return _explain_past(record, now, text, [("planned pause", describe_window(window, zone))])
    is_inside = record.paused_until is None or at < record.paused_until
    if due is None or not (resolve_condition(record, now).is_paused and is_inside):
        return None
    text = f"{record.label} is due {_format_local_time(due, zone, now)}, during its pause: it will be skipped."
    return _explain_past(record, now, text, [("paused", describe_pause(record, now))])


def _explain_planned(
    record: ScheduleRecord, forecast: ForecastInput, at: datetime, now: datetime, zone: ZoneInfo
) -> Explanation:
    condition, facts = resolve_condition(record, now), list[tuple[str, str]]()
    if condition.is_paused:
        facts.append(("paused", describe_pause(record, now)))
    if unscheduled := find_unscheduled([forecast], now):
        text = f"{record.label} has no beat planned for {_format_local_time(at, zone, now)}: {unscheduled[0].reason}."
        return _explain_past(record, now, text, [*facts, ("state", str(condition.state))])
    before, found, after = _find_planned(forecast, at, now)
    if record.plan.trigger.interval is not None:
        facts.append(("assumes", "that earlier runs succeed and take no time"))
    if found is None:
        return _explain_nothing_planned(record, (before, after), at, now, zone, facts)
    is_skipped = BY_REQUEST_NOTE in found.notes
    verb = "will be skipped by request" if is_skipped else f"will run {_format_distance(found.next_run_at, now)}"
    facts += [("note", note) for note in found.notes]
    text = f"{record.label} is due {_format_local_time(found.due_at, zone, now)} and {verb}, because of {found.source}."
    steps = tuple(step_to_json(step) for step in found.trace)
    return replace(
        _explain_past(record, now, text, facts or [("source", str(found.source))]), source=found.source, steps=steps
    )


def _find_planned(
    forecast: ForecastInput, at: datetime, now: datetime
) -> tuple[UpcomingRun | None, UpcomingRun | None, UpcomingRun | None]:
    """Return the last run before a moment, the one nearest to it within a minute, and the first after it."""
    before, found, after = None, None, None
    runs = annotate_skips(iter_forecast_runs(forecast, now), {forecast.label: forecast.skips})
    for run in islice(runs, MAX_FORECAST_RUNS):
        distance = abs(run.next_run_at - at)
        if distance < NEAREST_BEAT_TOLERANCE and (found is None or distance < abs(found.next_run_at - at)):
            found = run
        if run.next_run_at > at:
            after = run
            break
        before = run
    return before, found, after


def _explain_nothing_planned(
    record: ScheduleRecord,
    neighbours: tuple[UpcomingRun | None, UpcomingRun | None],
    at: datetime,
    now: datetime,
    zone: ZoneInfo,
    facts: Sequence[tuple[str, str]],
) -> Explanation:
    labels = zip(("before", "after"), neighbours, strict=True)
    planned = [
        (label, f"{_format_local_time(run.next_run_at, zone, now)}, {run.source}") for label, run in labels if run
    ]
    when = _format_local_time(at, zone, now)
    text = f"{record.label} has no beat planned for {when} (not_due)."
    if neighbours[1] is None and neighbours[0] is not None:
        text = f"{record.label} continues {record.plan.trigger.describe()}; {when} is too far ahead to forecast."
    return _explain_past(
        record, now, text, [*planned, *facts] or [("state", str(resolve_condition(record, now).state))]
    )


def _explain_outside_hours(record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo) -> Explanation:
    """Explain an instant of a night that is not over: it gets its row when the hours open again."""
    hours = record.plan.policies.active_hours
    facts = [
        ("skipped", f"{SkipReason.INACTIVE_HOURS}: {describe_skip(SkipReason.INACTIVE_HOURS)}"),
        ("active_hours", f"{hours}: beats outside these hours are skipped"),
    ]
    if record.next_run_at is not None:
        until = _format_local_time(record.next_run_at, zone, now)
        facts.append(("recorded", f"in one row with all beats skipped until {until}"))
    text = f"{record.label} was due {_format_local_time(at, zone, now)} and did not run."
    return _explain_past(record, now, text, facts, _suggest_fix(record, "set wider active_hours"))


def _explain_past(
    record: ScheduleRecord, now: datetime, text: str, facts: Sequence[tuple[str, str]], fix: str = ""
) -> Explanation:
    return Explanation(
        schedule=record.label,
        now=now,
        text=text,
        next_run_at=record.next_run_at,
        state=resolve_condition(record, now).state,
        facts=tuple(facts),
        fix=fix,
    )


def explain_run(
    run: RunRecord, trace: str | None, now: datetime, zone: ZoneInfo, details: RunDetails | None = None
) -> Explanation:
    """Explain why a run happened. `trace` is the decision that caused it."""
    start = run.began_at
    late = start - (planned_start(trace, run.due_at) if run.source.is_clock else run.due_at)
    late_text = f", {humanize(late)} late" if late.total_seconds() >= 1 else ""
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    facts = [
        ("due", _format_local_time(run.due_at, zone, now)),
        ("started", f"{_format_local_time(start, zone, now)}{late_text}{attempt}"),
        ("result", _describe_run_result(run)),
        *([("note", run.note)] if run.note else []),
        ("beat", f"{format_short_id(run.beat_id)}, {run.dedup_id}"),
        *([("node", f"{details.host}, pid {details.pid}, herdbeat {details.version}")] if details else []),
        *([("executor", describe_executor(details))] if details and details.job else []),
    ]
    by = f" by {run.origin}" if run.origin else ""
    return Explanation(
        schedule=run.schedule,
        now=now,
        text=f"{run.schedule} run {format_short_id(run.id)} was caused by {run.source}{by}.",
        source=run.source,
        origin=run.origin,
        # An event is its own cause; the trace stored with it is about the schedule's next time.
        steps=_parse_trace_steps(trace) if run.source.is_clock else (),
        facts=tuple(facts),
        run=run,
    )


def describe_executor(details: RunDetails) -> str:
    """Return on which engine and machine a run is; empty for one on its node."""
    return f"{details.executor}, {details.place or 'not begun'}, job {details.job}" if details.job else ""


# The sentences and lines of an explanation.


def _describe_coming_windows(record: ScheduleRecord, now: datetime) -> Iterator[str]:
    for window in record.windows:
        if window.from_at > now:
            when = describe_window(window, record.plan.policies.zone)
            yield f"planned pause {when}; cancel it: herdbeat pauses cancel {window.id}"


def _describe_end(beat: BeatRecord) -> str:
    phrase = _OUTCOME_PHRASES.get(beat.outcome, "did not run")
    has_ended_badly = beat.outcome is BeatOutcome.RAN and beat.result not in (None, RunStatus.SUCCEEDED)
    return f"{phrase}: {beat.result}" if has_ended_badly else phrase


_OUTCOME_PHRASES = {BeatOutcome.RAN: "ran", BeatOutcome.RUNNING: "is running", BeatOutcome.PENDING: "is waiting"}


def _describe_next_run(
    record: ScheduleRecord, now: datetime, condition: ScheduleCondition, steps: TraceSteps, *, has_live_node: bool
) -> str:
    at, state = record.next_run_at, condition.state
    if state is DisplayState.DISABLED:
        return f"no next run: {describe_disabled(record)}"
    if condition.is_quarantined:
        again = f"fix its configuration, or retry: herdbeat reset {record.label}"
        return f"no next run: the schedule is quarantined ({record.quarantine}); {again}"
    pause = describe_pause(record, now) if condition.is_paused else ""
    if state is DisplayState.RUNNING and (pause or at is None):
        return f"running now; {pause or 'the next run is scheduled when this run ends'}"
    if pause:
        return pause
    if (retry := describe_retry(record, now)) and state is not DisplayState.RUNNING:
        then = "the next run is scheduled when that attempt ends"
        if at is not None:
            then = _describe_planned(record, now, steps, has_live_node=has_live_node)
        elif record.plan.trigger.kind is TriggerKind.DELAY:
            then = "a one-shot has no next run"
        return f"{retry} (last attempt: {record.last_status}); {then}"
    if at is None:
        return _describe_no_next_run(record, steps)
    if state is DisplayState.RUNNING:
        return f"running now; {_describe_overlap(record, at, now, steps)}"
    return _describe_planned(record, now, steps, has_live_node=has_live_node)


def _describe_planned(record: ScheduleRecord, now: datetime, steps: TraceSteps, *, has_live_node: bool) -> str:
    at = record.next_run_at
    assert at is not None
    if at <= now and resolve_condition(record, now).state is DisplayState.LATE:
        what = "not started yet" if has_live_node else "no scheduler is running"
        return f"due {humanize(now - at)} ago: {what}"
    what = "next run" if has_live_node else "no scheduler is running; the next run would be"
    return f"{what} {_format_distance(at, now)} because of {_describe_cause(record, steps)}"


def _describe_run_before_hint(
    record: ScheduleRecord, at: datetime, now: datetime, steps: TraceSteps, *, has_live_node: bool
) -> str:
    what = "next run" if has_live_node else "no scheduler is running; the next run would be"
    assert record.next_run_at is not None
    later = _format_distance(record.next_run_at, now)
    asked = f"{_describe_cause(record, steps)}, ends before the run that it asks for, {later}"
    return f"{what} {_format_distance(at, now)}: {asked}"


def _describe_pending_beat(record: ScheduleRecord, beat: BeatRecord, now: datetime, *, has_live_node: bool) -> str:
    """Describe a beat that is due and has not started."""
    why = beat.reason or "not started yet"
    if beat.reason and beat.reason != SkipReason.RATE_LIMITED:
        why = f"{beat.reason}, {record.target_running} of {record.target_room} running"
    since = humanize(now - beat.due_at)
    return f"a beat due {since} ago is waiting ({why if has_live_node else 'no scheduler is running'})"


def _describe_last_failure(record: ScheduleRecord, now: datetime) -> str:
    """Describe how the last run ended, if that is why the schedule waits longer; else empty."""
    if record.is_unable:
        return f"its last run could not start: {record.last_error}"
    is_failing = record.failures or record.retry_attempt is not None
    if not is_failing or record.last_status is None or record.last_run_at is None:
        return ""
    error = f": {record.last_error}" if record.last_error else ""
    return f"{record.last_status} {humanize(now - record.last_run_at)} ago{error}"


def _describe_cut_off(record: ScheduleRecord) -> str:
    then = " and repeats it" if record.plan.policies.on_interrupt is OnInterrupt.RETRY else ""
    return f"its last run was cut off; the next start records it as interrupted{then}"


def _describe_no_next_run(record: ScheduleRecord, steps: TraceSteps) -> str:
    if record.waiting:
        return "the next run is scheduled after the waiting beat has run"
    if record.was_cut_off:
        return "the next run is scheduled then"
    max_runs = record.plan.policies.bounds.max_runs
    if max_runs is not None and record.runs >= max_runs:
        return f"no next run: max_runs {max_runs} is reached: expired"
    return f"no next run: {steps[-1]['text'] if steps else 'none is planned'}"


def _describe_overlap(record: ScheduleRecord, at: datetime, now: datetime, steps: TraceSteps) -> str:
    """Describe an instant that may come during the run: always a beat, but a run only under some policies."""
    from herdbeat.scheduler.evaluate import OverlapAction, resolve_overlap  # noqa: PLC0415 - only during a run

    overlap = record.plan.policies.overlap
    action = resolve_overlap(overlap, has_active_run=True, has_queued_beat=record.waiting > 0)
    due = f"{_format_distance(at, now)} because of {_describe_cause(record, steps)}"
    if action is OverlapAction.START:
        return f"next run {due}"
    phrases = {
        OverlapAction.SKIP: "skipped if the run is still active",
        OverlapAction.ENQUEUE: "which waits until the run ends",
        OverlapAction.MERGE: "merged into the waiting beat",
        OverlapAction.REPLACE: "which cancels the run if it is still active",
    }
    return f"next beat {due}, {phrases[action]} (overlap: {overlap})"


def _format_distance(at: datetime, now: datetime) -> str:
    return f"in {humanize(at - now)}" if at - now >= _NOW_THRESHOLD else "now"


def _describe_cause(record: ScheduleRecord, steps: TraceSteps) -> str:
    won = next((str(step["text"]) for step in steps if step.get("won")), "")
    return won or str(record.next_source)


def _parse_trace_steps(trace: str | None) -> TraceSteps:
    return tuple(json.loads(trace).get("steps", ())) if trace else ()


def _describe_outcome(past: BeatHistory, zone: ZoneInfo, now: datetime) -> tuple[str, str]:
    beat = past.beat
    match beat.outcome:
        case BeatOutcome.MISSED:
            return "missed", _describe_missed(MissedReason(beat.reason), past.gap, zone, now)
        case BeatOutcome.SKIPPED:
            return "skipped", f"{beat.reason}: {describe_skip(beat.reason)}"
        case BeatOutcome.MERGED:
            return "merged", _describe_absorbing_beat(past.absorbed_by, zone, now)
        case BeatOutcome.PENDING:
            return "waiting", _describe_wait(beat.reason)
        case BeatOutcome.RUNNING | BeatOutcome.RAN:
            results = [f"{format_short_id(run.id)} {_describe_run_result(run)}" for run in past.runs]
            return beat.outcome.value, "; ".join(results) or "its runs have been pruned"
        case never:
            assert_never(never)


def _describe_missed(reason: MissedReason, gap: Gap | None, zone: ZoneInfo, now: datetime) -> str:
    if gap is None:
        return MISSED_TEXTS[reason]
    ends = [_format_local_time(each, zone, now) for each in (gap.from_at, gap.until)]
    lasted = f"{MISSED_TEXTS[gap.reason]} from {ends[0]} to {ends[1]}"
    return f"{MISSED_TEXTS[reason]}: {lasted}" if reason is MissedReason.TOO_LATE else lasted


_WAIT_TEXTS = {
    Source.RETRY: "for its next attempt",
    Source.CATCH_UP: "for its turn: missed beats start one after the other (catchup_rate)",
}


def _describe_wait(reason: str) -> str:
    if not reason:
        return "for the scheduler"
    return next(
        (text for source, text in _WAIT_TEXTS.items() if source == reason), f"{reason}: {describe_skip(reason)}"
    )


def _describe_absorbing_beat(beat: BeatRecord | None, zone: ZoneInfo, now: datetime) -> str:
    if beat is None:
        return "into another beat"
    run = f" as {format_short_id(beat.runs[-1])}" if beat.runs else ""
    return f"into the beat of {_format_local_time(beat.due_at, zone, now)}, {_describe_beat_outcome(beat)}{run}"


def _describe_run_result(run: RunRecord) -> str:
    spent = f" after {format_elapsed(run.elapsed(run.finished_at))}" if run.finished_at else ""
    error = f": {run.error}" if run.error else ""
    # Only an endpoint succeeds with a code that is not 0; that of a failure leads its error.
    answered = f" with {run.code}" if run.code and run.status is RunStatus.SUCCEEDED else ""
    return f"{run.status}{answered}{spent}{error}"


def _suggest_fix(record: ScheduleRecord, setting: str, *, is_shared: bool = False) -> str:
    place = f" in {record.origin}" if record.origin and not is_shared else ""
    return f"{setting}{place}, or run it now: herdbeat run {record.label}"


def _describe_beat_outcome(beat: BeatRecord) -> str:
    return f"{beat.outcome}: {beat.reason}" if beat.reason else beat.outcome.value


def _format_local_time(moment: datetime, zone: ZoneInfo, now: datetime) -> str:
    """Return for example `Fri 27 Mar 09:00:00 CET`, with the year if it is not this one."""
    local = moment.astimezone(zone)
    year = "" if local.year == now.astimezone(zone).year else f" {local.year}"
    return f"{local:%a %d %b}{year} {local:%H:%M:%S %Z}"
