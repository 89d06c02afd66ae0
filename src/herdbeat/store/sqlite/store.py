"""The SQLite store: one file, one writing connection in one thread, readers that never block it."""

import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TypeVar

from herdbeat.errors import StoreUnavailable
from herdbeat.store.base import Transaction
from herdbeat.store.rows import (
    ChangedSchedule,
    CounterDelta,
    FinishedRun,
    NewRun,
    OpenRun,
    ScheduleSnapshot,
    StartedInterval,
)
from herdbeat.store.sanitize import decode_lossy
from herdbeat.store.sql_transaction import SqlTransaction
from herdbeat.store.sqlite.connection import (
    SqliteConnection,
    build_empty_ledger_error,
    is_empty_file,
    to_store_unavailable,
)
from herdbeat.store.state_lock import prepare_state_dir
from herdbeat.store.statements import load_migrations
from herdbeat.store.writer import Writer

T = TypeVar("T")

MAX_CLAIMED_ROWS = 20_000
"""Beyond that everything is forgotten. A node rarely has so many active runs."""


class ClaimedRows:
    """What a claim hands to the completion, so that it is not read again: the schedules and runs that it has started.

    Only one process writes to a SQLite ledger, and all of it goes through one connection. So a row that was claimed
    here is known until this connection changes it, or, by mistake, another one. Whatever may have changed it forgets
    it. Used by the writer thread alone.
    """

    def __init__(self) -> None:
        self._schedules: dict[int, ScheduleSnapshot] = {}
        self._runs: dict[int, OpenRun] = {}

    def forget_all(self) -> None:
        self._schedules.clear()
        self._runs.clear()

    def forget_schedules(self, ids: Iterable[int]) -> None:
        for each in ids:
            self._schedules.pop(each, None)

    def forget_runs(self, ids: Iterable[int]) -> None:
        for each in ids:
            self._runs.pop(each, None)

    def add_schedules(self, started: Iterable[StartedInterval]) -> None:
        """Remember intervals after `start_paced`. One whose row of skips has ended just now is read again."""
        if len(self._schedules) > MAX_CLAIMED_ROWS:
            self._schedules.clear()
        for snapshot, due_at in started:
            if snapshot.tail_id is not None:
                self._schedules.pop(snapshot.id, None)
                continue
            self._schedules[snapshot.id] = snapshot._replace(
                next_run_at=None,
                next_due_at=None,
                wake_at=None,
                running=snapshot.running + 1,
                settled_until=max(snapshot.settled_until, due_at),
                recorded=(),
            )

    def add_runs(self, ids: Iterable[int], runs: Iterable[NewRun]) -> None:
        if len(self._runs) > MAX_CLAIMED_ROWS:
            self._runs.clear()
        for number, (beat_id, schedule_id, attempt, target_id, source, limited) in zip(ids, runs, strict=True):
            if source is not None:
                run = OpenRun(number, beat_id, schedule_id, attempt, target_id, source, False, limited)
                self._runs[number] = run

    def find_schedules(self, ids: Iterable[int]) -> tuple[dict[int, ScheduleSnapshot], list[int]]:
        """Return those that are known, and the ids of the others."""
        return _find_known(self._schedules, ids)

    def find_runs(self, ids: Iterable[int]) -> tuple[dict[int, OpenRun], list[int]]:
        return _find_known(self._runs, ids)


def _find_known(known: Mapping[int, T], ids: Iterable[int]) -> tuple[dict[int, T], list[int]]:
    found: dict[int, T] = {}
    missing: list[int] = []
    for each in ids:
        row = known.get(each)
        if row is None:
            missing.append(each)
        else:
            found[each] = row
    return found, missing


class SqliteTransaction(SqlTransaction):
    """One process writes, so it assigns the ids itself, and remembers what it has claimed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.claimed = ClaimedRows()
        sqlite_connection = SqliteConnection(connection, self.claimed.forget_all)
        super().__init__(sqlite_connection)
        self._last_beat, self._last_run = sqlite_connection.query_one("last_ids")

    def schedules(self, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]:
        found, missing = self.claimed.find_schedules(ids)
        return found | super().schedules(missing) if missing else found

    def open_runs(self, ids: Iterable[int]) -> dict[int, OpenRun]:
        found, missing = self.claimed.find_runs(ids)
        return found | super().open_runs(missing) if missing else found

    def schedule_mark_started(self, started: Sequence[StartedInterval], now: datetime) -> None:
        super().schedule_mark_started(started, now)
        self.claimed.add_schedules(started)

    def schedule_adjust_counters(self, counted: Sequence[CounterDelta], started_at: datetime | None) -> None:
        super().schedule_adjust_counters(counted, started_at)
        self.claimed.forget_schedules(each.id for each in counted)

    def change_schedules(self, schedules: Sequence[ChangedSchedule]) -> None:
        super().change_schedules(schedules)
        self.claimed.forget_schedules(each.id for each in schedules)

    def add_runs(self, runs: Sequence[NewRun], node_id: int, now: datetime) -> list[int]:
        ids = super().add_runs(runs, node_id, now)
        self.claimed.add_runs(ids, runs)
        return ids

    def finish_runs(self, runs: Sequence[FinishedRun], now: datetime) -> None:
        super().finish_runs(runs, now)
        self.claimed.forget_runs(each.run_id for each in runs)

    def _next_beat_ids(self, number: int) -> list[int]:
        self._last_beat += number
        return list(range(self._last_beat - number + 1, self._last_beat + 1))

    def _next_run_ids(self, number: int) -> list[int]:
        self._last_run += number
        return list(range(self._last_run - number + 1, self._last_run + 1))


CACHE_KIB = 16_384
CHECKPOINT_CHANGES = 4_000
"""Changed rows after which the log is moved into the main file when the writer is idle: some hundred beats."""

IDLE_CHECKPOINT_CHANGES, IDLE_CHECKPOINT_S = 100, 30.0
"""In a quiet fleet so many are enough after that time: its log stays small, too."""

MAX_WAL_PAGES = 16_000
"""Where SQLite moves the log by itself, idle or not: 64 MB."""

_STATEMENT_ERRORS = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError)
"""Errors of the statement alone. All others are about the file: nothing of the transaction can stand then."""


class SqliteSession:
    """The writer's connection to the file. See `WriteSession`."""

    def __init__(self, path: Path, *, synchronous: str = "FULL") -> None:
        self._path = path.absolute()  # a Python program may change its working directory
        self._journal = self._path.with_name(f"{path.name}-wal")
        self._synchronous = synchronous
        self._checkpointed_changes = 0
        self._checkpointed_at = 0.0
        self._data_version = 0
        self._signature: int | None = None
        self._signed_at = 0

    def open(self) -> None:
        try:
            # Statements stay prepared: there are few, and they run thousands of times a second.
            self._connection = sqlite3.connect(self._path, isolation_level=None, cached_statements=256)
            self._connection.text_factory = decode_lossy
            _require_known_schema(self._connection, self._path)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            self._connection.execute("PRAGMA busy_timeout = 2000")
            self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {MAX_WAL_PAGES}")
            _migrate(self._connection)
            _erase_old_secrets(self._connection)
            self._transaction = SqliteTransaction(self._connection)
            self._opened = self._path.stat()
            self._opened_journal = _stat(self._journal)
        except sqlite3.Error as error:
            raise to_store_unavailable(self._path, error) from error

    def require_same_file(self) -> None:
        """Raises StoreUnavailable if the paths no longer lead to the ledger and the journal that are open.

        SQLite continues to write into a file that was deleted: a node once started 76 runs, and its ledger had 24 of
        them. What is only in a deleted journal is lost if the node is killed, and no other program sees it. After
        `cp backup.db herdbeat.db` it mixes pages of two ledgers.
        """
        if not _is_same_file(self._path, self._opened) or self._is_overwritten():
            lost = self._path
        elif self._opened_journal is not None and not self._is_journal_intact(self._opened_journal):
            lost = self._journal
        else:
            return
        raise StoreUnavailable(
            f"{lost} was removed, replaced or truncated while herdbeat was using it. No new runs start.",
            hint="Put the file back or restore a backup (herdbeat db restore FILE), then restart: herdbeat up",
        )

    def begin(self) -> None:
        self._execute("BEGIN IMMEDIATE")
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:  # another connection has written
            self._data_version = version
            self._transaction.claimed.forget_all()

    def commit(self) -> None:
        self._execute("COMMIT")
        self.require_same_file()  # after the commit: what the callers then start is in the ledger that others read

    def rollback(self) -> None:
        self._transaction.claimed.forget_all()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        self._execute("SAVEPOINT attempt")
        with ExitStack() as undo:
            undo.callback(self._rollback_savepoint)
            try:
                result = work(self._transaction)
            except sqlite3.Error as error:
                if isinstance(error, _STATEMENT_ERRORS):
                    raise
                # The disk is full, or worse: SQLite may have ended the whole transaction, and its savepoints with it.
                undo.pop_all()
                raise to_store_unavailable(self._path, error) from error
            undo.pop_all()
        self._execute("RELEASE attempt")
        return result

    def _rollback_savepoint(self) -> None:
        self._transaction.claimed.forget_all()
        self._execute("ROLLBACK TO attempt")
        self._execute("RELEASE attempt")

    def on_idle(self) -> None:
        """Move the log into the main file. Inside a commit, this delayed beats by ten milliseconds."""
        if self._signature is None:
            self._sign()
        changes, now = self._connection.total_changes, time.monotonic()
        enough = IDLE_CHECKPOINT_CHANGES if now >= self._checkpointed_at + IDLE_CHECKPOINT_S else CHECKPOINT_CHANGES
        if changes - self._checkpointed_changes < enough:
            return
        self._checkpointed_changes, self._checkpointed_at = changes, now
        if not self._is_overwritten() and _is_journal_readable(self._journal):  # else our pages would damage the file
            with suppress(sqlite3.Error):  # what stays in the log is as safe there; the next call tries again
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _sign(self) -> None:
        """Write a number of this session into the header of the main file: a copy of another time has another one."""
        signature = secrets.randbelow(2**31 - 1) + 1
        with suppress(sqlite3.Error):  # somebody else is writing; the next call tries again
            self._connection.execute(f"PRAGMA application_id = {signature}")
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if _read_signature(self._path) == signature:  # else a reader keeps it in the log for now
                self._signed_at, self._signature = self._path.stat().st_mtime_ns, signature

    def _is_overwritten(self) -> bool:
        """True if the main file has the contents of another ledger, or of a backup. Cheap unless it was written to."""
        found = _stat(self._path)
        if self._signature is None or found is None or not os.path.samestat(found, self._opened):
            return False
        if found.st_mtime_ns == self._signed_at:
            return False
        signature = _read_signature(self._path)
        if signature == self._signature:
            self._signed_at = found.st_mtime_ns
        return signature not in (None, self._signature)

    def _is_journal_intact(self, opened: os.stat_result) -> bool:
        found = _stat(self._journal)  # of any size: a checkpoint of another program may empty it
        return found is not None and os.path.samestat(found, opened) and _is_journal_readable(self._journal)

    def close(self) -> None:
        if self._is_overwritten() or not _is_journal_readable(self._journal):
            # Closing would move our log into the other ledger, or the zeros of a truncated one into ours. Without its
            # frames SQLite gives up, and writes nothing.
            shutil.copyfile(self._journal, f"{self._path}.lost-wal")
            os.truncate(self._journal, 0)
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._path.exists() and not os.path.samestat(self._path.stat(), self._opened):
            # SQLite leaves them behind then, and would read them into the ledger that has taken the place of ours.
            for journal in ("-wal", "-shm"):
                with suppress(OSError):
                    Path(f"{self._path}{journal}").rename(f"{self._path}.lost{journal}")

    def _execute(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            raise to_store_unavailable(self._path, error) from error


class SqliteStore(Writer[Transaction]):
    """A store in one file. A write is durable when it returns."""

    def __init__(self, path: Path, *, synchronous: str = "FULL") -> None:
        self.session = SqliteSession(path, synchronous=synchronous)
        super().__init__(self.session, name="herdbeat-writer")
        self.path = self.location = path

    def open(self) -> None:
        """Raises StoreUnavailable if the file cannot be opened, is no database, or is newer than this program."""
        prepare_state_dir(self.location.parent)
        try:
            _require_plain_file(self.location)
            if not self.location.exists():
                _create_ledger(self.location)
        except (OSError, sqlite3.Error) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            hint = "Check the folder, or use another path in store:."
            raise StoreUnavailable(f"{self.location}: {reason}", hint=hint) from error
        super().open()

    def require_intact(self) -> None:
        """Raises StoreUnavailable if the file was removed, replaced or truncated since it was opened."""
        self.session.require_same_file()


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _read_signature(path: Path) -> int | None:
    """Return the number in the header of the main file, without its log; None if the file cannot be opened now.

    Through SQLite: closing a file of our own would release the locks that SQLite has on it.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
            # Else a header that counts more pages than the file has is an error. It does after every checkpoint that a
            # reader has cut short: new pages that were changed again since are only in the log.
            connection.execute("PRAGMA writable_schema = ON")
            return int(connection.execute("PRAGMA application_id").fetchone()[0])
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError:
        return 0  # something that is no database


_JOURNAL_MARKS = (b"", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""What a journal begins with: nothing, after a checkpoint that has emptied it, or one of SQLite's two numbers."""


def _is_journal_readable(journal: Path) -> bool:
    """False for a journal that was truncated: SQLite then goes on where it was, and leaves a hole before that.

    A node once went on in such a journal, and when it was killed its ledger had none of the runs.
    """
    try:
        fd = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True  # it was removed, which is another matter
    try:
        return os.read(fd, 4) in _JOURNAL_MARKS
    finally:
        os.close(fd)  # SQLite has its locks on the main file and on the shared memory, none on this file


def _is_same_file(path: Path, opened: os.stat_result) -> bool:
    found = _stat(path)
    return found is not None and os.path.samestat(found, opened) and found.st_size >= opened.st_size


def _require_plain_file(path: Path) -> None:
    """Raises StoreUnavailable for what is there and is no ledger, and for the journal of one that is gone."""
    journal = path.with_name(f"{path.name}-wal")
    if path.is_symlink():
        message = f"{path} is a symbolic link; herdbeat does not follow symbolic links in its state directory."
        raise StoreUnavailable(message, hint="Write the path of the linked file in store:.")
    for link in (journal, path.with_name(f"{path.name}-shm")):
        if link.is_symlink():
            message = f"{link} is a symbolic link; herdbeat does not follow symbolic links in its state directory."
            raise StoreUnavailable(message, hint="Check who created it, then remove it.")
    if is_empty_file(path):
        raise build_empty_ledger_error(path)
    if not path.exists() and journal.exists() and not is_empty_file(journal):
        message = f"{path} is missing, but {journal.name} exists: the ledger was deleted while it was in use."
        raise StoreUnavailable(
            message, hint=f"Put the ledger back, or delete {journal.name} to start with an empty ledger."
        )


def _create_ledger(path: Path) -> None:
    """Make a new ledger under another name first: an empty file under this one means that a ledger was truncated.

    Only this user may read it and the files that SQLite makes beside it: specs may hold secrets.
    """
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(_new_ledger())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@cache
def _new_ledger() -> bytes:
    """Return the file of an empty ledger, migrated in memory: to migrate a file took twice the time."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _migrate(connection)
        return connection.serialize()


def _require_known_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreUnavailable before anything is changed in a file that this version does not understand."""
    current, newest = _current_schema(connection), load_migrations()[-1][0]
    if current > newest:
        message = (
            f"{path} was created by a newer version of herdbeat (schema {current}; this version supports {newest})."
        )
        raise StoreUnavailable(message, hint="Use that version, or restore a backup made by this version.")


def _erase_old_secrets(connection: sqlite3.Connection) -> None:
    """Let the apply that replaces values of variables by references also overwrite them in the file."""
    if connection.execute("SELECT 1 FROM meta WHERE key = 'secrets'").fetchone() is not None:
        connection.execute("PRAGMA secure_delete = ON")


def _migrate(connection: sqlite3.Connection) -> None:
    current = _current_schema(connection)
    for number, text in load_migrations():
        if number > current:
            connection.executescript(f"BEGIN; {text} PRAGMA user_version = {number}; COMMIT;")


def _current_schema(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
