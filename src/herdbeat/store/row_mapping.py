"""Between the columns of the writer's statements and the values of `rows`: one function a row type and direction.

Nearly every beat comes due, starts, succeeds without a message, and its schedule is decided again. Such rows go by
narrow statements, which bind only what differs and hold no foreign text; an `is_simple_…` function picks them. All
other rows go by the wide statements, which carry everything as JSON.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope, Reservation
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor.state import Pause
from herdbeat.store.record_mapping import PLACEHOLDER_PLAN, UnreadablePlan, apply_arm, describe_read_error, read_windows
from herdbeat.store.rows import (
    ChangedBeat,
    ChangedSchedule,
    FinishedRun,
    NewBeat,
    NextRunColumns,
    OpenRun,
    PendingBeat,
    ScheduleRow,
    ScheduleSnapshot,
)
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.timestamps import from_micros, to_micros

T = TypeVar("T")
Columns = tuple[object, ...]

_MICROSECOND = timedelta(microseconds=1)
_SOURCES_BY_VALUE = {source.value: source for source in Source}
_MAX_MICROSECONDS = 200_000_000_000_000_000  # the year 8307, in microseconds
_DAMAGED_ROW_ERRORS = (UnreadablePlan, ArithmeticError, LookupError, TypeError, ValueError)
"""What a damaged column can raise here. Errors of the disk or the server are not among them: those pass through."""


# ── schedules ──


def read_snapshots(rows: Iterable[Sequence[Any]], plan: Callable[[int], ScheduleSpec]) -> list[ScheduleSnapshot]:
    """Read rows of the statement `standing`. A row that cannot be read comes without its plan, and says why."""
    snapshots = []
    for row in rows:
        try:
            snapshots.append(_read_snapshot(row, plan))
        except _DAMAGED_ROW_ERRORS as error:
            snapshots.append(_read_damaged_snapshot(row, error))
    return snapshots


def _read_snapshot(row: Sequence[Any], plan: Callable[[int], ScheduleSpec]) -> ScheduleSnapshot:
    schedule_id, target_id, label, plan_id, revision, enabled, run_at, due_at, source, origin, wake_at, *rest = row
    anchor_at, settled_until, is_new, failures, runs, running, waiting, rare = rest
    next_run_at = from_micros(run_at)
    snapshot = ScheduleSnapshot(
        schedule_id,
        target_id,
        label,
        plan(plan_id),
        revision,
        bool(enabled),
        next_run_at,
        # Mostly the very same moment, and reading one is expensive.
        next_run_at if due_at == run_at else from_micros(due_at),
        _SOURCES_BY_VALUE[source] if source else None,
        origin,
        next_run_at if wake_at == run_at else from_micros(wake_at),
        from_micros(anchor_at),
        from_micros(settled_until),
        bool(is_new),
        failures,
        runs,
        running,
        waiting,
    )
    return snapshot if rare is None else _apply_rare_columns(snapshot, rare)


def _apply_rare_columns(snapshot: ScheduleSnapshot, rare: Sequence[Any]) -> ScheduleSnapshot:
    disabled_by, arm, paused, until, paused_by, paused_reason, tail_id, tail, quarantine, skips, *rest = rare
    floor, removed_at, hints, windows = rest
    return snapshot._replace(
        enabled=snapshot.enabled and disabled_by is None and removed_at is None,
        is_removed=removed_at is not None,
        disabled_by=disabled_by,
        plan=apply_arm(snapshot.plan, arm),
        arm=arm,
        pause=Pause(until=from_micros(until), by=paused_by, reason=paused_reason) if paused else None,
        tail_id=tail_id,
        tail=tail,
        quarantine=quarantine,
        skips=skips,
        not_before=from_micros(floor),
        hints=tuple(read_hint(hint) for hint in hints),
        windows=read_windows(windows),
    )


def _read_damaged_snapshot(row: Sequence[Any], error: Exception) -> ScheduleSnapshot:
    """Read what can be read. Plan, source, pause and hints may be what is damaged, so they are left out."""
    schedule_id, target_id, label, _, revision, enabled, run_at, due_at, _, origin, wake_at, *rest = row
    anchor_at, settled_until, *counters, rare = rest
    if rare is not None:
        disabled_by, arm, *_, tail_id, tail, quarantine, skips, _, removed_at, _, _ = rare
        rare = (disabled_by, arm, 0, None, "", "", tail_id, tail, quarantine, skips, None, removed_at, (), ())
    run_at, due_at, wake_at = _clamp_time(run_at), _clamp_time(due_at), _clamp_time(wake_at)
    next_run = (run_at, due_at, None, origin, wake_at, _clamp_time(anchor_at), _clamp_time(settled_until))
    readable = (schedule_id, target_id, label, 0, revision, enabled, *next_run, *counters, rare)
    return _read_snapshot(readable, lambda _: PLACEHOLDER_PLAN)._replace(unreadable=describe_read_error(error))


def _clamp_time(micros: Any) -> Any:
    return micros if micros is None or (isinstance(micros, int) and abs(micros) < _MAX_MICROSECONDS) else 0


def read_hint(row: Sequence[Any]) -> Hint:
    origin, every, at, reason, expires_at, created_at = row
    return Hint(
        origin=origin,
        every=None if every is None else timedelta(microseconds=every),
        at=from_micros(at),
        reason=reason,
        expires_at=from_micros(expires_at),
        created_at=from_micros(created_at),
    )


def is_simple_reschedule(change: ChangedSchedule) -> bool:
    """Whether a success decided it again and moved its anchor. Only completions have a status; none moves the tail."""
    if change.last_status is not RunStatus.SUCCEEDED or change.next_trace is None:
        return False
    has_details = change.failures or change.is_new or change.next_origin or change.quarantine or change.last_error
    is_one_moment = change.next_run_at == change.next_due_at == change.wake_at
    return is_one_moment and change.anchor_at == change.last_run_at and not has_details


def simple_reschedule_columns(change: ChangedSchedule) -> Columns:
    at, now = to_micros(change.next_run_at), to_micros(change.last_run_at)
    return change.id, at, change.next_source, change.next_trace, change.runs, change.running, now


def changed_schedule_columns(change: ChangedSchedule) -> Columns:
    next_run = to_micros(change.next_run_at), to_micros(change.next_due_at), change.next_source, change.next_origin
    wake_at, anchor_at = to_micros(change.wake_at), to_micros(change.anchor_at)
    progress = to_micros(change.settled_until), int(change.is_new), change.failures, change.runs
    counters = change.running, change.waiting, change.tail_id, change.tail
    last = to_micros(change.last_started_at), to_micros(change.last_run_at), change.last_status, change.last_error
    decision = *next_run, change.next_trace, wake_at, anchor_at
    return change.id, *decision, *progress, *counters, *last, change.quarantine


def schedule_columns(row: ScheduleRow, next_run: NextRunColumns) -> Columns:
    *columns, enabled = row
    run_at, due_at, source, next_origin, trace, wake_at = next_run
    next_run_columns = (to_micros(run_at), to_micros(due_at), source, next_origin, trace, to_micros(wake_at))
    return *columns, int(enabled), *next_run_columns


# ── beats ──


def read_pending_beats(rows: Iterable[Sequence[Any]]) -> list[PendingBeat]:
    return [
        PendingBeat(
            beat, schedule, target, dedup, from_micros(due), reason, _read_source(source), origin, attempt, *rest
        )
        for beat, schedule, target, dedup, due, reason, source, origin, attempt, *rest in rows
    ]


def _read_source(value: str) -> Source:
    """A source that this version does not know is treated as manual: such a beat moves no clock."""
    return _SOURCES_BY_VALUE.get(value, Source.MANUAL)


def is_simple_start(numbered: tuple[int, NewBeat]) -> bool:
    """Whether it is one instant that starts at once."""
    beat = numbered[1]
    has_details = beat.origin or beat.payload or beat.reason or beat.wake_at is not None
    return beat.outcome is BeatOutcome.RUNNING and beat.number == 1 and not has_details


def simple_start_columns(numbered: tuple[int, NewBeat]) -> Columns:
    number, beat = numbered
    due_at, created_at = to_micros(beat.due_at), to_micros(beat.created_at)
    return number, beat.schedule_id, beat.target_id, beat.dedup_id, due_at, beat.source, beat.priority, created_at


def new_beat_columns(numbered: tuple[int, NewBeat]) -> Columns:
    number, beat = numbered
    due = beat.schedule_id, beat.target_id, beat.dedup_id, to_micros(beat.due_at), to_micros(beat.last_due_at)
    cause = beat.number, beat.outcome, beat.reason, beat.source, beat.origin, beat.payload, beat.priority
    return number, *due, *cause, to_micros(beat.wake_at), to_micros(beat.created_at), to_micros(beat.settled_at)


def is_simple_settle(beat: ChangedBeat) -> bool:
    """Whether it ran. Its attempts were counted when they began."""
    return beat.outcome is BeatOutcome.RAN and beat.settled and not beat.reason


def changed_beat_columns(beat: ChangedBeat, now: int) -> Columns:
    settled_at = now if beat.settled else None
    return beat.id, beat.outcome, beat.reason, to_micros(beat.wake_at), beat.attempt, settled_at


# ── runs ──


def read_open_run(row: Sequence[Any]) -> OpenRun:
    run, beat, schedule, attempt, target, source, has_reservation, limited, has_work = row
    known_source = _SOURCES_BY_VALUE[source]
    return OpenRun(run, beat, schedule, attempt, target, known_source, bool(has_reservation), limited, bool(has_work))


def is_simple_success(run: FinishedRun) -> bool:
    """Whether it is a success without a message, usage or log."""
    outcome = run.outcome
    has_output = outcome.code is not None or outcome.response is not None or run.log is not None
    has_text = outcome.error or outcome.summary or outcome.usage or outcome.session or outcome.note
    return outcome.status is RunStatus.SUCCEEDED and not has_output and not has_text


def finished_run_columns(run: FinishedRun, now: int) -> Columns:
    outcome = run.outcome
    return (
        run.run_id,
        outcome.status,
        to_micros(run.started_at),
        now,
        outcome.code,
        outcome.error or None,
        None if outcome.response is None else dump_sanitized(outcome.response),
        outcome.summary or None,
        dump_sanitized(dict(outcome.usage)) if outcome.usage else None,
        outcome.session or None,
        run.log,
        outcome.note or None,
    )


def split_simple(rows: Iterable[T], is_simple: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """Return the rows for the narrow statement, and the others."""
    simple: list[T] = []
    others: list[T] = []
    for row in rows:
        (simple if is_simple(row) else others).append(row)
    return simple, others


# ── hints, gaps, budgets ──


def hint_values(hint: Hint) -> dict[str, object]:
    return {
        "origin": hint.origin,
        "reason": hint.reason,
        "every": None if hint.every is None else hint.every // _MICROSECOND,
        "at": to_micros(hint.at),
        "expires_at": to_micros(hint.expires_at),
    }


def budget_day_columns(account: BudgetDay) -> tuple[BudgetScope, int, str]:
    return account.holder.scope, account.holder.id, account.day


def read_budget_day(scope: str, number: int, day: str) -> BudgetDay:
    return BudgetDay(BudgetOwner(BudgetScope(scope), number), day)


def read_reservations(rows: Iterable[Sequence[Any]]) -> list[Reservation]:
    return [Reservation(run, read_budget_day(scope, number, day), *cost) for run, scope, number, day, *cost in rows]
