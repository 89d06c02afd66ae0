"""Where the socket is. The kernel takes paths of 107 bytes only, and a state directory may lie deeper than that."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

LONGEST = 100
"""The kernel's 107 bytes, less the ending that a socket has while it is made."""

_NAME = "socket"
_ELSEWHERE = "socket.path"


def find_socket(state_dir: Path) -> Path:
    """Where the socket of a state directory is, or would be."""
    own = state_dir / _NAME
    if _fits(own):
        return own
    try:
        return Path((state_dir / _ELSEWHERE).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return own


def make_place(state_dir: Path) -> Path:
    """The same for who makes the socket: a path too long is replaced by one in a private folder, and noted."""
    own = state_dir / _NAME
    if _fits(own):
        return own
    forget_place(state_dir)
    place = Path(tempfile.mkdtemp(prefix="herdbeat-", dir=_temporary())) / _NAME
    (state_dir / _ELSEWHERE).write_text(f"{place}\n", encoding="utf-8")
    return place


def forget_place(state_dir: Path) -> None:
    """Remove the socket, and what was made for it. A folder that is not ours any more is left alone."""
    place = find_socket(state_dir)
    place.unlink(missing_ok=True)
    if place.parent != state_dir:
        (state_dir / _ELSEWHERE).unlink(missing_ok=True)
        with suppress(OSError):
            place.parent.rmdir()


def _fits(path: Path) -> bool:
    return len(os.fsencode(path.absolute())) <= LONGEST


def _temporary() -> str:
    """A temporary folder may itself be deep, as on macOS or in tests; /tmp never is."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= LONGEST - 30 else "/tmp"  # noqa: S108 - mkdtemp makes it private
