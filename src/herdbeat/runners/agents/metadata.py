"""The metadata file of an agent: a JSON object that it writes into its working directory becomes its response."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """The file of one run. `before` identifies what lay there when the run started, which is not this run's."""

    path: Path
    before: tuple[int, ...] | None


def locate_metadata(folder: str, name: str) -> MetadataFile | None:
    """Return the metadata file of a run that is about to start; None if the name leads out of the folder."""
    home = os.path.realpath(folder)
    path = Path(os.path.realpath((Path(home) / name).parent)) / Path(name).name
    if os.path.commonpath((home, str(path))) != home:
        return None
    return MetadataFile(path=path, before=_identify(path))


def read_metadata(file: MetadataFile, max_bytes: int) -> object:
    """Return the object that the run has written; None if it wrote none, or something else.

    Neither links nor pipes are opened: the folder belongs to the agent, and an isolated one must not make us read a
    file for it.
    """
    if _identify(file.path) in (None, file.before):
        return None
    try:
        opened = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return None
        data = stream.read(max_bytes + 1)
    try:
        value = json.loads(data) if len(data) <= max_bytes else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _identify(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
