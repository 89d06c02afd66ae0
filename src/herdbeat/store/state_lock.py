"""The state directory: private to its user, and locked by one process at a time.

The lock is on the folder itself and on the file `lock` in it, which has the pid for the message to a second process.
The file alone was not enough: `rm .herdbeat/lock` let a second `up` in, and the two took each other's runs for dead.
"""

import errno
import fcntl
import os
import shlex
import stat
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from herdbeat.errors import StateLocked, StoreUnavailable

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LOCK_BYTES = 4096
_RESTORE_TIMEOUT_S = 3.0
"""Seconds for a node to put a removed lock file back: it checks every second."""

_RESTORE_POLL_INTERVAL_S = 0.1


class StateLock:
    """Held from `acquire` until `release`, or until the process ends: the kernel releases it then."""

    def __init__(self, state_dir: Path, ledger: str = "") -> None:
        """`ledger` is that of the holder, by `name_ledger`: empty for a file in this folder."""
        self._ledger = ledger
        self._folder_path = state_dir.absolute()  # a Python program may change its working directory
        self._path = self._folder_path / "lock"
        self._folder: int | None = None
        self._file: int | None = None

    def acquire(self) -> None:
        """Raises StateLocked, with the pid of the holder; StoreUnavailable for a folder that cannot be used."""
        prepare_state_dir(self._folder_path)
        with ExitStack() as undo:
            folder, file = self._open(undo)
            if not (_try_lock(file) and _try_lock_folder(folder)):
                holder, _ = _parse_holder(os.pread(file, _MAX_LOCK_BYTES, 0))
                raise StateLocked(
                    f"herdbeat is already running on {self._folder_path} (pid {holder or 'unknown'}).",
                    hint="Stop it first (herdbeat down), or use another state directory.",
                )
            undo.pop_all()
        _write_holder(file, self._ledger)
        self._folder, self._file = folder, file

    def _open(self, undo: ExitStack) -> tuple[int, int]:
        try:
            folder = os.open(self._folder_path, _FOLDER_FLAGS)
            undo.callback(os.close, folder)
            file = os.open(self._path, _LOCK_FLAGS, 0o644)
            undo.callback(os.close, file)
        except OSError as error:
            raise _unusable_state_dir(self._folder_path, error) from error
        return folder, file

    def check(self) -> bool:
        """Put the lock file back if it was removed, and return whether it was.

        Raises StoreUnavailable if the folder was removed or replaced, or if another process has locked a new file.
        """
        assert self._folder is not None, "the lock is not held"
        assert self._file is not None
        if not _is_same_file(self._folder, self._folder_path):
            raise StoreUnavailable(
                f"{self._folder_path} was removed or replaced while herdbeat was using it. No new runs start.",
                hint="Put the folder back, then restart: herdbeat up",
            )
        if _is_same_file(self._file, self._path):
            return False
        self._restore_file()
        return True

    def _restore_file(self) -> None:
        try:
            file = os.open(self._path, _LOCK_FLAGS, 0o644)
        except OSError as error:
            raise _unusable_state_dir(self._folder_path, error) from error
        if not _try_lock(file):
            os.close(file)
            raise StoreUnavailable(
                f"{self._path} was deleted, and another process has locked a new one. This process starts no new runs.",
                hint="Stop the other process (herdbeat down), then restart: herdbeat up",
            )
        assert self._file is not None
        os.close(self._file)
        self._file = file
        _write_holder(file, self._ledger)

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def prepare_state_dir(state_dir: Path) -> None:
    """Create the folder, for this user only, if it is missing. Raises StoreUnavailable if it is not safe to use."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable_state_dir(state_dir, error) from error
    require_private_dir(state_dir)


def require_private_dir(folder: Path) -> None:
    """Raises StoreUnavailable if another user may write into a folder: links planted there led logs into /etc."""
    try:
        link, found = folder.lstat(), folder.stat()
    except OSError as error:
        raise _unusable_state_dir(folder, error) from error
    trusted, quoted = {os.geteuid(), 0}, shlex.quote(str(folder))
    if link.st_uid not in trusted or found.st_uid not in trusted:
        raise StoreUnavailable(
            f"{folder} belongs to another user, who could redirect the files that herdbeat writes.",
            hint=f"Run herdbeat as its owner, or change the owner: sudo chown -hR $(id -u) {quoted}",
        )
    if stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreUnavailable(
            f"{folder} is writable for other users, who could redirect the files that herdbeat writes.",
            hint=f"Check that everything in it is yours, then remove the permission: chmod go-w {quoted}",
        )


def find_lock_holder(state_dir: Path, ledger: str | None = None) -> int | None:
    """Return the pid that holds a state directory; None if none does. Raises StoreUnavailable for a bad folder.

    With `ledger`, by `name_ledger`, also None if the holder runs another one: a fleet may move between a file and a
    database in the same folder, while a node still runs what the files said before.
    """
    deadline = time.monotonic() + _RESTORE_TIMEOUT_S
    # Nobody has the file, but the folder: a node that has yet to put its lock back, after somebody removed it.
    while (held := _read_lock_holder(state_dir))[0] is None and _is_folder_locked(state_dir):
        if time.monotonic() > deadline:
            if os.path.lexists(state_dir / "lock"):
                break
            raise StoreUnavailable(
                f"A process is using {state_dir}, but its lock file was deleted.",
                hint="Find the process with `ps` or `fuser`, and stop it.",
            )
        time.sleep(_RESTORE_POLL_INTERVAL_S)
    pid, held_ledger = held
    return pid if ledger is None or held_ledger == ledger else None


def _read_lock_holder(state_dir: Path) -> tuple[int | None, str]:
    try:
        file = os.open(state_dir / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        raise _unusable_state_dir(state_dir, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _parse_holder(os.read(file, _MAX_LOCK_BYTES))
    finally:
        os.close(file)
    return None, ""


def _is_folder_locked(state_dir: Path) -> bool:
    try:
        folder = os.open(state_dir, _FOLDER_FLAGS)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(folder)
    return False


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_folder(folder: int) -> bool:
    """A network file system may refuse to lock a folder: then the file in it is the only lock."""
    try:
        return _try_lock(folder)
    except OSError:
        return True


def _write_holder(file: int, ledger: str) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, "".join(f"{line}\n" for line in (os.getpid(), ledger) if line).encode(), 0)


def _parse_holder(content: bytes) -> tuple[int | None, str]:
    """Return the pid and the ledger of the holder."""
    pid, _, ledger = content.decode(errors="replace").partition("\n")
    return (int(pid) if pid.isdigit() else None), ledger.strip()


def _is_same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


def _unusable_state_dir(state_dir: Path, error: OSError) -> StoreUnavailable:
    if error.errno == errno.ELOOP:
        message = (
            f"{error.filename} is a symbolic link; herdbeat does not follow symbolic links in its state directory."
        )
        return StoreUnavailable(message, hint="Check who created it, then remove it.")
    reason = f"{state_dir} cannot be used as the state directory: {error.strerror}."
    return StoreUnavailable(reason, hint="Use a folder that is writable for this user.")
