"""Have the files of a fleet changed? Told from their times and sizes, so that asking costs nearly nothing."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from herdbeat.config.reading import Reading

Stamp = Mapping[Path, tuple[int, int, int] | None]
"""Of each file when it was changed, how long it is and which one it is; None for one that is not there."""


def watched(reading: Reading, base: Path) -> tuple[Path, ...]:
    """Everything that a reading looked at: its files, the folders it listed, and an .env beside the first file."""
    named = [base / name for name in (*reading.sources, *reading.folders)]
    return (*named, *(path.parent / ".env" for path in named[:1]))


def stamp(paths: Iterable[Path]) -> Stamp:
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
