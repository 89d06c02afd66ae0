"""Import what another scheduler knows of a schedule: when it last ran, how that ended, and whether it is disabled.

Only for a schedule that has no history here. Its interval then counts from that last run, so that a fleet that moves
neither runs everything at once nor forgets what it has done.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.run import RunStatus
from herdbeat.governor import decide
from herdbeat.scheduler import control
from herdbeat.scheduler.evaluate import build_schedule_change, governor_state
from herdbeat.store.base import ScheduleSnapshot, Transaction


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
    """Take over the state of one schedule, unless it has a history here or there is nothing to take."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    if imported.last_run_at is None and not imported.disabled:
        return ImportOutcome.EMPTY
    if not snapshot.is_new or snapshot.running or snapshot.waiting or snapshot.unreadable is not None:
        return ImportOutcome.KEPT
    if imported.last_run_at is not None:
        _write_imported_state(tx, now, snapshot, imported, min(imported.last_run_at, now))
    if imported.disabled and snapshot.disabled_by is None:
        control.disable(tx, now, schedule_id, by)
    return ImportOutcome.TAKEN


def _write_imported_state(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, imported: ImportedState, last: datetime
) -> None:
    """As after an edit, nothing that was due before now is owed: the other scheduler has dealt with it."""
    snapshot = snapshot._replace(is_new=False, anchor_at=last, settled_until=now)
    change = build_schedule_change(
        snapshot,
        decide(now, governor_state(snapshot)),
        last_run_at=last,
        last_status=RunStatus.FAILED if imported.last_error else RunStatus.SUCCEEDED,
        last_error=imported.last_error or None,
    )
    tx.change_schedules([change])
