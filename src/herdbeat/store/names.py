"""The names of schedules that begin in a certain way, in an instant: what a shell offers while somebody types."""

import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from herdbeat.store.clean import decode
from herdbeat.store.micros import from_micros
from herdbeat.store.queries import queries

_LAST = "\U0010ffff"
_LATE_AFTER = timedelta(seconds=30)
"""What a plan that says nothing means (domain/policies.py, which takes too long to load here)."""


class NamedSchedule(NamedTuple):
    """A name, and as much as its state is told by."""

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


def names_beginning(ledger: Path, prefix: str, limit: int) -> list[NamedSchedule]:
    """Those of a target by its beginning, or of one target by the beginning of the schedule. Empty if it cannot be."""
    target, slash, name = prefix.partition("/")
    values = {
        "target": target,
        "target_end": target + ("\0" if slash else _LAST),
        "name": name,
        "name_end": name + _LAST,
        "limit": limit,
    }
    connection = sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = decode
    try:
        return [_named(row) for row in connection.execute(queries("names")["names_beginning"], values)]
    finally:
        connection.close()


def _named(row: tuple[object, ...]) -> NamedSchedule:
    found = NamedSchedule(*row)  # type: ignore[arg-type] # what SQLite gives is put right below
    late_after = row[13]
    return found._replace(
        enabled=bool(found.enabled),
        paused=bool(found.paused),
        paused_until=_moment(row[6]),
        next_run_at=_moment(row[10]),
        last_run_at=_moment(row[11]),
        waits_for_event=bool(found.waits_for_event),
        late_after=timedelta(microseconds=late_after) if isinstance(late_after, int) else _LATE_AFTER,
    )


def _moment(micros: object) -> datetime | None:
    return from_micros(micros) if isinstance(micros, int) else None
