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
from herdbeat.scheduler.evaluate import governor_state
from herdbeat.scheduler.evaluation import Evaluation, to_row
from herdbeat.store.base import ScheduleSnapshot, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedState:
    """What is known of one schedule from elsewhere."""

    last_run_at: datetime | None = None
    last_error: str = ""
    disabled: bool = False


class ImportOutcome(StrEnum):
    """What became of a memory."""

    TAKEN = "taken"
    KEPT = "kept"  # the schedule has a past here, which is newer
    EMPTY = "empty"  # it says nothing


def import_state(tx: Transaction, now: datetime, schedule_id: int, imported: ImportedState, by: str) -> ImportOutcome:
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
    """As after an edit: nothing that was due before now is owed, for the other scheduler has seen to it."""
    snapshot = snapshot._replace(is_new=False, anchor_at=last)
    evaluation = Evaluation(snapshot, decision=decide(now, governor_state(snapshot)), anchor_at=last, settled_until=now)
    row = to_row(evaluation, 0, None)
    status = RunStatus.FAILED if imported.last_error else RunStatus.SUCCEEDED
    tx.change_schedules([row._replace(last_run_at=last, last_status=status, last_error=imported.last_error or None)])
