"""The invariant scan: finds what cannot be, outside the fire path, puts it right and says so.

Nothing of this should ever be found. A ledger that was damaged, edited by hand, or written by a version with a bug
would otherwise keep a schedule silent for ever: nobody waits for what nobody expects.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.decision import Decision
from herdbeat.governor import decide
from herdbeat.scheduler.judge import state_of
from herdbeat.scheduler.quarantine import put_to_rest, reason_of
from herdbeat.scheduler.verdict import trace_of
from herdbeat.store.base import ChangedSchedule, Standing, Suspects, Tally, TargetTally, Transaction


class Finding(NamedTuple):
    """What was wrong, and with whom."""

    subject: str
    what: str


@dataclass(slots=True)
class Mending:
    """What is wrong, and what would put it right."""

    findings: list[Finding] = field(default_factory=list)
    counters: list[tuple[int, int, int]] = field(default_factory=list)
    rooms: list[tuple[int, int]] = field(default_factory=list)
    changes: list[ChangedSchedule] = field(default_factory=list)
    schedules_to_wake: list[int] = field(default_factory=list)
    beats_to_wake: list[int] = field(default_factory=list)
    deaf: list[TargetTally] = field(default_factory=list)


def mend(tx: Transaction, now: datetime, suspects: Suspects) -> list[Finding]:
    """Look at the suspects again, under the writer's own lock, and put right what is really wrong."""
    mending = examine(tx, now, suspects)
    tx.set_counters(mending.counters)
    tx.set_rooms(mending.rooms)
    tx.change_schedules(mending.changes)
    tx.wake_schedules(mending.schedules_to_wake, now)
    tx.wake_beats(mending.beats_to_wake, now)
    for target in mending.deaf:
        tx.wake_waiting(target.id, target.max_concurrent - target.running, now)
    return mending.findings


def examine(tx: Transaction, now: datetime, suspects: Suspects) -> Mending:
    """The same without touching anything."""
    mending = Mending()
    standings, tallies = tx.schedules(suspects.schedules), tx.tallies(suspects.schedules)
    for standing in standings.values():
        _examine_schedule(now, standing, tallies[standing.id], mending)
    for target in tx.target_tallies(suspects.targets):
        if target.counted != target.running:
            mending.rooms.append((target.id, target.running))
            what = f"its row said {target.counted} running, its open runs say {target.running}"
            mending.findings.append(Finding(target.name, what))
    for target in tx.deaf_targets(suspects.deaf_targets, now):
        mending.deaf.append(target)
        mending.findings.append(Finding(target.name, "beats waited for room that was there"))
    for beat_id, label in tx.sleeping_beats(suspects.beats):
        mending.beats_to_wake.append(beat_id)
        mending.findings.append(Finding(label, "a beat waited for nothing"))
    return mending


def _examine_schedule(now: datetime, standing: Standing, tally: Tally, mending: Mending) -> None:
    if standing.unreadable is not None and standing.quarantine is None:
        mending.findings.append(Finding(standing.label, standing.unreadable))
        mending.changes.append(put_to_rest(_row(standing, tally), standing.unreadable))
        return
    mending.findings += _miscounted(standing, tally)
    if (standing.running, standing.waiting) != (tally.running, tally.waiting):
        mending.counters.append((standing.id, tally.running, tally.waiting))
    if standing.quarantine is not None or not standing.enabled:
        return
    if standing.next_run_at is not None:
        if standing.wake_at is None or standing.wake_at > standing.next_run_at:
            mending.findings.append(Finding(standing.label, "nothing would have woken it for its next run"))
            mending.schedules_to_wake.append(standing.id)
    elif standing.wake_at is None and not tally.running and not tally.open:
        _decide_again(now, standing, tally, mending)


def _miscounted(standing: Standing, tally: Tally) -> Iterator[Finding]:
    if standing.running != tally.running:
        what = f"its row said {standing.running} running, its open runs say {tally.running}"
        yield Finding(standing.label, what)
    if standing.waiting != tally.waiting:
        what = f"its row said {standing.waiting} waiting, its pending beats say {tally.waiting}"
        yield Finding(standing.label, what)


def _decide_again(now: datetime, standing: Standing, tally: Tally, mending: Mending) -> None:
    """A calendar is decided from the mark, so that what has passed unseen since then is settled by the next turn."""
    at = now if standing.plan.trigger.pace is not None else min(now, standing.settled_until)
    try:
        decision = decide(at, state_of(standing))
    except Exception as error:  # noqa: BLE001 - a schedule that cannot be decided is quarantined, here as anywhere
        reason = reason_of(error)
        mending.findings.append(Finding(standing.label, f"it cannot be decided: {reason}"))
        mending.changes.append(put_to_rest(_row(standing, tally), reason))
        return
    if decision.next_run_at is not None or decision.wake_at is not None:
        mending.findings.append(Finding(standing.label, "it had no next run, although it is to run again"))
        mending.changes.append(_row(standing, tally, decision))


def _row(standing: Standing, tally: Tally, decision: Decision | None = None) -> ChangedSchedule:
    return ChangedSchedule(
        id=standing.id,
        next_run_at=decision.next_run_at if decision else None,
        next_due_at=decision.due_at if decision else None,
        next_source=decision.source if decision else standing.next_source,
        next_origin=decision.origin if decision else standing.next_origin,
        next_trace=trace_of(decision) if decision else None,
        wake_at=decision.wake_at if decision else None,
        anchor_at=standing.anchor_at,
        settled_until=standing.settled_until,
        is_new=standing.is_new,
        failures=standing.failures,
        runs=standing.runs,
        running=tally.running,
        waiting=tally.waiting,
        tail_id=standing.tail_id,
        tail=standing.tail,
    )
