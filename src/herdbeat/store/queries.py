"""The SQL by name. It lives in `sql/`, is read once, and stands nowhere in Python."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (?P<name>\w+)$", re.MULTILINE)
_FOLDER = Path(__file__).parent / "sql"
"""Not by importlib.resources: it loads what reads zip files first, and every command would wait for that."""

_PART = re.compile(r"\{(?P<name>\w+)\}")


@cache
def queries(*sheets: str) -> Mapping[str, str]:
    """The statements of these sheets, later ones taking the place of earlier; `{name}` is another one's text."""
    found: dict[str, str] = {}
    for sheet in sheets:
        found.update(_statements(_read(f"{sheet}.sql")))
    return {name: _PART.sub(lambda part: found[part["name"]], text) for name, text in found.items()}


@cache
def migrations(of: str = "migrations") -> tuple[tuple[int, str], ...]:
    """Numbered, forward only, never edited after a release."""
    folder = _FOLDER / of
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in names)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _statements(text: str) -> Iterator[tuple[str, str]]:
    marks = list(_NAME.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark["name"], text[mark.end() : following.start() if following else len(text)].strip().rstrip(";")
