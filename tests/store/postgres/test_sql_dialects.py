"""The sheets of both dialects know the same statements, and PostgreSQL understands every one of its own."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from herdbeat.store import agent_reader, reader, rule_reader
from herdbeat.store.postgres.statements import load_statement
from herdbeat.store.statements import load_file, load_statements

IN_ITS_OWN_WAY = {
    *(
        "due_schedules",
        "due_excluding",
        "due_beats",
        "last_ids",
        "newest_node_id",
        "work_claim_row",
    ),  # taken under locks, numbered by sequences, rows instead of JSON
}
PARTS = {
    *("delivery_columns", "episode_columns", "is_live_episode", "unstarted_beat", "has_reported_missed"),
    *("snapshot_columns", "due_time", "matches_node_labels", "upsert_stop_requests", "in_ids"),
    *(
        "never_started",
        "schedule_columns",
        "matches_beat_filter",
        "matches_run_filter",
        "of_target",
        "matches_schedule_query",
    ),
    *("has_result", "has_retry", "next_retry", "is_unable"),
    *("is_of_thread", "is_sender_dead", "past_run_columns"),
    *("window_columns", "open_windows", "planned_pause_columns", "schedule_windows", "is_in_window", "current_window"),
    *("account_of", "model_of", "hold_columns", "open_hold_exists"),
    *("work_claim_columns", "is_open_work_claim", "shown_work_claim"),
}
"""Not statements, but pieces of some."""

QUOTED = [
    word
    for module in (reader, agent_reader, rule_reader)
    for word in re.findall(r'"(\w+)"', Path(str(module.__file__)).read_text(encoding="utf-8"))
]
QUESTIONS = load_statements("postgres").keys() & set(QUOTED)
"""What the reader asks: its values are put into the text, so the server is not told their types."""

WRITES = load_statements("postgres").keys() - PARTS - QUESTIONS


def test_every_statement_of_the_ledger_is_there_in_both_dialects() -> None:
    sqlite = load_statements("sqlite").keys() - load_file("sqlite/name_lookup.sql").keys()
    missing = sqlite - load_statements("postgres").keys() - IN_ITS_OWN_WAY

    assert not missing, f"say it for PostgreSQL, too: {', '.join(sorted(missing))}"


@pytest.fixture(scope="module")
def connection(postgres: Any) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.database("herdbeat_template"), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("name", sorted(WRITES))
def test_the_server_prepares_each_statement(connection: psycopg.Connection[Any], name: str) -> None:
    text = load_statement(name).text

    numbered = text.decode().replace("%%", "%")
    for place, value in enumerate(dict.fromkeys(re.findall(r"%\((\w+)\)s", numbered)), start=1):
        numbered = numbered.replace(f"%({value})s", f"${place}")

    with connection.transaction(force_rollback=True):
        connection.execute(f"PREPARE checked AS {numbered}".encode())
        connection.execute("DEALLOCATE checked")


VALUES: dict[str, Any] = {
    **{name: [1, 2] for name in ("ids", "schedules", "plans")},
    **{name: ["a"] for name in ("names", "tags", "groups", "kinds")},
    **dict.fromkeys(
        (
            "target",
            "name",
            "word",
            "day",
            "scope",
            "subject",
            "first",
            "last",
            "digest",
            "token",
            "target_end",
            "name_end",
            "only",
            "pattern",
            "host",
            "source",
            "item",
        ),
        "a",
    ),
    "outcome": "ran",
    "status": "failed",
    "result": "failed",
    "state": "ok",
    "limit": 5,
    "declined": 1,
}


@pytest.mark.parametrize("is_asked_about", [True, False], ids=["given", "left out"])
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_the_server_answers_each_query(connection: psycopg.Connection[Any], name: str, is_asked_about: bool) -> None:
    text = load_statement(name).text
    asked = {given: VALUES.get(given, 7) for given in re.findall(r"%\((\w+)\)s", text.decode())}
    if not is_asked_about:
        kept = {"ids", "schedules", "plans", "tags", "groups", "limit", "declined", "word", "id"}
        asked = {given: value if given in kept else None for given, value in asked.items()}

    psycopg.ClientCursor(connection).execute(text, asked)
