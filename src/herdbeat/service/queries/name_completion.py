"""Names of schedules by their beginning, for the completion of a shell. It loads as little as possible."""

import sqlite3
from datetime import datetime
from pathlib import Path

from herdbeat.domain.ids import display_name
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition
from herdbeat.store.name_lookup import names_with_prefix


def complete_names(ledger: Path, prefix: str, limit: int, now: datetime) -> list[tuple[str, DisplayState]]:
    """Return names and states; none if the ledger cannot be read, because a shell shows no errors while one types."""
    try:
        schedules = names_with_prefix(ledger, prefix, limit)
    except sqlite3.Error:
        return []
    return [(display_name(each.target, each.name), resolve_condition(each, now).state) for each in schedules]
