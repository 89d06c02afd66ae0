"""The files of SQL: one home for each statement."""

import re
from collections.abc import Mapping
from pathlib import Path

import herdbeat.store
from herdbeat.store.statements import load_folder

SQL = Path(herdbeat.store.__file__).parent / "sql"


def own(folder: str) -> Mapping[str, str]:
    """The statements of one dialect alone, without comments and line breaks."""
    return {name: " ".join(re.sub("--.*", "", text).split()) for name, text in load_folder(folder).items()}


def test_a_statement_that_both_dialects_understand_is_written_once() -> None:
    sqlite, postgres = own("sqlite"), own("postgres")

    assert [name for name in sqlite if sqlite[name] == postgres.get(name)] == []


def test_no_dialect_replaces_what_both_understand() -> None:
    assert load_folder("common").keys() & (own("sqlite").keys() | own("postgres").keys()) == set()


def test_no_statement_is_in_two_files_of_a_dialect() -> None:
    """Else one would silently replace the other."""
    for folder in (SQL / "common", SQL / "sqlite", SQL / "postgres"):
        texts = [file.read_text(encoding="utf-8") for file in folder.glob("*.sql")]
        names = [name for text in texts for name in re.findall("^-- name: (.*)$", text, re.MULTILINE)]

        assert sorted(names) == sorted(set(names)), folder
