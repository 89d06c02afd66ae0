"""Have the files of a fleet changed? Told from their times and sizes, so that asking costs nearly nothing."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from herdbeat.config.reading import LoadResult

FileStamps = Mapping[Path, tuple[int, int, int] | None]
"""Of each file when it was changed, how long it is and which one it is; None for one that is not there."""


def list_watched_paths(result: LoadResult, base: Path) -> tuple[Path, ...]:
    """Everything that a reading looked at: its files, the folders it listed, and an .env beside the first file."""
    named = [base / name for name in (*result.sources, *result.folders)]
    return (*named, *(path.parent / ".env" for path in named[:1]))


def stamp_files(paths: Iterable[Path]) -> FileStamps:
    return {path: _stamp_file(path) for path in paths}


def _stamp_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
