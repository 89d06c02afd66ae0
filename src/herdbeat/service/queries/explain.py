"""Three questions, one answer: why is the next run then; what became of an instant; why did a run happen.

Each is a pure function of stored data, so the answer is still true when the files have changed since.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, assert_never
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed, humanize
from herdbeat.scheduler.budgets import ScheduleBudgets
from herdbeat.scheduler.evaluate import OverlapAction, resolve_overlap
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
    serialize_gate,
)
from herdbeat.service.queries.hints import (
    HintState,
    HintView,
    build_hint,
    classify_hints,
    refresh_hint_steps,
    serialize_hint,
)
from herdbeat.service.queries.schedule_state import (
    DisplayState,
    describe_disabled,
    describe_pause,
    describe_skips,
    is_paused,
    resolve_display_state,
)
from herdbeat.service.queries.upcoming import RunPreview, preview_runs
from herdbeat.service.serialize import JsonObject, format_optional_timestamp, serialize_beat, serialize_run
from herdbeat.store.reader import Filter, QueryReader, Reader

# What is said of a schedule's next run: when and why, or why there is none, and what is in its way.


_NOW_THRESHOLD = timedelta(seconds=1)


def describe_next_run(
    record: ScheduleRecord, now: datetime, state: DisplayState, steps: tuple[JsonObject, ...], *, has_live_node: bool
) -> str:
    at = record.next_run_at
    if state is DisplayState.DISABLED:
        return f"no next run: {describe_disabled(record)}"
    if record.quarantine is not None:
        again = f"edit it, or try it again: herdbeat reset {record.label}"
        return f"no next run: it cannot be decided ({record.quarantine}); {again}"
    if state is DisplayState.PAUSED:
        return describe_pause(record, now)
    if state is DisplayState.RUNNING and (is_paused(record, now) or at is None):
        held = describe_pause(record, now) if is_paused(record, now) else "the next time is decided when the run ends"
        return f"it is running; {held}"
    if at is None:
        return _describe_no_next_run(record, steps)
    if state is DisplayState.LATE and at <= now:
        what = "for its turn" if has_live_node else "nobody runs this fleet"
        return f"it is due, {humanize(now - at)} ago, and waits: {what}"
    if state is DisplayState.RUNNING:
        return f"it is running; {_describe_overlap(record, at, now, steps)}"
    return f"next run {_format_distance(at, now)} because of {_describe_cause(record, steps)}"


def describe_pending_beat(record: ScheduleRecord, beat: BeatRecord, now: datetime, *, has_live_node: bool) -> str:
    """Of a beat that is due and has not started."""
    why = f"{beat.reason}, {record.target_running} of {record.target_room} running" if beat.reason else "for its turn"
    since = humanize(now - beat.due_at)
    return f"a beat due {since} ago waits ({why if has_live_node else 'nobody runs this fleet'})"


def describe_last_failure(record: ScheduleRecord, now: datetime) -> str:
    """How its last run ended, where that is why it waits longer; empty if all is well."""
    if not record.failures or record.last_status is None or record.last_run_at is None:
        return ""
    error = f": {record.last_error}" if record.last_error else ""
    return f"{record.last_status} {humanize(now - record.last_run_at)} ago{error}"


def _describe_no_next_run(record: ScheduleRecord, steps: tuple[JsonObject, ...]) -> str:
    if record.waiting:
        return "the next time is decided when that one has run"
    detail = next((str(step["text"]) for step in reversed(steps)), "nothing is planned")
    return f"no next run: {detail}"


def _describe_overlap(record: ScheduleRecord, at: datetime, now: datetime, steps: tuple[JsonObject, ...]) -> str:
    """Of an instant that may come while the run is still going. It is a beat in any case, and a run only perhaps."""
    overlap = record.plan.policies.overlap
    action = resolve_overlap(overlap, has_active_run=True, has_queued_beat=record.waiting > 0)
    due = f"{_format_distance(at, now)} because of {_describe_cause(record, steps)}"
    if action is OverlapAction.START:
        return f"next run {due}"
    return f"next beat {due}, {_OVERLAP_PHRASES[action]} (overlap: {overlap})"


_OVERLAP_PHRASES = {
    OverlapAction.SKIP: "skipped if the run is still going",
    OverlapAction.ENQUEUE: "which waits until the run is over",
    OverlapAction.MERGE: "merged into the one that waits",
    OverlapAction.REPLACE: "which stops the run if it is still going",
}


def _format_distance(at: datetime, now: datetime) -> str:
    return f"in {humanize(at - now)}" if at - now >= _NOW_THRESHOLD else "now"


def _describe_cause(record: ScheduleRecord, steps: tuple[JsonObject, ...]) -> str:
    won = next((str(step["text"]) for step in steps if step.get("won")), "")
    return won or str(record.next_source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer in data. `facts` are lines of a word and a text, `steps` is the governor's trace as it was stored.

    `unheard` are those of the hints that the trace does not tell of.
    """

    schedule: str
    now: datetime
    text: str
    next_run_at: datetime | None = None
    source: Source | None = None
    origin: str = ""
    state: DisplayState | None = None
    steps: tuple[JsonObject, ...] = ()
    gates: tuple[GateStatus, ...] = ()
    hints: tuple[HintView, ...] = ()
    untraced_hints: tuple[HintView, ...] = ()
    last: str = ""
    preview: RunPreview = field(default_factory=RunPreview)
    facts: tuple[tuple[str, str], ...] = ()
    fix: str = ""
    beat: BeatRecord | None = None
    run: RunRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatHistory:
    """What the ledger keeps of an instant: the gap is the time without anybody that it fell into, if it did.

    `wallet` is what its day had left, for one that the budget did not let run.
    """

    beat: BeatRecord
    gap: Gap | None = None
    budgets: ScheduleBudgets | None = None
    runs: tuple[RunRecord, ...] = ()
    trace: str | None = None


def explain_next(
    record: ScheduleRecord,
    now: datetime,
    *,
    has_live_node: bool,
    waiting: BeatRecord | None = None,
    hints: tuple[HintView, ...] = (),
    context: GateContext | None = None,
) -> Explanation:
    """Why is the next run then? `is_served` says whether a scheduler runs at all, `waiting` is a beat that is due.

    `hints` are those that stand now: the trace is of the moment it was decided, and a run in progress hears them later.
    """
    hints = tuple(each for each in hints if each.state in (HintState.ACTIVE, HintState.SHADOWED))
    steps, traced = _refresh_trace_steps(record, hints, now)
    state = resolve_display_state(record, now)
    gates = evaluate_gates(record, context or GateContext(has_live_node=has_live_node), now)
    sentences = (
        *([describe_pending_beat(record, waiting, now, has_live_node=has_live_node)] if waiting is not None else []),
        describe_next_run(record, now, state, steps, has_live_node=has_live_node),
        *([describe_skips(record)] if record.skips else []),
        *describe_closed(gates, now),
    )
    return Explanation(
        schedule=record.label,
        now=now,
        text="; ".join(sentences),
        next_run_at=record.next_run_at,
        source=record.next_source,
        origin=record.next_origin,
        state=state,
        steps=steps,
        gates=gates,
        hints=hints,
        untraced_hints=tuple(each for each in hints if each not in traced),
        last=describe_last_failure(record, now),
        preview=preview_runs(record, [build_hint(each.record) for each in hints], now)
        if has_live_node
        else RunPreview(),
        beat=waiting,
    )


def _refresh_trace_steps(
    record: ScheduleRecord, hints: tuple[HintView, ...], now: datetime
) -> tuple[tuple[JsonObject, ...], tuple[HintView, ...]]:
    """The steps of the next decision, and the hints among them. While it runs, they are of what has caused the run."""
    steps = _parse_trace_steps(record.next_trace)
    return (steps, ()) if record.next_run_at is None else refresh_hint_steps(steps, hints, now)


def explain_instant(record: ScheduleRecord, past: BeatHistory, now: datetime, zone: ZoneInfo) -> Explanation:
    """What became of an instant?"""
    beat, runs = past.beat, past.runs
    due = _format_local_time(beat.due_at, zone)
    if beat.count > 1:
        due = f"{beat.count} times from {due} to {_format_local_time(beat.last_due_at, zone)}"
    word, why = _describe_outcome(past, zone)
    facts = [(word, why)]
    rule = find_deciding_policy(record, beat, past.budgets)
    if rule is not None:
        facts.append((rule.key, rule.text))
    if beat.settled_at is not None:
        facts.append(("recorded", f"beat {format_short_id(beat.id)}, {_format_local_time(beat.settled_at, zone)}"))
    outcome_phrases = {
        BeatOutcome.RAN: "and ran",
        BeatOutcome.RUNNING: "and is running",
        BeatOutcome.PENDING: "and waits",
    }
    return Explanation(
        schedule=record.label,
        now=now,
        text=f"{record.label} was due {due} {outcome_phrases.get(beat.outcome, 'and did not run')}.",
        next_run_at=record.next_run_at,
        source=beat.source,
        origin=beat.origin,
        state=resolve_display_state(record, now),
        steps=_parse_trace_steps(past.trace) if runs and beat.source.is_clock else (),
        facts=tuple(facts),
        fix=_suggest_fix(record, rule.fix, is_shared=rule.is_shared) if rule is not None and rule.fix else "",
        beat=beat,
        run=runs[0] if runs else None,
    )


def explain_no_beat(
    record: ScheduleRecord,
    at: datetime,
    neighbours: tuple[BeatRecord | None, BeatRecord | None],
    now: datetime,
    zone: ZoneInfo,
) -> Explanation:
    """Nothing was due then: what was due before and after?"""
    if is_skipped_by_active_hours(record, at, now):
        return _explain_outside_hours(record, at, now, zone)
    before, after = neighbours
    facts = []
    if before is not None:
        facts.append(("before", f"{_format_local_time(before.last_due_at, zone)}, {_describe_beat_outcome(before)}"))
    if after is not None:
        facts.append(("after", f"{_format_local_time(after.due_at, zone)}, {_describe_beat_outcome(after)}"))
    elif record.next_run_at is not None:
        facts.append(("after", f"{_format_local_time(record.next_run_at, zone)}, planned"))
    return Explanation(
        schedule=record.label,
        now=now,
        text=f"{record.label} had nothing due at {_format_local_time(at, zone)} (not_due).",
        next_run_at=record.next_run_at,
        state=resolve_display_state(record, now),
        facts=tuple(facts),
    )


def _explain_outside_hours(record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo) -> Explanation:
    """Of this night, which is written down as one row when it is over."""
    hours = record.plan.policies.active_hours
    facts = [
        ("skipped", f"{SkipReason.INACTIVE_HOURS}: {describe_skip(SkipReason.INACTIVE_HOURS)}"),
        ("active_hours", f"{hours}: nothing runs outside"),
    ]
    if record.next_run_at is not None:
        facts.append(
            (
                "recorded",
                f"in one row with all that is passed over until {_format_local_time(record.next_run_at, zone)}",
            )
        )
    return Explanation(
        schedule=record.label,
        now=now,
        text=f"{record.label} was due {_format_local_time(at, zone)} and did not run.",
        next_run_at=record.next_run_at,
        state=resolve_display_state(record, now),
        facts=tuple(facts),
        fix=_suggest_fix(record, "active_hours: wider"),
    )


def explain_run(
    run: RunRecord, trace: str | None, now: datetime, zone: ZoneInfo, details: RunDetails | None = None
) -> Explanation:
    """Why did this run happen? `trace` is the decision that caused it, frozen as it was."""
    start = run.began_at
    late = f", {humanize(start - run.due_at)} late" if (start - run.due_at).total_seconds() >= 1 else ""
    facts = [
        ("due", _format_local_time(run.due_at, zone)),
        (
            "started",
            f"{_format_local_time(start, zone)}{late}" + (f", attempt {run.attempt}" if run.attempt > 1 else ""),
        ),
        ("result", _describe_run_result(run)),
        *([("note", run.note)] if run.note else []),
        ("beat", f"{format_short_id(run.beat_id)}, {run.dedup_id}"),
        *([("node", f"{details.host}, pid {details.pid}, herdbeat {details.version}")] if details else []),
    ]
    by = f" by {run.origin}" if run.origin else ""
    return Explanation(
        schedule=run.schedule,
        now=now,
        text=f"{run.schedule} run {format_short_id(run.id)} happened because of {run.source}{by}.",
        source=run.source,
        origin=run.origin,
        # An event has a cause of its own; the trace beside it is about the schedule's next time.
        steps=_parse_trace_steps(trace) if run.source.is_clock else (),
        facts=tuple(facts),
        run=run,
    )


def serialize_explanation(explanation: Explanation) -> JsonObject:
    return {
        "schedule": explanation.schedule,
        "now": format_optional_timestamp(explanation.now),
        "next_run_at": format_optional_timestamp(explanation.next_run_at),
        "source": explanation.source,
        "origin": explanation.origin,
        "state": explanation.state,
        "steps": list(explanation.steps),
        "gates": [serialize_gate(gate) for gate in explanation.gates],
        "hints": [serialize_hint(hint) for hint in explanation.hints],
        "last": explanation.last,
        "then": [format_optional_timestamp(each) for each in explanation.preview.instants[1:]],
        "facts": [{"about": word, "text": text} for word, text in explanation.facts],
        "fix": explanation.fix,
        "beat": None if explanation.beat is None else serialize_beat(explanation.beat),
        "run": None if explanation.run is None else serialize_run(explanation.run),
        "text": explanation.text,
    }


def _parse_trace_steps(trace: str | None) -> tuple[JsonObject, ...]:
    found: dict[str, Any] = json.loads(trace) if trace else {}
    return tuple(found.get("steps", ()))


def _describe_outcome(past: BeatHistory, zone: ZoneInfo) -> tuple[str, str]:
    beat = past.beat
    match beat.outcome:
        case BeatOutcome.MISSED:
            return "missed", _describe_missed(beat, past.gap, zone)
        case BeatOutcome.SKIPPED:
            return "skipped", f"{beat.reason}: {describe_skip(beat.reason)}"
        case BeatOutcome.MERGED:
            return "merged", "another beat stands for it"
        case BeatOutcome.PENDING:
            return "waiting", f"{beat.reason}: {describe_skip(beat.reason)}" if beat.reason else "for the scheduler"
        case BeatOutcome.RUNNING | BeatOutcome.RAN:
            word = "running" if beat.outcome is BeatOutcome.RUNNING else "ran"
            return word, "; ".join(
                f"{format_short_id(run.id)} {_describe_run_result(run)}" for run in past.runs
            ) or "no run is kept"
        case never:
            assert_never(never)


def _describe_missed(beat: BeatRecord, gap: Gap | None, zone: ZoneInfo) -> str:
    cause = MISSED_TEXTS[MissedReason(beat.reason)]
    if gap is None:
        return cause
    return f"{cause} from {_format_local_time(gap.from_at, zone)} to {_format_local_time(gap.until, zone)}"


def _describe_run_result(run: RunRecord) -> str:
    spent = f" after {format_elapsed(run.elapsed(run.finished_at))}" if run.finished_at else ""
    error = f": {run.error}" if run.error else ""
    # Only an endpoint succeeds with a code that is not 0; that of a failure leads its error.
    answered = f" with {run.code}" if run.code and run.status is RunStatus.SUCCEEDED else ""
    return f"{run.status}{answered}{spent}{error}"


def _suggest_fix(record: ScheduleRecord, setting: str, *, is_shared: bool = False) -> str:
    place = f" in {record.origin}" if record.origin and not is_shared else ""
    return f"{setting}{place}; or now: herdbeat run {record.label}"


def _describe_beat_outcome(beat: BeatRecord) -> str:
    return f"{beat.outcome}: {beat.reason}" if beat.reason else beat.outcome.value


def _format_local_time(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).strftime("%a %d %b %H:%M:%S %Z")


# What `explain` needs of a ledger, looked up: so that every face gives the same answer to the same question.


NEAREST_BEAT_TOLERANCE = timedelta(minutes=1)
"""Who asks for 09:00 means the interval that came due at 09:00:12, too."""


def load_next_explanation(reader: Reader, record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> Explanation:
    """Why is the next run then, or why is there none? `is_served` says whether anybody runs the ledger."""
    pending = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
    return explain_next(
        record,
        now,
        has_live_node=has_live_node,
        waiting=next(iter(reader.beats(pending)), None) if record.waiting else None,
        hints=tuple(classify_hints(reader.hints([record.id], ended_since=now), now)),
        context=load_gate_context(reader, record, now, has_live_node=has_live_node),
    )


def load_instant_explanation(
    reader: Reader, record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo
) -> Explanation:
    """What became of that moment?"""
    beat_id = reader.beat_at(record.target, record.name, at)
    before, after = (None if each is None else reader.beat(each) for each in reader.adjacent_beats(record.id, at))
    beat = reader.beat(beat_id) if beat_id is not None else _find_nearest_beat(at, before, after)
    if beat is None:
        return explain_no_beat(record, at, (before, after), now, zone)
    gaps = reader.gaps(beat.due_at) if beat.outcome is BeatOutcome.MISSED else []
    gap = next((gap for gap in gaps if gap.covers(beat.last_due_at)), None)
    runs = tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs)))) if beat.runs else ()
    budgets = (
        load_schedule_budgets(reader, record, beat.last_due_at) if beat.reason == SkipReason.BUDGET_EXCEEDED else None
    )
    past = BeatHistory(beat=beat, gap=gap, runs=runs, trace=reader.beat_trace(beat.id), budgets=budgets)
    return explain_instant(record, past, now, zone)


def load_run_explanation(reader: QueryReader, run: RunRecord, now: datetime, zone: ZoneInfo) -> Explanation:
    """Why did this run happen?"""
    return explain_run(run, reader.beat_trace(run.beat_id), now, zone, reader.details(run.id))


def _find_nearest_beat(at: datetime, before: BeatRecord | None, after: BeatRecord | None) -> BeatRecord | None:
    """The beat within a minute of the moment that is asked for, if there is one."""
    if after is not None and after.due_at - at < NEAREST_BEAT_TOLERANCE:
        return after
    return before if before is not None and at - before.last_due_at < NEAREST_BEAT_TOLERANCE else None
