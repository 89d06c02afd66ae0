"""The private folder of one `herdbeat exec`, with the log of its run.

Engines kill: Ray three seconds after it has asked. A killed process leaves its folder, and the next one on its machine
removes it, as nothing else of ours runs there.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

PREFIX = "herdbeat-exec-"
LEFTOVER_AGE = timedelta(hours=1)
"""A younger one may be about to be locked."""


@contextmanager
def open_exec_folder(now: datetime) -> Iterator[Path]:
    """Yield a new folder, and remove it at the end. Those that killed processes have left are removed before."""
    for each in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove_leftover(each, now)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        lock = _open(Path(folder))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released by the kernel, however this process ends
            yield Path(folder)
        finally:
            os.close(lock)


def _remove_leftover(folder: Path, now: datetime) -> None:
    """Remove a folder of this user that nobody has locked. Raises OSError: it is in use, or of somebody else."""
    lock = _open(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(lock)
        is_old = datetime.fromtimestamp(status.st_mtime, UTC) < now - LEFTOVER_AGE
        if is_old and status.st_uid == os.geteuid():
            shutil.rmtree(folder)
    finally:
        os.close(lock)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
