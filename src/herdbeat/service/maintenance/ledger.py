"""Work on a whole ledger: inspect it, restore a backup, move it to PostgreSQL.

Inspection changes nothing. The other two hold the state lock, because they replace what a running fleet writes.
"""

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import HerdbeatError, MissingExtra, StoreUnavailable, UsageError, truncate_for_message
from herdbeat.scheduler.repair.consistency import Inconsistency, inspect
from herdbeat.scheduler.repair.restore import (
    end_deliveries,
    interrupt_open_runs,
    reschedule_all,
    settle_pending,
)
from herdbeat.store.audit import LedgerAudit
from herdbeat.store.location import PostgresLocation as PostgresLocation  # noqa: PLC0414 -- adapters may not import `store`
from herdbeat.store.location import StoreLocation
from herdbeat.store.location import format_location as format_location  # noqa: PLC0414
from herdbeat.store.location import open_audit as open_audit  # noqa: PLC0414
from herdbeat.store.location import require_sqlite_path as require_sqlite_path  # noqa: PLC0414
from herdbeat.store.sqlite.backup import (
    CopyProgress,
    copy_ledger_file,
    preserve_ledger,
    raise_id_floors,
    require_restorable,
)
from herdbeat.store.sqlite.backup import backup_ledger as backup_ledger  # noqa: PLC0414
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock
from herdbeat.store.state_lock import prepare_state_dir as prepare_state_dir  # noqa: PLC0414

_MAX_ERROR_CHARS = 200
_CORRUPT_ROW_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
    *(HerdbeatError, RecursionError),
)
"""What decoding a row raises when its bytes are not what was written: a flipped bit makes a time in the year 300000, a
number of a name, a list of an object. The store turns SQLite's own errors into StoreUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInspection:
    """Damage of the file itself, what the invariant scan would repair, and quarantined schedules with their reason."""

    damage: tuple[str, ...]
    findings: tuple[Inconsistency, ...]
    quarantined: tuple[tuple[str, str], ...]

    @property
    def is_healthy(self) -> bool:
        return not (self.damage or self.findings or self.quarantined)


def inspect_ledger(location: StoreLocation, now: datetime) -> LedgerInspection:
    """Return everything that is wrong with a ledger. Content that cannot be read is damage and never raises."""
    audit = open_audit(location)
    damage, findings, quarantined = audit.damage(), list[Inconsistency](), list[tuple[str, str]]()
    try:
        findings, quarantined = _find_inconsistencies(audit, now), audit.quarantined()
    except StoreUnavailable as error:
        damage = damage or [error.message]
    except _CORRUPT_ROW_ERRORS as error:
        text = truncate_for_message(str(error), _MAX_ERROR_CHARS)
        damage.append(f"it cannot be read completely: {type(error).__name__}: {text}")
    return LedgerInspection(damage=tuple(damage), findings=tuple(findings), quarantined=tuple(quarantined))


def _find_inconsistencies(audit: LedgerAudit, now: datetime) -> list[Inconsistency]:
    findings: list[Inconsistency] = []
    after: int | None = 0
    while after is not None:
        suspects = audit.find_inconsistencies(now, after, only_schedules=after > 0)
        findings += audit.read_transaction(partial(inspect, now=now, suspects=suspects)).findings
        after = suspects.last
    return findings


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """How much open work of the backup was closed, and where the previous ledger is kept (None: there was none)."""

    interrupted: int
    missed: int
    kept: Path | None


def restore_backup(ledger: Path, file: Path, now: datetime, *, progress: CopyProgress | None = None) -> RestoreResult:
    """Replace the ledger with a backup. All work is done on a copy; the last step is one rename, so one always exists.

    Raises Conflict if a fleet runs here; NotFound, UsageError or StoreUnavailable if the file cannot be used.
    """
    with StateLock(ledger.parent):
        if file.exists() and ledger.exists() and file.samefile(ledger):
            raise UsageError(f"{file} is the ledger itself.", hint="Use a file created by `herdbeat db backup`.")
        require_restorable(file)
        draft = ledger.with_name(f"{ledger.name}.restoring")
        try:
            copy_ledger_file(file, draft, progress)
            raise_id_floors(draft, ledger)
            interrupted, missed = _close_open_work(draft, now)
            kept = _keep_previous_ledger(ledger, now)
            draft.replace(ledger)
        except OSError as error:
            message = f"The backup could not be restored: {error.strerror or error}."
            raise StoreUnavailable(
                message, hint="The ledger was not changed. Check the permissions of its folder."
            ) from error
        finally:
            for journal in ("", "-wal", "-shm"):
                draft.with_name(draft.name + journal).unlink(missing_ok=True)
    return RestoreResult(interrupted=interrupted, missed=missed, kept=kept)


def _close_open_work(draft: Path, now: datetime) -> tuple[int, int]:
    """Runs first: one that is to be retried becomes a pending beat, which must not start either."""
    interrupted = missed = 0
    store = SqliteStore(draft)
    store.open()
    with closing(store):
        while closed := store.write_now(partial(interrupt_open_runs, now=now)):
            interrupted += closed
        while settled := store.write_now(partial(settle_pending, now=now)):
            missed += settled
        store.write_now(partial(end_deliveries, now=now))
        after: int | None = 0
        while after is not None:
            after = store.write_now(partial(reschedule_all, now=now, after=after))
    return interrupted, missed


def _keep_previous_ledger(ledger: Path, now: datetime) -> Path | None:
    if not ledger.exists():
        return None
    stem = f"{ledger.name}.{now:%Y%m%dT%H%M%SZ}"
    names = (ledger.with_name(stem if not number else f"{stem}-{number}") for number in range(1_000))
    kept = next(name for name in names if not name.exists())
    preserve_ledger(ledger, kept)
    return kept


def migrate_to_postgres(
    ledger: Path, destination: PostgresLocation, fleet: Fleet, progress: CopyProgress | None = None
) -> dict[str, int]:
    """Copy a ledger into a database and return the rows of each table. The file stays as it is.

    Raises Conflict if a node runs or the database holds a fleet; StoreUnavailable if either cannot be used.
    """
    try:
        from herdbeat.store.postgres.import_sqlite import import_sqlite_ledger  # noqa: PLC0415 -- needs an optional package
    except ModuleNotFoundError as error:
        raise MissingExtra("A store in PostgreSQL", "postgres") from error
    with StateLock(ledger.parent):
        store = SqliteStore(ledger)  # opening it brings the file to the newest schema, which the import expects
        store.open()
        store.close()
        return import_sqlite_ledger(ledger, destination, fleet.name, progress)
