"""Taking over what another scheduler remembers: when a schedule last ran, how that ended, and whether it is off.

Only for a schedule that has no past of its own. Its interval then counts from that last run, so that a fleet which
moves neither runs everything at once nor forgets what it has done.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.run import RunStatus
from herdbeat.governor import decide
from herdbeat.scheduler import control
from herdbeat.scheduler.judge import state_of
from herdbeat.scheduler.verdict import Verdict, changed
from herdbeat.store.base import Standing, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is known of one schedule from elsewhere."""

    last_run_at: datetime | None = None
    last_error: str = ""
    disabled: bool = False


class Taking(StrEnum):
    """What became of a memory."""

    TAKEN = "taken"
    KEPT = "kept"  # the schedule has a past here, which is newer
    EMPTY = "empty"  # it says nothing


def remember(tx: Transaction, now: datetime, schedule_id: int, memory: Memory, by: str) -> Taking:
    standing = tx.schedules([schedule_id])[schedule_id]
    if memory.last_run_at is None and not memory.disabled:
        return Taking.EMPTY
    if not standing.is_new or standing.running or standing.waiting or standing.unreadable is not None:
        return Taking.KEPT
    if memory.last_run_at is not None:
        _take(tx, now, standing, memory, min(memory.last_run_at, now))
    if memory.disabled and standing.disabled_by is None:
        control.disable(tx, now, schedule_id, by)
    return Taking.TAKEN


def _take(tx: Transaction, now: datetime, standing: Standing, memory: Memory, last: datetime) -> None:
    """As after an edit: nothing that was due before now is owed, for the other scheduler has seen to it."""
    standing = standing._replace(is_new=False, anchor_at=last)
    verdict = Verdict(standing, decision=decide(now, state_of(standing)), anchor_at=last, settled_until=now)
    row = changed(verdict, 0, None)
    status = RunStatus.FAILED if memory.last_error else RunStatus.SUCCEEDED
    tx.change_schedules([row._replace(last_run_at=last, last_status=status, last_error=memory.last_error or None)])
