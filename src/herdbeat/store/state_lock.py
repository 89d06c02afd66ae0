"""The lock of a state directory: one process owns it, and the lock file has its pid for the message to a second one."""

import fcntl
import os
from pathlib import Path
from typing import Self

from herdbeat.errors import Conflict, StoreUnavailable


class StateLock:
    """Held from `acquire` until `release`, or until the process ends: the kernel releases it then."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Raises Conflict, with the pid of the holder; StoreUnavailable for a folder that cannot be used."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unusable_state_dir(self._path.parent, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise Conflict(
                f"herdbeat is already running on {self._path.parent} (pid {holder or 'unknown'}).",
                hint="Stop that one first (herdbeat down), or use another folder.",
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def find_lock_holder(state_dir: Path) -> int | None:
    """Return the pid that holds a state directory; None if none does. Raises StoreUnavailable for a bad folder."""
    try:
        file = os.open(state_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable_state_dir(state_dir, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.read(file, 32).decode(errors="replace").strip()
        return int(written) if written.isdigit() else None
    finally:
        os.close(file)
    return None


def _unusable_state_dir(state_dir: Path, error: OSError) -> StoreUnavailable:
    reason = f"{state_dir} cannot be the state directory: {error.strerror}."
    return StoreUnavailable(reason, hint="Make it a folder that this user may write in, or use another one.")
