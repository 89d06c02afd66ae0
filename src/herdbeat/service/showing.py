"""Everything about one thing: a target, a schedule, a run or a beat, whichever a word means."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.brief import Brief
from herdbeat.domain.ids import from_short_id
from herdbeat.domain.records import BeatRecord, RunDetails, RunRecord, ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.domain.spend import Holder, Scope
from herdbeat.domain.target import Target
from herdbeat.service.coming import coming
from herdbeat.service.hints import HintState, StandingHint, hint_object, hint_of, stand_of
from herdbeat.service.listing import Listed, look_at, unknown_name
from herdbeat.service.objects import Json, beat_object, moment_or_null, run_object, schedule_object
from herdbeat.service.policy_words import PolicyWord, budget_words, policy_words
from herdbeat.service.questions import find_run
from herdbeat.service.selecting import parts_of
from herdbeat.store.looking import Look, LookReader
from herdbeat.store.reader import Filter

RUNS = 5
SCHEDULES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTarget:
    target: Target
    written_at: str
    running: int
    schedules: tuple[Listed, ...]
    budget: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSchedule:
    """A schedule as it stands. `instants` are its next times, as far as they can be known."""

    listed: Listed
    target: Target
    brief: Brief
    policies: tuple[PolicyWord, ...]
    instants: tuple[datetime, ...]
    hints: tuple[StandingHint, ...]
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """A run, the beat it was an attempt at, and the other attempts at it."""

    run: RunRecord
    beat: BeatRecord
    attempts: tuple[RunRecord, ...]
    details: RunDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBeat:
    beat: BeatRecord
    runs: tuple[RunRecord, ...]


Shown = ShownTarget | ShownSchedule | ShownRun | ShownBeat


def find_shown(reader: LookReader, word: str, now: datetime) -> Shown:
    """A name before an id, a run before a beat. Raises NotFound, which guesses."""
    kind, colon, number = word.partition(":")
    if colon and kind in ("run", "beat"):
        return _numbered(reader, word, number, is_beat=kind == "beat")
    target, name = parts_of(word)
    named = reader.find(Look(now=now, names=(f"{target}/{name or '*'}",), limit=SCHEDULES))
    single = next((each for each in named if name or each.name == DEFAULT_NAME), None)
    if single is not None:
        return _schedule(reader, single, now)
    if named:
        return _target(reader, target, named, now)
    return _numbered(reader, word, word, is_beat=False)


def _numbered(reader: LookReader, word: str, text: str, *, is_beat: bool) -> ShownRun | ShownBeat:
    """By its id: a run, unless a beat is meant or no run has it."""
    run = None if is_beat else find_run(reader, text)
    if run is not None:
        return _run(reader, run)
    number = from_short_id(text)
    beat = reader.beat(number) if number and number < 1 << 62 else None
    if beat is None or word.startswith("run:"):
        raise unknown_name(reader, word)
    return ShownBeat(beat=beat, runs=_attempts(reader, beat))


def _target(reader: LookReader, name: str, schedules: Sequence[ScheduleRecord], now: datetime) -> ShownTarget:
    found = reader.target_named(name)
    assert found is not None, f"{name}: schedules without their target"
    number, written_at, running = found
    holder = Holder(Scope.TARGET, number)
    return ShownTarget(
        target=reader.targets([number])[number],
        written_at=written_at,
        running=running,
        schedules=tuple(look_at(reader, list(schedules), now)),
        budget=budget_words(budget) if (budget := reader.budgets(schedules[0].id).get(holder)) is not None else "",
    )


def _schedule(reader: LookReader, record: ScheduleRecord, now: datetime) -> ShownSchedule:
    found = reader.target_named(record.target)
    assert found is not None, f"{record.label}: a schedule without its target"
    target = reader.targets([found[0]])[found[0]]
    hints = tuple(stand_of(reader.hints([record.id], ended_since=now), now))
    shared = {holder.scope: budget for holder, budget in reader.budgets(record.id).items()}
    heard = [hint_of(each.record) for each in hints if each.state in (HintState.ACTIVE, HintState.SHADOWED)]
    return ShownSchedule(
        listed=look_at(reader, [record], now)[0],
        target=target,
        brief=reader.briefs([record.id])[record.id],
        policies=tuple(policy_words(record.plan.policies, record.plan.trigger.kind, target.kind, shared)),
        instants=coming(record, heard, now).instants,
        hints=hints,
        runs=tuple(reader.runs(Filter(target=record.target, name=record.name, limit=RUNS))),
    )


def _run(reader: LookReader, run: RunRecord) -> ShownRun:
    beat = reader.beat(run.beat_id)
    assert beat is not None, f"run {run.id}: it has no beat"
    return ShownRun(run=run, beat=beat, attempts=_attempts(reader, beat), details=reader.details(run.id))


def _attempts(reader: LookReader, beat: BeatRecord) -> tuple[RunRecord, ...]:
    """The oldest first."""
    return tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs))))[::-1] if beat.runs else ()


def target_object(shown: ShownTarget) -> Json:
    return {
        "target": shown.target.name,
        "kind": shown.target.kind,
        "max_concurrent": shown.target.max_concurrent,
        "running": shown.running,
        "budget": shown.budget or None,
        "written_at": shown.written_at,
        "schedules": [schedule_object(each.record, each.state) for each in shown.schedules],
    }


def shown_schedule_object(shown: ShownSchedule) -> Json:
    return {
        **schedule_object(shown.listed.record, shown.listed.state),
        "kind": shown.target.kind,
        "prompt": shown.brief.prompt,
        "next": [moment_or_null(each) for each in shown.instants],
        "hints": [hint_object(each) for each in shown.hints],
        "policies": {each.key: {"value": each.text, "default": each.is_default} for each in shown.policies},
        "runs": [run_object(each) for each in shown.runs],
    }


def shown_run_object(shown: ShownRun) -> Json:
    details = shown.details
    return {
        **run_object(shown.run),
        "node": {"host": details.host, "pid": details.pid, "version": details.version},
        "response": details.response,
        "usage": dict(details.usage),
        "session": details.session,
        "attempts": [run_object(each) for each in shown.attempts],
        "beat_outcome": shown.beat.outcome,
    }


def shown_beat_object(shown: ShownBeat) -> Json:
    return {**beat_object(shown.beat), "runs": [run_object(each) for each in shown.runs]}
