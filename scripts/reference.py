"""Write the generated pages of docs/reference, or check that they are up to date.

`python -m scripts.reference` writes, `python -m scripts.reference --check` compares and exits with 1 if a page is old.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.pages import PAGES

FOLDER = Path(__file__).parent.parent / "docs" / "reference"


def outdated() -> list[str]:
    """The names of the pages that differ from what the code says now."""
    return [name for name, page in PAGES.items() if _text(FOLDER / name) != page()]


def write() -> list[str]:
    """Bring every page up to date, and say which ones were not."""
    old = outdated()
    for name in old:
        (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
    return old


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--check"]:
        for name in outdated():
            sys.stderr.write(f"docs/reference/{name} is out of date.\n  Run: make reference\n")
        return 1 if outdated() else 0
    for name in write():
        sys.stdout.write(f"wrote docs/reference/{name}\n")
    return 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
