"""Commands on beats and runs: cancel, retry, backfill, trigger."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.manual_request import ManualRequest
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import TriggerKind, event_dedup_id
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.events import BeatSettled
from herdbeat.prompts import validate_prompt
from herdbeat.scheduler import backfill
from herdbeat.scheduler.backfill import count_instants, enqueue_backfill, iterate_instants
from herdbeat.scheduler.control import restart_interval
from herdbeat.scheduler.manual import RetryResult, enqueue_manual, retry_run
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.service.commands.base import (
    BackfilledSchedule,
    BackfillSchedule,
    CancelledWork,
    CancelResult,
    CancelRuns,
    CancelSchedules,
    KeyReused,
    RetriedRun,
    RetriedRuns,
    RetryRuns,
    TriggeredBeat,
    TriggerSchedule,
)
from herdbeat.service.commands.dispatch import Environment, StopOrder
from herdbeat.store.base import PendingBeat, ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_optional_timestamp, format_timestamp

BackfillWindow = backfill.BackfillWindow
MAX_BACKFILL_BEATS = backfill.MAX_BACKFILL_BEATS
DEFAULT_MAX_BACKFILL_BEATS = 100
MAX_DEDUP_ID_BYTES = 200


def cancel_schedules(
    tx: Transaction, now: datetime, who: str, command: CancelSchedules, environment: Environment
) -> CancelResult:
    """Settle what waits and stop what runs, together.

    A beat that waits for the place of a run must be settled before that run ends, or it takes the place first. The
    runs of this node end after the transaction, so they cannot be faster. What found nothing leaves no row.
    """
    beats = cancel_pending(tx, now, command.schedules)
    labels = {number: each.label for number, each in tx.schedule_get_enabled(command.schedules).items()}
    runs: dict[int, list[int]] = {number: [] for number in labels}
    reason = _format_cancel_reason(who, command.reason)
    order = StopOrder(reason=reason, schedules=command.schedules, force=command.force)
    for schedule_id, run_id in environment.stop(tx, order):
        runs.setdefault(schedule_id, []).append(run_id)
    items = tuple(
        _build_cancelled_work(label, number, runs[number], beats.get(number, ())) for number, label in labels.items()
    )
    _record_cancel(tx, now, who, command.reason, items)
    for number, label in labels.items():
        environment.events.extend(_build_settled_events(now, label, beats.get(number, ())))
    return CancelResult(items=items)


def cancel_runs(
    tx: Transaction, now: datetime, who: str, command: CancelRuns, environment: Environment
) -> CancelResult:
    """Stop these runs alone; a run that has ended, or is unknown, is left out of its item."""
    order = StopOrder(reason=_format_cancel_reason(who, command.reason), runs=command.runs, force=command.force)
    stopped = {run for _, run in environment.stop(tx, order)}
    items = tuple(
        _build_cancelled_work(_run_label(tx, run), 0, [run] if run in stopped else [], ()) for run in command.runs
    )
    _record_cancel(tx, now, who, command.reason, items)
    return CancelResult(items=items)


def _run_label(tx: Transaction, run_id: int) -> str:
    """Return the label of the schedule of a run, even if the schedule was removed during the run."""
    attempt = tx.last_attempt(run_id)
    if attempt is None:
        return ""
    schedule_id = [attempt.schedule_id]
    known = tx.schedule_get_enabled(schedule_id) or tx.schedules(schedule_id)
    return next((schedule.label for schedule in known.values()), "")


def _build_cancelled_work(
    label: str, schedule_id: int, runs: Iterable[int], beats: Sequence[PendingBeat]
) -> CancelledWork:
    names = tuple(format_short_id(run) for run in runs)
    return CancelledWork(schedule=label, id=schedule_id, runs=names, called_off=len(beats))


def _record_cancel(tx: Transaction, now: datetime, who: str, reason: str, items: Iterable[CancelledWork]) -> None:
    changes = []
    for item in items:
        if item.runs or item.called_off:
            after = {"runs": list(item.runs), "called_off": item.called_off, "reason": reason}
            changes.append(Change(at=now, who=who, what=ChangeKind.CANCEL, subject=item.schedule, after=after))
    tx.add_changes(changes)


def _build_settled_events(now: datetime, label: str, beats: Sequence[PendingBeat]) -> list[BeatSettled]:
    """Return one event for all beats of a schedule, except those whose second attempt was cancelled: they ran."""
    due_times = [beat.due_at for beat in beats if beat.attempt == 1]
    if not due_times:
        return []
    first, last, count = min(due_times), max(due_times), len(due_times)
    return [BeatSettled(now, label, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST, first, last, count)]


def _format_cancel_reason(who: str, reason: str) -> str:
    """Return the error text of a cancelled run."""
    return f"cancelled by {who}: {reason}" if reason else f"cancelled by {who}"


def retry_runs(
    tx: Transaction,
    now: datetime,
    who: str,
    command: RetryRuns,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> RetriedRuns:
    """Return one item for each run that exists, including refusals."""
    known = [tx.last_attempt(run_id) for run_id in command.runs]
    tx.schedules({each.schedule_id for each in known if each is not None})  # locked at once, in the order of all
    results = [(run_id, retry_run(tx, now, run_id, by=who, force=command.force)) for run_id in command.runs]
    retried = [(run_id, each) for run_id, each in results if each is not None]
    in_files = tx.schedule_get_enabled([each.last.schedule_id for _, each in retried])
    labels = {number: each.label for number, each in in_files.items()}
    items = tuple(_build_retried_run(run_id, each, labels.get(each.last.schedule_id, "")) for run_id, each in retried)
    tx.add_changes([_build_retry_change(now, who, command.reason, item) for item in items if item.success])
    return RetriedRuns(items=items)


def _build_retried_run(run_id: int, retried: RetryResult, label: str) -> RetriedRun:
    return RetriedRun(
        schedule=label,
        asked=format_short_id(run_id),
        retries=format_short_id(retried.last.run_id),
        beat=format_short_id(retried.last.beat_id),
        success=retried.attempt is not None,
        attempt=retried.attempt,
        refused=retried.obstacle,
    )


def _build_retry_change(now: datetime, who: str, reason: str, item: RetriedRun) -> Change:
    after = {"run": item.retries, "beat": item.beat, "attempt": item.attempt, "reason": reason}
    return Change(at=now, who=who, what=ChangeKind.RETRY, subject=item.schedule, after=after)


def clip_to_past(window: BackfillWindow, now: datetime) -> BackfillWindow:
    """Return the part of the window that is in the past. Raises UsageError if there is none."""
    past = BackfillWindow(start=window.start, end=min(window.end, now))
    if past.start >= past.end:
        raise UsageError(
            "The time range is empty or in the future.", hint="Its start must be before its end, and in the past."
        )
    return past


def plan_backfill(plan: ScheduleSpec, label: str, window: BackfillWindow, max_beats: int) -> tuple[datetime, ...]:
    """Return all instants of the window. Raises NotFound if there is none, Conflict with their number if too many."""
    count = count_instants(plan, window)
    if not count:
        raise NotFound(f"{label} has no instants in this time range.", hint=f"Show its schedule: herdbeat next {label}")
    if count > max_beats:
        is_own_limit, can_allow_all = max_beats < MAX_BACKFILL_BEATS, count <= MAX_BACKFILL_BEATS
        limit = f"--max is {max_beats}" if is_own_limit else f"the limit is {MAX_BACKFILL_BEATS}"
        hint = (
            f"Use a shorter time range, or raise the limit: --max {count}"
            if can_allow_all
            else "Use a shorter time range."
        )
        raise Conflict(f"{count} instants of {label} are in this time range; {limit}. Nothing was changed.", hint=hint)
    return tuple(iterate_instants(plan, window))


def backfill_schedule(
    tx: Transaction, now: datetime, who: str, command: BackfillSchedule, environment: Environment
) -> BackfilledSchedule:
    """Write a beat for each instant of the window. Raises NotFound if there is none, Conflict if they are too many."""
    label = _require_label(tx, command.schedule)
    window = clip_to_past(BackfillWindow(start=command.start, end=command.end), now)
    plan = tx.schedules([command.schedule])[command.schedule].plan
    instants = plan_backfill(plan, label, window, MAX_BACKFILL_BEATS)
    written = enqueue_backfill(tx, now, command.schedule, instants, origin=who, rate=environment.catchup_rate)
    result = BackfilledSchedule(
        schedule=label,
        backfill=written.number,
        count=len(written.instants),
        first=written.instants[0],
        last=written.instants[-1],
        last_start_at=written.last_start_at,
    )
    after = {
        "backfill": result.backfill,
        "count": result.count,
        "first": format_timestamp(result.first),
        "last": format_timestamp(result.last),
        "reason": command.reason,
    }
    tx.add_changes([Change(at=now, who=who, what=ChangeKind.BACKFILL, subject=label, after=after)])
    return result


def trigger_schedule(
    tx: Transaction, now: datetime, who: str, command: TriggerSchedule, environment: Environment
) -> TriggeredBeat:
    """A beat by hand is its own record: it leaves no row in the change log.

    Where no node runs the fleet it always queues: what a killed node has left open is swept at the next start, so room
    counts for nothing until then.
    """
    label = _require_label(tx, command.schedule)
    event_id = _choose_event_id(command.dedup_id) or environment.event_id
    if command.dedup_id:
        tx.schedules([command.schedule])  # locked: on a shared ledger another server may be writing this very beat
    known = tx.find_beat(command.schedule, event_dedup_id(TriggerKind.MANUAL, event_id)) if command.dedup_id else None
    if known is not None and command.is_private_id:
        raise KeyReused(f"Another request has started a run of {label} with this key.", hint=KeyReused.code.info.fix)
    if known is not None:
        return _find_known_beat(tx, label, command.schedule, known)
    queue = command.queue or not environment.has_live_node
    request = build_request(tx, command)
    written = enqueue_manual(tx, now, command.schedule, origin=who, event_id=event_id, queue=queue, request=request)
    if command.reset and written.beat_id is not None:
        written = replace(written, next_run_at=_restart_interval(tx, now, who, label, command))
    return TriggeredBeat(
        schedule=label,
        success=written.beat_id is not None,
        skipped=written.beat_id is None,
        skip_reason=written.skip_reason,
        waits_for=written.waits_for,
        beat=None if written.beat_id is None else format_short_id(written.beat_id),
        running=written.running,
        max_concurrent=written.max_concurrent,
        next_run_at=written.next_run_at,
    )


def _restart_interval(
    tx: Transaction, now: datetime, who: str, label: str, command: TriggerSchedule
) -> datetime | None:
    """Return the next run of a schedule that counts from now. The row of the change log says what it was before."""
    before = tx.schedules([command.schedule])[command.schedule].next_run_at
    restart_interval(tx, now, command.schedule)
    after = tx.schedules([command.schedule])[command.schedule].next_run_at
    if after != before:
        old, new = ({"next_run_at": format_optional_timestamp(each)} for each in (before, after))
        new = {**new, "reason": command.reason} if command.reason else new
        tx.add_changes([Change(at=now, who=who, what=ChangeKind.EDIT, subject=label, before=old, after=new)])
    return after


def _choose_event_id(dedup_id: str) -> str:
    """Return a sender's own id, marked: no sender can take the id of a beat that it did not make."""
    if len(dedup_id.encode()) > MAX_DEDUP_ID_BYTES or not dedup_id.isprintable():
        hint = f"Use at most {MAX_DEDUP_ID_BYTES} bytes of printable characters."
        raise UsageError("The dedup id is too long, or it has control characters.", hint=hint)
    return f"key:{dedup_id}" if dedup_id else ""


def _find_known_beat(tx: Transaction, label: str, schedule_id: int, beat_id: int) -> TriggeredBeat:
    snapshot = tx.schedules([schedule_id])[schedule_id]
    capacity = tx.target_get_capacity([snapshot.target_id])[snapshot.target_id]
    return TriggeredBeat(
        schedule=label,
        success=True,
        skipped=False,
        skip_reason=None,
        waits_for=None,
        beat=format_short_id(beat_id),
        running=capacity.running,
        max_concurrent=capacity.max_concurrent,
        next_run_at=snapshot.next_run_at,
        deduplicated=True,
    )


def _require_label(tx: Transaction, schedule_id: int) -> str:
    known = tx.schedule_get_enabled([schedule_id]).get(schedule_id)
    if known is None:
        raise NotFound("The schedule no longer exists.", hint="List all schedules: herdbeat list")
    return known.label


MAX_PROMPT_BYTES = 100_000
"""The longest argument of a program on Linux is a little longer, and some agents get their prompt as one."""

MAX_INPUT_BYTES = 1_048_576


def build_request(tx: Transaction, command: TriggerSchedule) -> ManualRequest:
    """Return what is stored with the beat. Raises UsageError."""
    if command.prompt or command.input:
        snapshot = tx.schedules([command.schedule])[command.schedule]
        _check_prompt(tx, snapshot, command.prompt)
        _check_input(snapshot, command.input)
    return ManualRequest(prompt=command.prompt, input=command.input, reason=command.reason)


def _check_prompt(tx: Transaction, snapshot: ScheduleSnapshot, prompt: str) -> None:
    if len(prompt.encode(errors="surrogatepass")) > MAX_PROMPT_BYTES:
        raise UsageError("The prompt is too long.", hint=f"Use at most {MAX_PROMPT_BYTES:,} bytes.")
    if not prompt or snapshot.unreadable is not None:
        return
    for error in validate_prompt(prompt, snapshot.plan.trigger.kind, has_work=_has_work(tx, snapshot)):
        raise UsageError(f"The prompt: {error.message}", hint=error.hint)


def _has_work(tx: Transaction, snapshot: ScheduleSnapshot) -> bool:
    rows = tx.schedule_list_by_target([snapshot.target_id]).values()
    brief = next((row.brief for number, row in rows if number == snapshot.id), "{}")
    return json.loads(brief).get("work_source") is not None


def _check_input(snapshot: ScheduleSnapshot, text: str) -> None:
    if not text:
        return
    if snapshot.unreadable is not None or snapshot.plan.trigger.kind is not TriggerKind.WEBHOOK:
        hint = "Give it a prompt instead, or use a schedule with type: webhook."
        raise UsageError(f"{snapshot.label} takes no input: it is not started by webhooks.", hint=hint)
    if len(text.encode(errors="surrogatepass")) > MAX_INPUT_BYTES:
        raise UsageError("The input is too long.", hint=f"Use at most {MAX_INPUT_BYTES:,} bytes.")
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("The input is not JSON.", hint='Write for example: {"action": "published"}') from error
