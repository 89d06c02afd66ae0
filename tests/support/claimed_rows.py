"""Compare what a SQLite store remembers of its claims with what the ledger has, at every use of it in any test."""

from collections.abc import Iterable, Mapping

from herdbeat.store.rows import OpenRun, ScheduleSnapshot
from herdbeat.store.sql_transaction import SqlTransaction
from herdbeat.store.sqlite.store import SqliteTransaction

_differences: list[str] = []


def check_claimed_rows() -> None:
    """From now on, note every remembered row that differs from the ledger."""
    find_schedules, find_runs = SqliteTransaction.schedules, SqliteTransaction.open_runs

    def schedules(tx: SqliteTransaction, ids: Iterable[int]) -> dict[int, ScheduleSnapshot]:
        wanted = list(ids)
        found = find_schedules(tx, wanted)
        _compare(found, SqlTransaction.schedules(tx, wanted))
        return found

    def open_runs(tx: SqliteTransaction, ids: Iterable[int]) -> dict[int, OpenRun]:
        wanted = list(ids)
        found = find_runs(tx, wanted)
        _compare(found, SqlTransaction.open_runs(tx, wanted))
        return found

    SqliteTransaction.schedules = schedules  # type: ignore[method-assign,assignment]
    SqliteTransaction.open_runs = open_runs  # type: ignore[method-assign,assignment]


def take_differences() -> list[str]:
    """Return what was noted since the last call."""
    noted, _differences[:] = _differences[:], []
    return noted


def _compare(found: Mapping[int, object], stored: Mapping[int, object]) -> None:
    """Noted, and not raised: the scheduler would put the schedule in quarantine, and go on."""
    if dict(found) != dict(stored):
        _differences.append(f"remembered {found}, and the ledger has {stored}")
