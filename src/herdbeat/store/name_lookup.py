"""Schedules by the beginning of their name, for shell completion. It loads next to nothing, to answer at once."""

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from herdbeat.store.sanitize import decode_lossy
from herdbeat.store.statements import load_file
from herdbeat.timestamps import from_micros

_MAX_CHAR = "\U0010ffff"
_DEFAULT_LATE_AFTER = timedelta(seconds=30)
"""The default of domain/policies.py, which takes too long to load here."""


class NamedSchedule(NamedTuple):
    """A name, and the columns that its displayed state depends on."""

    target: str
    name: str
    running: int
    enabled: bool
    disabled_by: str | None
    paused: bool
    paused_until: datetime | None
    waiting: int
    quarantine: str | None
    failures: int
    next_run_at: datetime | None
    last_run_at: datetime | None
    waits_for_event: bool
    late_after: timedelta
    last_status: str | None
    is_unable: bool
    retry_at: datetime | None
    retry_attempt: int | None
    was_cut_off: bool = False


def names_with_prefix(ledger: Path, prefix: str, limit: int) -> list[NamedSchedule]:
    """Return schedules whose target begins so; after a slash, schedules of that target whose name begins so."""
    target, slash, name = prefix.partition("/")
    ends = {"target_end": target + ("\0" if slash else _MAX_CHAR), "name_end": name + _MAX_CHAR}
    values = {"target": target, "name": name, **ends, "limit": limit}
    statement = load_file("sqlite/name_lookup.sql")["names_with_prefix"]
    with closing(sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = decode_lossy
        return [_read_named_schedule(row) for row in connection.execute(statement, values)]


def _read_named_schedule(row: tuple[object, ...]) -> NamedSchedule:
    found = NamedSchedule(*row)  # type: ignore[arg-type] # SQLite's types are converted below
    late_after = row[13]
    return found._replace(
        enabled=bool(found.enabled),
        paused=bool(found.paused),
        paused_until=_read_time(row[6]),
        next_run_at=_read_time(row[10]),
        last_run_at=_read_time(row[11]),
        waits_for_event=bool(found.waits_for_event),
        is_unable=bool(found.is_unable),
        retry_at=_read_time(row[16]),
        late_after=timedelta(microseconds=late_after) if isinstance(late_after, int) else _DEFAULT_LATE_AFTER,
    )


def _read_time(micros: object) -> datetime | None:
    return from_micros(micros) if isinstance(micros, int) else None
