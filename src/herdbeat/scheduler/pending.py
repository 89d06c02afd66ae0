"""Pending beats: evaluated again when they wake, cancelled on request, and how their schedule continues."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.trigger import IntervalAnchor
from herdbeat.governor import decide
from herdbeat.scheduler.admission import AdmissionRequest, expires_at, find_rejection
from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.evaluate import (
    Evaluation,
    OverlapAction,
    apply_change,
    change_from_evaluation,
    governor_state,
    has_pause_ended,
    is_in_flight,
    is_quarantined,
    is_undecided,
    resolve_overlap,
)
from herdbeat.scheduler.quarantine import decide_or_quarantine, skip_undecidable
from herdbeat.store.base import ChangedBeat, ChangedSchedule, PendingBeat, ScheduleSnapshot, Transaction

log = logging.getLogger(__name__)

HELD_RECHECK_INTERVAL = timedelta(minutes=1)
"""How often the event of a schedule that is held without an end is checked."""

_EVENT_SOURCES = frozenset({Source.WEBHOOK, Source.CHAT})
"""Events that a pause keeps."""


def cancel_pending(tx: Transaction, now: datetime, schedule_ids: Iterable[int]) -> dict[int, list[PendingBeat]]:
    """Settle every pending beat of these schedules as `skipped: by_request`, and return those beats by schedule.

    An active run is not touched: the loop stops it, and its completion settles its beat.
    """
    requested_ids = list(schedule_ids)
    # Before their beats: one that was read without its lock may have been started by another node meanwhile.
    snapshots = tx.schedules(requested_ids)
    pending: defaultdict[int, list[PendingBeat]] = defaultdict(list)
    for beat in tx.beat_list_pending_by_schedule(requested_ids):
        pending[beat.schedule_id].append(beat)
    tx.change_beats([_cancel_beat(beat) for beats in pending.values() for beat in beats], now)
    tx.change_schedules([_reschedule_after_cancel(now, snapshots[number], beats) for number, beats in pending.items()])
    return dict(pending)


def settle_unrun(beat: PendingBeat, outcome: BeatOutcome, reason: str) -> ChangedBeat:
    """Settle a pending beat that will not start. One that has a run already is `ran`: only its next attempt is off."""
    if beat.has_run:
        outcome, reason = BeatOutcome.RAN, ""
    return ChangedBeat(beat.id, outcome, reason, None, beat.attempt, settled=True)


def _cancel_beat(beat: PendingBeat) -> ChangedBeat:
    """The attempt that was cancelled did not take place, so it does not count."""
    settled = settle_unrun(beat, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST)
    return settled._replace(attempt=max(1, beat.attempt - 1))


def _reschedule_after_cancel(now: datetime, snapshot: ScheduleSnapshot, beats: list[PendingBeat]) -> ChangedSchedule:
    """A settled clock beat moves the anchor, and an interval that waited for it is decided again."""
    clock_beats = [beat for beat in beats if beat.source.is_clock and beat.retried_by is None]
    waiting_count = sum(beat.attempt == 1 for beat in clock_beats)
    evaluation = Evaluation(snapshot._replace(waiting=snapshot.waiting - waiting_count))
    if clock_beats and snapshot.plan.trigger.anchor is not IntervalAnchor.START:
        evaluation.anchor_at = now
    # An edit leaves an interval without a next run while an attempt by hand waits, and nothing else would decide it.
    needs_decision = bool(clock_beats) or snapshot.next_run_at is None
    if _is_next_run_fixed(now, snapshot) or not needs_decision:
        evaluation.keeps_time, evaluation.quarantine = True, snapshot.quarantine
    else:
        evaluation.snapshot = evaluation.snapshot._replace(is_new=False)
        evaluation = decide_after_settling(now, evaluation)
    return change_from_evaluation(evaluation)


def _is_next_run_fixed(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if it is due and not yet claimed, at another run whose completion decides, or in quarantine.

    What has passed meanwhile is settled by the next cycle. Once, a beat that was cancelled between the instant of the
    next one and its jittered start took that instant with it.
    """
    is_running_interval = snapshot.running > 0 and snapshot.plan.trigger.anchor is IntervalAnchor.END
    if is_running_interval or is_quarantined(snapshot) or is_in_flight(now, snapshot):
        return True
    return has_pause_ended(now, snapshot) or is_undecided(now, snapshot)


def has_open_beat(tx: Transaction, snapshot: ScheduleSnapshot) -> bool:
    """True if an interval has no next time because a beat of its own runs, waits, or waits for its next attempt.

    The end of that beat decides, with everything that was changed meanwhile.
    """
    if snapshot.next_run_at is not None or not Evaluation(snapshot).is_rescheduled_on_completion:
        return False
    if snapshot.running or snapshot.waiting:
        return True
    pending = tx.beat_list_pending_by_schedule([snapshot.id])
    return any(beat.source.is_clock and beat.retried_by is None for beat in pending)


def evaluate_pending(
    now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot, capacity: CapacitySnapshot
) -> ChangedBeat:
    """Start a pending beat, keep it pending, or settle it. What cannot be decided is skipped."""

    def skip(_: str) -> ChangedBeat:
        # Called inside the handler of decide_or_quarantine, so there is a traceback to log.
        log.exception("waiting beat skipped schedule=%s its policies are invalid", snapshot.label)  # noqa: LOG004
        return skip_undecidable(beat)

    if snapshot.unreadable is not None:
        return skip_undecidable(beat)
    return decide_or_quarantine(lambda: _evaluate_readable(now, beat, snapshot, capacity), skip)


def _evaluate_readable(
    now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot, capacity: CapacitySnapshot
) -> ChangedBeat:
    policies = snapshot.plan.policies
    # Only first attempts of the clock expire: a request does not grow stale, and what has run was not missed.
    is_first = beat.source.is_clock and beat.attempt == 1
    if is_first and policies.max_late is not None and now > beat.due_at + policies.max_late:
        return settle_unrun(beat, BeatOutcome.MISSED, MissedReason.TOO_LATE)
    action = resolve_overlap(policies.overlap, has_active_run=snapshot.running > 0, has_queued_beat=False)
    is_unblocked = action is OverlapAction.START
    ends_at = expires_at(policies, beat.due_at) if is_first else None
    if snapshot.pause is not None or snapshot.windows or not snapshot.enabled:
        held = _hold_beat(now, beat, snapshot)
        if held is not None:
            return held
    if snapshot.plan.is_gated or capacity.has_gate(snapshot.id):
        rejection = find_rejection(_build_admission_request(now, beat, snapshot, capacity, is_unblocked=is_unblocked))
        if rejection is not None and rejection.until is None:
            return settle_unrun(beat, BeatOutcome.SKIPPED, rejection.reason)
        if rejection is not None:
            return _keep_pending(beat, rejection.reason, rejection.recheck_at(now, ends_at))
    if not is_unblocked:
        return _keep_pending(beat, SkipReason.ALREADY_RUNNING, ends_at)
    if not capacity.reserve(beat.target_id):
        return _keep_pending(beat, SkipReason.AT_CAPACITY, ends_at)
    capacity.reserve_budget(snapshot.id)
    return ChangedBeat(beat.id, BeatOutcome.RUNNING, "", None, beat.attempt, settled=False)


def _hold_beat(now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot) -> ChangedBeat | None:
    """Settle or keep a beat whose schedule is paused or disabled. None if nothing holds it.

    Beats of the clock and their retries are skipped, as by the pause itself. So is what a rule has started: its
    condition may be over by then, and the rule fires again if it is not. An event is kept, because it would not come
    again: the release wakes it at once, and without an end it is looked at once a minute, so that no wake-up can get
    lost. A person may run what is held, but not what was removed.
    """
    if snapshot.is_removed:
        return settle_unrun(beat, BeatOutcome.SKIPPED, SkipReason.EXPIRED)
    pause = snapshot.pause_at(now)
    if beat.retried_by or (snapshot.enabled and pause is None):
        return None
    reason = SkipReason.PAUSED if snapshot.enabled else SkipReason.DISABLED
    if beat.source.is_clock or beat.source is Source.RULE_TRIGGER:
        return settle_unrun(beat, BeatOutcome.SKIPPED, reason)
    if beat.source not in _EVENT_SOURCES:
        return None
    until = pause.until if pause is not None and snapshot.enabled else None
    return _keep_pending(beat, reason, until or now + HELD_RECHECK_INTERVAL)


def _keep_pending(beat: PendingBeat, reason: SkipReason, wake_at: datetime | None) -> ChangedBeat:
    return ChangedBeat(beat.id, BeatOutcome.PENDING, reason, wake_at, beat.attempt, settled=False)


def _build_admission_request(
    now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot, capacity: CapacitySnapshot, *, is_unblocked: bool
) -> AdmissionRequest:
    """A second attempt has passed the hours and bounds with the first; its cost is checked again."""
    source = beat.source
    if beat.has_run:
        source = Source.MANUAL if beat.retried_by else Source.RETRY
    return AdmissionRequest(
        now=now,
        due_at=beat.due_at,
        run_at=beat.due_at,
        source=source,
        snapshot=snapshot,
        started_count=0,
        is_unblocked=is_unblocked,
        capacity=capacity,
    )


def reschedule_after_pending(
    now: datetime, snapshots: dict[int, ScheduleSnapshot], settled_beats: Iterable[PendingBeat]
) -> list[ChangedSchedule]:
    """Decide the intervals whose beat was settled without a run: no completion would, and they would never run again.

    The new decisions are put into `snapshots`, too.
    """
    changes = []
    for schedule_id in {beat.schedule_id for beat in settled_beats if beat.source.is_clock}:
        evaluation = Evaluation(snapshots[schedule_id], anchor_at=now, settled_until=now)
        if not evaluation.is_rescheduled_on_completion or _is_reschedule_deferred(evaluation.snapshot):
            continue
        change = change_from_evaluation(decide_after_settling(now, evaluation))
        changes.append(change)
        snapshots[schedule_id] = apply_change(evaluation.snapshot, change)
    return changes


def decide_after_settling(now: datetime, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with the next run, counted from now; or in quarantine, if that cannot be decided."""
    state = replace(governor_state(evaluation.snapshot), anchor_at=now, is_new=False)
    return decide_or_quarantine(
        lambda: replace(evaluation, decision=decide(now, state)), lambda reason: replace(evaluation, quarantine=reason)
    )


def _is_reschedule_deferred(snapshot: ScheduleSnapshot) -> bool:
    """True if a run, another pending beat or a time that stands decides; or nothing may, in quarantine."""
    return bool(is_quarantined(snapshot) or snapshot.running or snapshot.waiting or snapshot.next_run_at is not None)
