"""The SQL by name. It lives in `sql/`, is read once, and stands nowhere in Python."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (?P<name>\w+)$", re.MULTILINE)


@cache
def queries(*sheets: str) -> Mapping[str, str]:
    """The statements of these sheets, later ones taking the place of earlier: ("queries", "sqlite")."""
    found: dict[str, str] = {}
    for sheet in sheets:
        found.update(_statements(_read(f"{sheet}.sql")))
    return found


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Numbered, forward only, never edited after a release."""
    folder = files("herdbeat.store").joinpath("sql", "migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names)


def _read(name: str) -> str:
    return files("herdbeat.store").joinpath("sql", name).read_text(encoding="utf-8")


def _statements(text: str) -> Iterator[tuple[str, str]]:
    marks = list(_NAME.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark["name"], text[mark.end() : following.start() if following else len(text)].strip().rstrip(";")
