"""The sheets of SQL: one home for each statement."""

import re
from collections.abc import Mapping

from herdbeat.store.postgres.statements import WRITER_SQL_FILES as OF_POSTGRES
from herdbeat.store.sql_files import load_statements
from herdbeat.store.sqlite.connection import WRITER_SQL_FILES as OF_SQLITE


def own(sheets: tuple[str, ...]) -> Mapping[str, str]:
    """The statements of one dialect alone, without comments and line breaks."""
    found = load_statements(*(sheet for sheet in sheets if sheet != "both"))
    return {name: " ".join(re.sub("--.*", "", text).split()) for name, text in found.items()}


def test_a_statement_that_both_dialects_understand_is_written_once() -> None:
    sqlite, postgres = own(OF_SQLITE), own(OF_POSTGRES)

    assert [name for name in sqlite if sqlite[name] == postgres.get(name)] == []


def test_no_dialect_replaces_what_both_understand() -> None:
    assert load_statements("both").keys() & (own(OF_SQLITE).keys() | own(OF_POSTGRES).keys()) == set()
