"""Backups of a ledger file: made while a node writes, checked before they get their name."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from herdbeat.errors import Conflict, NotFound, StoreUnavailable
from herdbeat.store.statements import load_migrations

CopyProgress = Callable[[int, int], None]
"""Called with the pages copied so far, and all pages."""

_PAGES_PER_STEP = 500
_TABLES_WITH_FLOOR = ("beat", "run", "change")
_LEDGER_TABLES = {"schedule", "beat", "run", "target"}


def backup_ledger(ledger: Path, to: Path, *, replace: bool = False, progress: CopyProgress | None = None) -> int:
    """Copy the ledger as it is at this moment into one file, and return its size.

    The node may continue to write: the copy is of the moment it began. It gets its name once it is complete and intact.
    Raises Conflict if the file exists, unless it may be replaced.
    """
    if not replace and to.exists():
        raise Conflict(f"{to} already exists.", hint="Choose another name, or overwrite it with --force.")
    part = to.with_name(f"{to.name}.part")
    with _wrap_errors(f"The backup {to} could not be written"):
        try:
            copy_ledger_file(ledger, part, progress)
            if damage := find_damage(part):
                raise StoreUnavailable(f"{ledger} is damaged: {damage[0]}", hint="Show details: herdbeat db check")
            part.replace(to)
        finally:
            part.unlink(missing_ok=True)
    return to.stat().st_size


def copy_ledger_file(source: Path, to: Path, progress: CopyProgress | None = None) -> None:
    """Write one file that only this user may read, without a journal beside it; it is on the disk when this returns."""

    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(total - remaining, total)

    to.unlink(missing_ok=True)
    os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(_open_read_only(source)) as source_db, closing(sqlite3.connect(to, isolation_level=None)) as target_db:
        # A read transaction of its own: without it, every commit of the node would restart the copy.
        source_db.execute("BEGIN")
        source_db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        target_db.execute("PRAGMA synchronous = FULL")
        source_db.backup(target_db, pages=_PAGES_PER_STEP, progress=report)
        target_db.execute("PRAGMA journal_mode = DELETE")
        # The number of the session that writes the ledger: it must notice if this copy is put in its place.
        target_db.execute("PRAGMA application_id = 0")


def raise_id_floors(draft: Path, previous: Path) -> None:
    """Let a restored ledger give no id that the previous one has given: logs, people and programs remember those.

    What cannot be read of the previous ledger, or does not exist, has no ids to keep.
    """
    with closing(sqlite3.connect(draft, isolation_level=None)) as target_db:
        for table in _TABLES_WITH_FLOOR:
            target_db.execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2)"
                " ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))",
                (f"{table}_id_floor", str(_read_last_id(previous, table))),
            )


def _read_last_id(ledger: Path, table: str) -> int:
    """Also of a ledger of an older schema, which has no floors yet. 0 if it cannot be read."""
    newest = f"SELECT max(id) FROM {table}"  # noqa: S608 - our own names
    floor = f"SELECT CAST(value AS INTEGER) FROM meta WHERE key = '{table}_id_floor'"  # noqa: S608
    try:
        with closing(_open_read_only(ledger)) as source_db:
            ids = [each or 0 for (each,) in source_db.execute(f"{newest} UNION ALL {floor}")]
    except (sqlite3.Error, UnicodeDecodeError):
        return 0
    return max(ids)


def require_restorable(file: Path) -> None:
    """Raises NotFound or StoreUnavailable unless the file is an intact ledger that this program can read."""
    if not file.is_file():
        raise NotFound(f"There is no file {file}.", hint="Use a file created by `herdbeat db backup`.")
    with _wrap_errors(f"{file} cannot be restored"), closing(_open_read_only(file)) as source_db:
        version: int = source_db.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in source_db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not version or not tables >= _LEDGER_TABLES:
        raise StoreUnavailable(f"{file} is not a herdbeat ledger.", hint="Use a file created by `herdbeat db backup`.")
    known = load_migrations()[-1][0]
    if version > known:
        message = (
            f"{file} was created by a newer version of herdbeat (schema {version}; this version supports {known})."
        )
        raise StoreUnavailable(message, hint="Use that version, or another backup.")
    if damage := find_damage(file):
        raise StoreUnavailable(f"{file} is damaged: {damage[0]}", hint="Use another backup. Nothing was changed.")


def find_damage(file: Path) -> list[str]:
    """Return what SQLite finds wrong with a file; empty is good. Never raises because of its contents."""
    try:
        with closing(_open_read_only(file)) as source_db:
            return [line for (line,) in source_db.execute("PRAGMA integrity_check(3)") if line != "ok"]
    except sqlite3.Error as error:
        return [str(error)]


def preserve_ledger(ledger: Path, kept_path: Path) -> None:
    """Keep a ledger under a second name; it also stays where it is, so there is no moment without one."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for journal in ("-wal", "-shm"):  # left only where the checkpoint failed: they belong to what is kept
        with suppress(FileNotFoundError):
            ledger.with_name(ledger.name + journal).rename(kept_path.with_name(kept_path.name + journal))
    try:
        kept_path.hardlink_to(ledger)
    except OSError:  # a file system without hard links
        shutil.copy2(ledger, kept_path)


def _open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


@contextmanager
def _wrap_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StoreUnavailable(f"{what}: {message}.", hint="Check the file and its folder.") from error
