"""Where the socket is. The kernel takes short paths only, and a state directory may lie deeper than that."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

MAX_SOCKET_PATH_BYTES = 98
"""What every kernel takes (Linux 107, macOS 103 bytes), less the ending that a socket has while it is made."""

_SOCKET_NAME = "socket"
_REDIRECT_FILE_NAME = "socket.path"


def find_socket_path(state_dir: Path) -> Path:
    """Return where the socket of a state directory is, or would be."""
    default_path = state_dir / _SOCKET_NAME
    if _fits_kernel_limit(default_path):
        return default_path
    try:
        return Path((state_dir / _REDIRECT_FILE_NAME).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return default_path


def prepare_socket_path(state_dir: Path) -> Path:
    """Return the path to bind. If it is too long, return one in a private folder, and write that into a file."""
    default_path = state_dir / _SOCKET_NAME
    if _fits_kernel_limit(default_path):
        return default_path
    remove_socket(state_dir)
    socket_path = Path(tempfile.mkdtemp(prefix="herdbeat-", dir=_short_temp_dir())) / _SOCKET_NAME
    redirect = state_dir / _REDIRECT_FILE_NAME
    redirect.unlink(missing_ok=True)
    with redirect.open("x", encoding="utf-8") as file:  # a new file, never through a link
        file.write(f"{socket_path}\n")
    return socket_path


def remove_socket(state_dir: Path) -> None:
    """Remove the socket and what was created for it. A folder that holds other files is left alone."""
    socket_path = find_socket_path(state_dir)
    socket_path.unlink(missing_ok=True)
    if socket_path.parent != state_dir:
        (state_dir / _REDIRECT_FILE_NAME).unlink(missing_ok=True)
        with suppress(OSError):
            socket_path.parent.rmdir()


def _fits_kernel_limit(path: Path) -> bool:
    return len(os.fsencode(path.absolute())) <= MAX_SOCKET_PATH_BYTES


def _short_temp_dir() -> str:
    """A temporary folder may itself be deep, as on macOS or in tests; /tmp never is."""
    temp_dir = tempfile.gettempdir()
    return temp_dir if len(os.fsencode(temp_dir)) <= MAX_SOCKET_PATH_BYTES - 30 else "/tmp"  # noqa: S108 - mkdtemp makes it private
