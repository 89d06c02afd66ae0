"""Change a schedule for a person, an agent or a rule: pause, resume, disable, enable, hint, reset, skip next, import.

Each change is one transaction that first settles the instants up to now, then changes, then decides again. A change at
the very instant of a beat therefore loses nothing and doubles nothing, whichever comes first. A schedule in quarantine
stores the change and stays in quarantine: only an edit or a reset has it decided again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.hint import Hint, Rank
from herdbeat.domain.run import RunStatus
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.governor import Pause, decide
from herdbeat.governor.candidates import backoff_interval
from herdbeat.governor.hints import MAX_ENDED_HINTS, MAX_ONE_SHOT_HINTS, check_rate_limit, is_human
from herdbeat.scheduler.claim import load_recorded, write_evaluations
from herdbeat.scheduler.evaluate import (
    Evaluation,
    build_schedule_change,
    governor_state,
    is_in_flight,
    is_quarantined,
    is_undecided,
    skip_due,
    skip_outside_hours,
    skip_passed,
)
from herdbeat.scheduler.pending import has_open_beat
from herdbeat.scheduler.planned_pauses import end_windows
from herdbeat.scheduler.quarantine import decide_or_quarantine, quarantine_evaluation
from herdbeat.store.base import CounterDelta, ScheduleSnapshot, Transaction

MAX_LISTED_INSTANTS = 20
"""Nobody reads more instants than this one by one."""

_HINT_RATE_WINDOW = timedelta(minutes=1)
_RECORDED_RUN_EXPIRY = timedelta(days=1)
"""How long after its moment a recorded next run is still due."""


def pause(tx: Transaction, now: datetime, schedule_id: int, pause_state: Pause) -> Decision | None:
    """Hold a schedule. What is due or waits for room is skipped; an active run finishes."""
    tx.set_pause(schedule_id, pause_state)
    return begin_hold(tx, now, schedule_id, SkipReason.PAUSED)


def resume(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """End a pause. What passed meanwhile is skipped, so that no burst follows."""

    def end_pauses() -> None:
        tx.set_pause(schedule_id, None)
        end_windows(tx, now, schedule_id)

    return _release_hold(tx, now, schedule_id, end_pauses)


def disable(tx: Transaction, now: datetime, schedule_id: int, by: str) -> Decision | None:
    """Switch it off until it is enabled; survives restarts."""
    tx.set_disabled(schedule_id, by)
    return begin_hold(tx, now, schedule_id, SkipReason.DISABLED)


def enable(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Switch it on. A one-shot that is done is armed once more, and fires at once if its time has passed."""
    if is_one_shot_done(_load_snapshot(tx, schedule_id)):
        tx.schedule_rearm([schedule_id])
    return _release_hold(tx, now, schedule_id, lambda: tx.set_disabled(schedule_id, None))


def is_one_shot_done(snapshot: ScheduleSnapshot) -> bool:
    """True for a one-shot whose instant is used up, with no open beat."""
    is_one_shot = snapshot.unreadable is None and snapshot.plan.trigger.kind is TriggerKind.DELAY
    return is_one_shot and not snapshot.is_new and not snapshot.running and not snapshot.waiting


def give_hint(tx: Transaction, now: datetime, schedule_id: int, hint: Hint) -> Decision | None:
    """Add a hint. One interval is kept per rank: a newer one replaces the older.

    Repeating a hint only moves the end of the one that is stored. Raises UsageError for too many in a minute.
    """
    if not tx.extend_hint(schedule_id, hint, now):
        check_rate_limit(hint.origin, tx.hint_count_recent(schedule_id, hint.origin, now - _HINT_RATE_WINDOW))
        tx.add_hint(schedule_id, hint, now)
        rank = hint.origin.partition(":")[0]
        tx.trim_hints(schedule_id, rank, now, one_shots=MAX_ONE_SHOT_HINTS, ended=MAX_ENDED_HINTS)
    return reschedule(tx, now, schedule_id)


def clear_hints(
    tx: Transaction, now: datetime, schedule_id: int, by: str, ranks: Iterable[Rank] = Rank
) -> Decision | None:
    """End the hints of some ranks; by default, of all."""
    tx.hint_end_by_rank(schedule_id, [rank.name.lower() for rank in ranks], now, by)
    return reschedule(tx, now, schedule_id)


def reset(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Forget the failures, and try to decide what is in quarantine: the way out without an edit.

    What still cannot be decided stays in quarantine, with its reason.
    """
    snapshot = _load_snapshot(tx, schedule_id)
    was_quarantined = snapshot.quarantine is not None
    if snapshot.unreadable is not None or (not was_quarantined and is_in_flight(now, snapshot)):
        # Nothing to decide; or the beat that is due comes first, and decides without the failures.
        tx.schedule_reset_failures(schedule_id)
        return None
    evaluation = Evaluation(snapshot._replace(failures=0, quarantine=None))
    return _decide_and_write(tx, now, evaluation, SkipReason.CONFIG_ERROR if was_quarantined else None)


def record_state(
    tx: Transaction,
    now: datetime,
    schedule_id: int,
    by: str,
    *,
    last_run_at: datetime | None,
    next_run_at: datetime | None,
    last_error: str | None,
) -> None:
    """Record what a program knows of a schedule. An interval then counts from that last run, or to that next one.

    One more run at `next_run_at` is a hint where a calendar decides. An event kind only shows it: no clock fires it.
    """
    snapshot = _load_snapshot(tx, schedule_id)
    trigger, is_undecided = snapshot.plan.trigger, is_quarantined(snapshot) or is_in_flight(now, snapshot)
    if last_run_at is not None:
        last_run_at = min(last_run_at, now)
        snapshot = snapshot._replace(is_new=False, anchor_at=last_run_at)
    if next_run_at is not None and trigger.interval is not None:
        wait = backoff_interval(trigger.interval, snapshot.plan.policies.backoff, snapshot.failures)
        snapshot = snapshot._replace(is_new=False, anchor_at=next_run_at - wait)
    has_no_time = snapshot.next_run_at is None and (snapshot.running or snapshot.waiting)
    decision = None if is_undecided or has_no_time else decide(now, governor_state(snapshot))
    change = build_schedule_change(
        snapshot,
        decision,
        keeps_time=decision is None,
        quarantine=snapshot.quarantine,
        last_run_at=last_run_at,
        last_status=None if last_error is None else RunStatus.FAILED if last_error else RunStatus.SUCCEEDED,
        last_error=last_error or None,
    )
    if trigger.kind.waits_for_event and next_run_at is not None:
        change = change._replace(next_run_at=next_run_at)
    tx.change_schedules([change])
    if next_run_at is not None and next_run_at > now and isinstance(trigger, CalendarTrigger):
        origin = by if ":" in by else f"agent:{by}"
        expires_at = next_run_at + _RECORDED_RUN_EXPIRY
        give_hint(tx, now, schedule_id, Hint(origin=origin, at=next_run_at, expires_at=expires_at, created_at=now))


def reschedule(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Decide the next run by the state the schedule has now. What is due stays due: its claim decides."""
    snapshot = _load_snapshot(tx, schedule_id)
    if is_quarantined(snapshot) or is_in_flight(now, snapshot) or is_undecided(now, snapshot):
        return None
    # A pause may be over without an evaluation since: deciding now would forget what passed inside it.
    was_paused = snapshot.next_source is Source.PAUSED
    return _decide_and_write(tx, now, Evaluation(snapshot), SkipReason.PAUSED if was_paused else None)


def restart_interval(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Count the next run from now, as if a beat of the schedule's own had just ended.

    What is due, runs or waits decides by itself when it ends, and a calendar has the times that it has.
    """
    snapshot = _load_snapshot(tx, schedule_id)
    if is_quarantined(snapshot) or is_in_flight(now, snapshot) or snapshot.plan.trigger.interval is None:
        return None
    return _decide_and_write(tx, now, Evaluation(snapshot._replace(is_new=False), anchor_at=now), None)


def is_held(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    return is_paused(now, snapshot) or not snapshot.enabled


def is_paused(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True during a pause, and after it until the next evaluation. The row may have a pause that ended long ago."""
    return snapshot.pause_at(now) is not None or snapshot.next_source is Source.PAUSED


def describe_human_hold(now: datetime, snapshot: ScheduleSnapshot) -> str:
    """Return how a person holds a schedule, such as "paused by human:you"; empty if no person does."""
    pause_state = snapshot.pause_at(now)
    holds = {"paused": pause_state.by if pause_state is not None else "", "disabled": snapshot.disabled_by or ""}
    return next((f"{what} by {by}" for what, by in holds.items() if is_human(by)), "")


def settle_outside_hours(now: datetime, evaluation: Evaluation) -> None:
    """Settle what the active hours have passed over: until this change it was not held."""
    snapshot = evaluation.snapshot
    if snapshot.plan.policies.active_hours is not None and snapshot.next_due_at is not None:
        skip_outside_hours(now, evaluation)


def begin_hold(tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason) -> Decision | None:
    """Skip what is due or waits, and decide again: the schedule is held from now on."""
    skipped = tx.skip_waiting(schedule_id, reason, now)
    snapshot = _load_snapshot(tx, schedule_id)
    if is_quarantined(snapshot):
        tx.schedule_adjust_counters([CounterDelta(schedule_id, waiting=-skipped)], None)
        return None
    evaluation = Evaluation(snapshot._replace(waiting=snapshot.waiting - skipped))
    return _decide_and_write(tx, now, evaluation, reason, begins_hold=True)


def _release_hold(tx: Transaction, now: datetime, schedule_id: int, change: Callable[[], None]) -> Decision | None:
    before = _load_snapshot(tx, schedule_id)
    change()
    if before.unreadable is None and before.plan.trigger.kind.waits_for_event:
        tx.beat_wake_held_events(schedule_id, now)
    was_held = is_held(now, before)
    # What held it, not what is released: a resume of what is disabled skips nothing as paused.
    reason = SkipReason.PAUSED if before.enabled else SkipReason.DISABLED
    if is_quarantined(before) or (not was_held and is_in_flight(now, before)):
        return None  # a beat that is due comes first, and decides with what was just changed
    return _decide_and_write(tx, now, Evaluation(_load_snapshot(tx, schedule_id)), reason if was_held else None)


def _decide_and_write(
    tx: Transaction, now: datetime, evaluation: Evaluation, reason: SkipReason | None, *, begins_hold: bool = False
) -> Decision | None:
    """Settle what has passed under `reason`, if there is one; decide; write. What cannot be decided is quarantined.

    A hold that begins settles what is due. After a hold, that is everything since it began.
    """
    (snapshot,) = load_recorded(tx, now, [evaluation.snapshot])
    evaluation.snapshot = snapshot
    is_open = has_open_beat(tx, snapshot)

    def settle_and_decide() -> Evaluation:
        if reason is None or begins_hold:
            settle_outside_hours(now, evaluation)
        if reason is not None:
            (skip_due if begins_hold else skip_passed)(now, evaluation, reason)
        if is_open:
            return evaluation
        state = governor_state(snapshot._replace(anchor_at=evaluation.anchor_at or snapshot.anchor_at))
        evaluation.decision = decide(now, state)
        return evaluation

    decided = decide_or_quarantine(settle_and_decide, lambda why: quarantine_evaluation(now, snapshot, why))
    write_evaluations(tx, now, [decided])
    return decided.decision


def _load_snapshot(tx: Transaction, schedule_id: int) -> ScheduleSnapshot:
    return tx.schedules([schedule_id])[schedule_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipNextResult:
    """How many instants were to be skipped before and are now, and those of them that are known already."""

    schedule: str
    before: int
    skips: int
    instants: tuple[datetime, ...] = ()
    obstacle: str = ""


def set_skip_next(tx: Transaction, schedule_id: int, count: int, *, by: str, reason: str = "") -> SkipNextResult:
    """Skip the next `count` clock instants, whatever else would have become of them; 0 undoes that.

    The count is stored with the schedule and survives restarts. Setting it twice does not add up.
    """
    snapshot = _load_snapshot(tx, schedule_id)
    obstacle = _find_skip_obstacle(snapshot) if count else ""
    if not obstacle:
        tx.set_skips(schedule_id, count, by if count else "", reason if count else "")
    return SkipNextResult(
        schedule=snapshot.label,
        before=snapshot.skips,
        skips=snapshot.skips if obstacle else count,
        instants=tuple(_next_instants(snapshot, count)) if count and not obstacle else (),
        obstacle=obstacle,
    )


def _next_instants(snapshot: ScheduleSnapshot, count: int) -> list[datetime]:
    """Return the instants that are skipped, as far as they are known.

    An interval knows only its next one, and so does a calendar whose next instant a hint decides.
    """
    first, trigger = snapshot.next_due_at, snapshot.plan.trigger
    if first is None or snapshot.pause is not None:
        return []
    is_hinted = any(hint.is_active(first) for hint in governor_state(snapshot).hints)
    if is_hinted or not isinstance(trigger, CalendarTrigger):
        return [first]
    instants = [first]
    while len(instants) < min(count, MAX_LISTED_INSTANTS) and (following := trigger.next_time(None, instants[-1])):
        instants.append(following)
    return instants


def _find_skip_obstacle(snapshot: ScheduleSnapshot) -> str:
    """Return why there is no next instant to skip; empty if there is one."""
    kind = snapshot.plan.trigger.kind
    if kind.waits_for_event:
        return f"a {kind} schedule has no planned beats to skip"
    if not snapshot.enabled:
        return "the schedule is disabled and has no next beat"
    if is_quarantined(snapshot):
        return "the schedule is quarantined and has no next beat"
    has_fired = kind is TriggerKind.DELAY and snapshot.next_run_at is None and not snapshot.is_new
    is_over = snapshot.next_run_at is None and snapshot.pause is None and not (snapshot.running or snapshot.waiting)
    return "the schedule has no next beat" if is_over or has_fired else ""


# State of other schedulers.


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedState:
    """What another scheduler knows of one schedule."""

    last_run_at: datetime | None = None
    last_error: str = ""
    disabled: bool = False


class ImportOutcome(StrEnum):
    """What happened to one imported state."""

    TAKEN = "taken"
    KEPT = "kept"  # the schedule has a history here, which is newer
    EMPTY = "empty"  # it says nothing


def import_state(tx: Transaction, now: datetime, schedule_id: int, imported: ImportedState, by: str) -> ImportOutcome:
    """Take over the state of one schedule, unless it has a history here or there is nothing to take.

    Its interval then counts from that last run, so that a fleet that moves neither runs everything at once nor forgets
    what it has done.
    """
    snapshot = _load_snapshot(tx, schedule_id)
    if imported.last_run_at is None and not imported.disabled:
        return ImportOutcome.EMPTY
    if not snapshot.is_new or snapshot.running or snapshot.waiting or snapshot.unreadable is not None:
        return ImportOutcome.KEPT
    if imported.last_run_at is not None:
        _write_imported_state(tx, now, snapshot, imported, min(imported.last_run_at, now))
    if imported.disabled and snapshot.disabled_by is None:
        disable(tx, now, schedule_id, by)
    return ImportOutcome.TAKEN


def _write_imported_state(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, imported: ImportedState, last: datetime
) -> None:
    """Write the imported state. Nothing that was due before now is owed: the other scheduler has dealt with it."""
    snapshot = snapshot._replace(is_new=False, anchor_at=last, settled_until=now)
    change = build_schedule_change(
        snapshot,
        decide(now, governor_state(snapshot)),
        last_run_at=last,
        last_status=RunStatus.FAILED if imported.last_error else RunStatus.SUCCEEDED,
        last_error=imported.last_error or None,
    )
    tx.change_schedules([change])
