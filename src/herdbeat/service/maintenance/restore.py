"""Putting a backup in the place of the ledger, while nothing runs, without a moment in which there is none."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from herdbeat.errors import StoreUnavailable, UsageError
from herdbeat.scheduler.repair.restore import interrupt_open_runs, reschedule_all, settle_pending
from herdbeat.store.sqlite.backup import CopyProgress, copy_ledger_file, preserve_ledger, require_restorable
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What was closed on the way, and where the ledger from before is kept (None if there was none)."""

    interrupted: int
    missed: int
    kept: Path | None


def restore_backup(ledger: Path, file: Path, now: datetime, *, progress: CopyProgress | None = None) -> RestoreResult:
    """Raises Conflict if a fleet runs here; NotFound, UsageError or StoreUnavailable if the file is of no use.

    Everything happens to a copy beside the ledger; the last step is one rename.
    """
    with StateLock(ledger.parent):
        if file.exists() and ledger.exists() and file.samefile(ledger):
            raise UsageError(f"{file} is the ledger itself.", hint="Name a file that `herdbeat db backup` has written.")
        require_restorable(file)
        draft = ledger.with_name(f"{ledger.name}.restoring")
        try:
            copy_ledger_file(file, draft, progress)
            interrupted, missed = _close_open_work(draft, now)
            kept = _keep_previous_ledger(ledger, now)
            draft.replace(ledger)
        except OSError as error:
            message = f"The backup could not be put in place: {error.strerror or error}."
            raise StoreUnavailable(message, hint="The ledger is as it was. Look at its folder.") from error
        finally:
            for journal in ("", "-wal", "-shm"):
                draft.with_name(draft.name + journal).unlink(missing_ok=True)
    return RestoreResult(interrupted=interrupted, missed=missed, kept=kept)


def _close_open_work(draft: Path, now: datetime) -> tuple[int, int]:
    """Runs first: one that is to be retried becomes a waiting beat, which must not start either."""
    store = SqliteStore(draft)
    store.open()
    try:
        interrupted = missed = 0
        while closed := store.write_now(partial(interrupt_open_runs, now=now)):
            interrupted += closed
        while settled := store.write_now(partial(settle_pending, now=now)):
            missed += settled
        after: int | None = 0
        while after is not None:
            after = store.write_now(partial(reschedule_all, now=now, after=after))
    finally:
        store.close()
    return interrupted, missed


def _keep_previous_ledger(ledger: Path, now: datetime) -> Path | None:
    if not ledger.exists():
        return None
    stem = f"{ledger.name}.{now:%Y%m%dT%H%M%SZ}"
    names = (ledger.with_name(stem if not number else f"{stem}-{number}") for number in range(1_000))
    kept = next(name for name in names if not name.exists())
    preserve_ledger(ledger, kept)
    return kept
