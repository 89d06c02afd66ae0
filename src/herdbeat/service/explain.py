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
from herdbeat.domain.ids import short_id
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import measured_duration, spoken_duration
from herdbeat.scheduler.budget import Wallet
from herdbeat.service.coming import Coming, coming
from herdbeat.service.gates import Around, Gate, gate_object, gates_of, shut_words
from herdbeat.service.hints import HintState, StandingHint, hint_object, hint_of, up_to_date
from herdbeat.service.holds import wish_words
from herdbeat.service.next_words import last_words, next_words, waiting_words
from herdbeat.service.objects import Json, beat_object, moment_or_null, run_object
from herdbeat.service.reasons import CAUSES, is_passed_over, rule_of, skip_words
from herdbeat.service.states import State, state_of


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
    state: State | None = None
    steps: tuple[Json, ...] = ()
    gates: tuple[Gate, ...] = ()
    hints: tuple[StandingHint, ...] = ()
    unheard: tuple[StandingHint, ...] = ()
    last: str = ""
    coming: Coming = field(default_factory=Coming)
    facts: tuple[tuple[str, str], ...] = ()
    fix: str = ""
    beat: BeatRecord | None = None
    run: RunRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What the ledger keeps of an instant: the gap is the time without anybody that it fell into, if it did.

    `wallet` is what its day had left, for one that the budget did not let run.
    """

    beat: BeatRecord
    gap: Gap | None = None
    wallet: Wallet | None = None
    runs: tuple[RunRecord, ...] = ()
    trace: str | None = None


def explain_next(
    record: ScheduleRecord,
    now: datetime,
    *,
    is_served: bool,
    waiting: BeatRecord | None = None,
    hints: tuple[StandingHint, ...] = (),
    around: Around | None = None,
) -> Explanation:
    """Why is the next run then? `is_served` says whether a scheduler runs at all, `waiting` is a beat that is due.

    `hints` are those that stand now: the trace is of the moment it was decided, and a run in progress hears them later.
    """
    hints = tuple(each for each in hints if each.state in (HintState.ACTIVE, HintState.SHADOWED))
    steps, told = _told_by_trace(record, hints, now)
    state = state_of(record, now)
    gates = gates_of(record, around or Around(is_served=is_served), now)
    said = (
        *([waiting_words(record, waiting, now, is_served=is_served)] if waiting is not None else []),
        next_words(record, now, state, steps, is_served=is_served),
        *([wish_words(record)] if record.skips else []),
        *shut_words(gates, now),
    )
    return Explanation(
        schedule=record.label,
        now=now,
        text="; ".join(said),
        next_run_at=record.next_run_at,
        source=record.next_source,
        origin=record.next_origin,
        state=state,
        steps=steps,
        gates=gates,
        hints=hints,
        unheard=tuple(each for each in hints if each not in told),
        last=last_words(record, now),
        coming=coming(record, [hint_of(each.record) for each in hints], now) if is_served else Coming(),
        beat=waiting,
    )


def _told_by_trace(
    record: ScheduleRecord, hints: tuple[StandingHint, ...], now: datetime
) -> tuple[tuple[Json, ...], tuple[StandingHint, ...]]:
    """The steps of the next decision, and the hints among them. While it runs, they are of what has caused the run."""
    steps = _steps(record.next_trace)
    return (steps, ()) if record.next_run_at is None else up_to_date(steps, hints, now)


def explain_instant(record: ScheduleRecord, past: Past, now: datetime, zone: ZoneInfo) -> Explanation:
    """What became of an instant?"""
    beat, runs = past.beat, past.runs
    due = _moment(beat.due_at, zone)
    if beat.count > 1:
        due = f"{beat.count} times from {due} to {_moment(beat.last_due_at, zone)}"
    word, why = _fate(past, zone)
    facts = [(word, why)]
    rule = rule_of(record, beat, past.wallet)
    if rule is not None:
        facts.append((rule.key, rule.text))
    if beat.settled_at is not None:
        facts.append(("recorded", f"beat {short_id(beat.id)}, {_moment(beat.settled_at, zone)}"))
    did = {BeatOutcome.RAN: "and ran", BeatOutcome.RUNNING: "and is running", BeatOutcome.PENDING: "and waits"}
    return Explanation(
        schedule=record.label,
        now=now,
        text=f"{record.label} was due {due} {did.get(beat.outcome, 'and did not run')}.",
        next_run_at=record.next_run_at,
        source=beat.source,
        origin=beat.origin,
        state=state_of(record, now),
        steps=_steps(past.trace) if runs and beat.source.is_clock else (),
        facts=tuple(facts),
        fix=_fix(record, rule.fix, is_shared=rule.is_shared) if rule is not None and rule.fix else "",
        beat=beat,
        run=runs[0] if runs else None,
    )


def explain_nothing(
    record: ScheduleRecord,
    at: datetime,
    near: tuple[BeatRecord | None, BeatRecord | None],
    now: datetime,
    zone: ZoneInfo,
) -> Explanation:
    """Nothing was due then: what was due before and after?"""
    if is_passed_over(record, at, now):
        return _explain_passed_over(record, at, now, zone)
    before, after = near
    facts = []
    if before is not None:
        facts.append(("before", f"{_moment(before.last_due_at, zone)}, {_ending(before)}"))
    if after is not None:
        facts.append(("after", f"{_moment(after.due_at, zone)}, {_ending(after)}"))
    elif record.next_run_at is not None:
        facts.append(("after", f"{_moment(record.next_run_at, zone)}, planned"))
    return Explanation(
        schedule=record.label,
        now=now,
        text=f"{record.label} had nothing due at {_moment(at, zone)} (not_due).",
        next_run_at=record.next_run_at,
        state=state_of(record, now),
        facts=tuple(facts),
    )


def _explain_passed_over(record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo) -> Explanation:
    """Of this night, which is written down as one row when it is over."""
    hours = record.plan.policies.active_hours
    facts = [
        ("skipped", f"{SkipReason.INACTIVE_HOURS}: {skip_words(SkipReason.INACTIVE_HOURS)}"),
        ("active_hours", f"{hours}: nothing runs outside"),
    ]
    if record.next_run_at is not None:
        facts.append(("recorded", f"in one row with all that is passed over until {_moment(record.next_run_at, zone)}"))
    return Explanation(
        schedule=record.label,
        now=now,
        text=f"{record.label} was due {_moment(at, zone)} and did not run.",
        next_run_at=record.next_run_at,
        state=state_of(record, now),
        facts=tuple(facts),
        fix=_fix(record, "active_hours: wider"),
    )


def explain_run(
    run: RunRecord, trace: str | None, now: datetime, zone: ZoneInfo, details: RunDetails | None = None
) -> Explanation:
    """Why did this run happen? `trace` is the decision that caused it, frozen as it was."""
    start = run.began_at
    late = f", {spoken_duration(start - run.due_at)} late" if (start - run.due_at).total_seconds() >= 1 else ""
    facts = [
        ("due", _moment(run.due_at, zone)),
        ("started", f"{_moment(start, zone)}{late}" + (f", attempt {run.attempt}" if run.attempt > 1 else "")),
        ("result", _result(run)),
        *([("note", run.note)] if run.note else []),
        ("beat", f"{short_id(run.beat_id)}, {run.dedup_id}"),
        *([("node", f"{details.host}, pid {details.pid}, herdbeat {details.version}")] if details else []),
    ]
    by = f" by {run.origin}" if run.origin else ""
    return Explanation(
        schedule=run.schedule,
        now=now,
        text=f"{run.schedule} run {short_id(run.id)} happened because of {run.source}{by}.",
        source=run.source,
        origin=run.origin,
        # An event has a cause of its own; the trace beside it is about the schedule's next time.
        steps=_steps(trace) if run.source.is_clock else (),
        facts=tuple(facts),
        run=run,
    )


def explanation_object(explanation: Explanation) -> Json:
    return {
        "schedule": explanation.schedule,
        "now": moment_or_null(explanation.now),
        "next_run_at": moment_or_null(explanation.next_run_at),
        "source": explanation.source,
        "origin": explanation.origin,
        "state": explanation.state,
        "steps": list(explanation.steps),
        "gates": [gate_object(gate) for gate in explanation.gates],
        "hints": [hint_object(hint) for hint in explanation.hints],
        "last": explanation.last,
        "then": [moment_or_null(each) for each in explanation.coming.instants[1:]],
        "facts": [{"about": word, "text": text} for word, text in explanation.facts],
        "fix": explanation.fix,
        "beat": None if explanation.beat is None else beat_object(explanation.beat),
        "run": None if explanation.run is None else run_object(explanation.run),
        "text": explanation.text,
    }


def _steps(trace: str | None) -> tuple[Json, ...]:
    found: dict[str, Any] = json.loads(trace) if trace else {}
    return tuple(found.get("steps", ()))


def _fate(past: Past, zone: ZoneInfo) -> tuple[str, str]:
    beat = past.beat
    match beat.outcome:
        case BeatOutcome.MISSED:
            return "missed", _missed_words(beat, past.gap, zone)
        case BeatOutcome.SKIPPED:
            return "skipped", f"{beat.reason}: {skip_words(beat.reason)}"
        case BeatOutcome.MERGED:
            return "merged", "another beat stands for it"
        case BeatOutcome.PENDING:
            return "waiting", f"{beat.reason}: {skip_words(beat.reason)}" if beat.reason else "for the scheduler"
        case BeatOutcome.RUNNING | BeatOutcome.RAN:
            word = "running" if beat.outcome is BeatOutcome.RUNNING else "ran"
            return word, "; ".join(f"{short_id(run.id)} {_result(run)}" for run in past.runs) or "no run is kept"
        case never:
            assert_never(never)


def _missed_words(beat: BeatRecord, gap: Gap | None, zone: ZoneInfo) -> str:
    cause = CAUSES[MissedReason(beat.reason)]
    if gap is None:
        return cause
    return f"{cause} from {_moment(gap.from_at, zone)} to {_moment(gap.until, zone)}"


def _result(run: RunRecord) -> str:
    spent = f" after {measured_duration(run.spent(run.finished_at))}" if run.finished_at else ""
    error = f": {run.error}" if run.error else ""
    # Only an endpoint succeeds with a code that is not 0; that of a failure leads its error.
    answered = f" with {run.code}" if run.code and run.status is RunStatus.SUCCEEDED else ""
    return f"{run.status}{answered}{spent}{error}"


def _fix(record: ScheduleRecord, setting: str, *, is_shared: bool = False) -> str:
    place = f" in {record.origin}" if record.origin and not is_shared else ""
    return f"{setting}{place}; or now: herdbeat run {record.label}"


def _ending(beat: BeatRecord) -> str:
    return f"{beat.outcome}: {beat.reason}" if beat.reason else beat.outcome.value


def _moment(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).strftime("%a %d %b %H:%M:%S %Z")
