"""The one way to change schedules: an act and the schedules it is about go in, what became of each comes out.

Every change writes its row into the `change` table, in the transaction that makes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from herdbeat.domain.change import Change, Facts
from herdbeat.domain.decision import Source
from herdbeat.errors import UsageError, shown
from herdbeat.scheduler.judge import state_of
from herdbeat.service.acts import Act, Clearing, Disabling, Enabling, Hinting, Pausing, Resetting, Resuming, Skipping
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.service.offline import write_offline
from herdbeat.service.skipping import let_pass, refuse_nonsense
from herdbeat.service.steps import Step, clear, disable, enable, give_hint, pause, reset, resume
from herdbeat.store.base import Standing, Switch, Transaction
from herdbeat.store.opening import OpenStore
from herdbeat.store.places import LedgerPlace

LONGEST = 200
"""Letters of a reason that are kept."""

BATCH = 100
"""Schedules changed in one transaction: it shares the writer with beats that are due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What became of one schedule. `refused` says why nothing was done, `mend` what to do about it."""

    schedule: str
    is_changed: bool
    before: Facts
    after: Facts
    next_run_at: datetime | None
    source: Source | None
    running: int
    notes: tuple[str, ...] = ()
    refused: str = ""
    mend: str = ""


def change(tx: Transaction, now: datetime, act: Act, schedule_ids: Sequence[int]) -> list[Changed]:
    """Do it, for each. One that was removed meanwhile is left out. Raises UsageError for an act that is nonsense."""
    _refuse_nonsense(now, act)
    # Words from outside: one printable line each, for they are shown on every screen, and not every ledger holds all.
    act = replace(act, who=shown(act.who, LONGEST), reason=shown(act.reason, LONGEST))
    switches = tx.switches(schedule_ids)
    before = tx.schedules(switches)
    steps = {number: _step(tx, now, act, before[number], switch) for number, switch in switches.items()}
    after = tx.schedules(switches)
    tx.add_changes(
        [_recorded(now, act, before[number].label, step) for number, step in steps.items() if step.is_recorded]
    )
    return [_changed(now, step, after[number], switches[number]) for number, step in steps.items()]


async def change_here(store: OpenStore, now: datetime, act: Act, schedule_ids: Sequence[int]) -> list[Json]:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    done = await store.write(lambda tx: change(tx, now, act, schedule_ids))
    return [changed_object(each) for each in done]


def change_for_later(
    path: LedgerPlace, now: datetime, act: Act, schedule_ids: Sequence[int], *, cancel_running: bool = False
) -> list[Json]:
    """Without a node here. Raises Conflict if one has the file. Runs are ended by the nodes elsewhere that have them.

    Those hear of it with the change.
    """

    def work(tx: Transaction) -> list[Changed]:
        done = change(tx, now, act, schedule_ids)
        if cancel_running:
            stop_elsewhere(tx, act, schedule_ids)
        return done

    return [changed_object(each) for each in write_offline(path, work)]


def stop_elsewhere(tx: Transaction, act: Act, schedule_ids: Sequence[int], node_id: int = 0) -> None:
    """Leave word for other nodes that have runs of these schedules."""
    tx.ask_to_stop(why_stopped(act), schedules=schedule_ids, node_id=node_id)


def why_stopped(act: Act) -> str:
    """What a run says of its end that was stopped together with such a change."""
    return f"stopped by {act.who} with a {act.what}"


def changed_object(changed: Changed) -> Json:
    return {
        "schedule": changed.schedule,
        "changed": changed.is_changed,
        "before": dict(changed.before),
        "after": dict(changed.after),
        "next_run_at": moment_or_null(changed.next_run_at),
        "source": changed.source,
        "running": changed.running,
        "notes": list(changed.notes),
        "refused": changed.refused,
        "hint": changed.mend,
    }


def _refuse_nonsense(now: datetime, act: Act) -> None:
    if isinstance(act, Skipping):
        refuse_nonsense(act)
    if not isinstance(act, Pausing) or act.until is None:
        return
    if act.until.tzinfo is None:
        raise UsageError("The end of the pause has no offset.", hint="Write for example 2026-04-01T18:00:00Z.")
    if act.until <= now:
        raise UsageError("The pause would be over already.", hint="Write an end that lies ahead, or --for 2h.")


def _step(tx: Transaction, now: datetime, act: Act, standing: Standing, switch: Switch) -> Step:
    match act:
        case Pausing():
            return pause(tx, now, act, standing)
        case Resuming():
            return resume(tx, now, act, standing)
        case Disabling():
            return disable(tx, now, act, standing, switch)
        case Enabling():
            return enable(tx, now, act, standing, switch)
        case Hinting():
            return give_hint(tx, now, act, standing)
        case Clearing():
            return clear(tx, now, act, standing)
        case Resetting():
            return reset(tx, now, standing, switch)
        case Skipping():
            return let_pass(tx, act, standing)
        case never:
            assert_never(never)


def _recorded(now: datetime, act: Act, subject: str, step: Step) -> Change:
    after = {**step.after, "reason": act.reason} if act.reason else step.after
    return Change(at=now, who=act.who, what=act.what, subject=subject, before=step.before, after=after)


def _changed(now: datetime, step: Step, after: Standing, switch: Switch) -> Changed:
    return Changed(
        schedule=switch.label,
        is_changed=step.is_changed,
        before=step.before,
        after=step.after,
        next_run_at=after.next_run_at,
        source=after.next_source,
        running=after.running,
        notes=(*step.notes, *(step.look(now, state_of(after)) if step.look else ())),
        refused=step.refused,
        mend=step.mend,
    )
