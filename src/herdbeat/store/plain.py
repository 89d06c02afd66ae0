"""The way of nearly every beat: it comes due, starts, succeeds without a word, and its schedule is decided again.

Rows that say nothing unusual go by narrow statements, which bind only what differs and hold no foreign text; all others
by the wide ones, which carry everything as JSON, cleaned of what no ledger can hold.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.store.micros import to_micros
from herdbeat.store.rows import ChangedBeat, ChangedSchedule, FinishedRun, NewBeat

T = TypeVar("T")
Row = tuple[object, ...]


def split_simple(rows: Iterable[T], is_simple: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """The plain ones, and the others."""
    plain: list[T] = []
    others: list[T] = []
    for row in rows:
        (plain if is_simple(row) else others).append(row)
    return plain, others


def is_simple_start(numbered: tuple[int, NewBeat]) -> bool:
    """One instant that starts at once."""
    beat = numbered[1]
    return (
        beat.outcome is BeatOutcome.RUNNING
        and beat.number == 1
        and beat.wake_at is None
        and not (beat.origin or beat.payload or beat.reason)
    )


def start_row(numbered: tuple[int, NewBeat]) -> Row:
    number, beat = numbered
    due_at, created_at = to_micros(beat.due_at), to_micros(beat.created_at)
    return number, *beat[:3], due_at, beat.source, beat.priority, created_at


def is_simple_settle(beat: ChangedBeat) -> bool:
    """It ran. Its attempts were counted when they began."""
    return beat.outcome is BeatOutcome.RAN and beat.settled and not beat.reason


def is_simple_success(run: FinishedRun) -> bool:
    """A success that has nothing to tell."""
    outcome = run.outcome
    return (
        outcome.status is RunStatus.SUCCEEDED
        and outcome.code is None
        and outcome.response is None
        and run.log is None
        and not (outcome.error or outcome.summary or outcome.usage or outcome.session or outcome.note)
    )


def is_simple_reschedule(each: ChangedSchedule) -> bool:
    """Decided again by a success that moved its anchor. Only a finish has a status, and no finish moves the tail."""
    return (
        each.last_status is RunStatus.SUCCEEDED
        and each.next_trace is not None
        and each.next_run_at == each.next_due_at == each.wake_at
        and each.anchor_at == each.last_run_at
        and not (each.failures or each.is_new or each.next_origin or each.quarantine or each.last_error)
    )


def reschedule_row(each: ChangedSchedule) -> Row:
    at, now = to_micros(each.next_run_at), to_micros(each.last_run_at)
    return each.id, at, each.next_source, each.next_trace, each.runs, each.running, now


def success_row(run: FinishedRun) -> Row:
    return run.run_id, to_micros(run.started_at)
