"""The SQL by name. It lives in `sql/`, is read once, and stands nowhere in Python."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

_NAME_PATTERN = re.compile(r"^-- name: (?P<name>\w+)$", re.MULTILINE)
_SQL_FOLDER = Path(__file__).parent / "sql"
"""Not by importlib.resources: it loads what reads zip files first, and every command would wait for that."""

_FRAGMENT_PATTERN = re.compile(r"\{(?P<name>\w+)\}")


@cache
def load_statements(*files: str) -> Mapping[str, str]:
    """The statements of these sheets, later ones taking the place of earlier; `{name}` is another one's text."""
    found: dict[str, str] = {}
    for file in files:
        found.update(_split_statements(_read_sql_file(f"{file}.sql")))
    return {name: _FRAGMENT_PATTERN.sub(lambda part: found[part["name"]], text) for name, text in found.items()}


@cache
def load_migrations(subfolder: str = "migrations") -> tuple[tuple[int, str], ...]:
    """Numbered, forward only, never edited after a release."""
    folder = _SQL_FOLDER / subfolder
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in names)


def _read_sql_file(name: str) -> str:
    return (_SQL_FOLDER / name).read_text(encoding="utf-8")


def _split_statements(text: str) -> Iterator[tuple[str, str]]:
    marks = list(_NAME_PATTERN.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark["name"], text[mark.end() : following.start() if following else len(text)].strip().rstrip(";")
