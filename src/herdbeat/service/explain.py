"""Three questions, one answer: why is the next run then; what became of an instant; why did a run happen.

Each is a pure function of stored data, so the answer is still true when the files have changed since.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.gap import Gap
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed, humanize
from herdbeat.scheduler.budget import ScheduleBudgets
from herdbeat.service.coming import RunPreview, preview_runs
from herdbeat.service.gates import GateContext, GateStatus, describe_closed, evaluate_gates, serialize_gate
from herdbeat.service.hints import HintState, HintView, build_hint, refresh_hint_steps, serialize_hint
from herdbeat.service.holds import describe_skips
from herdbeat.service.next_words import describe_last_failure, describe_next_run, describe_pending_beat
from herdbeat.service.objects import JsonObject, format_optional_timestamp, serialize_beat, serialize_run
from herdbeat.service.reasons import MISSED_TEXTS, describe_skip, find_deciding_policy, is_skipped_by_active_hours
from herdbeat.service.states import DisplayState, resolve_display_state


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
