"""Runs a command in a network namespace of its own, in which only loopback is up: nothing can leave the machine.

python -m tests.system.loopback_only pytest tests/system
"""

import fcntl
import os
import shutil
import socket
import struct
import sys

_INSIDE = "--inside"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def is_loopback_only() -> bool:
    """Return True if this process has no network but loopback."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def bring_loopback_up() -> None:
    """Switch `lo` on. A new namespace has it, switched off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        _, flags, _ = struct.unpack("16sH14s", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags | _IFF_UP, b""))


def main(argv: list[str]) -> None:
    if argv[:1] == [_INSIDE]:
        bring_loopback_up()
        os.execvp(argv[1], argv[1:])
    if shutil.which("unshare") is None:
        sys.exit("The system tests need a network namespace: install util-linux, which has `unshare`.")
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    os.execvp("unshare", ["unshare", "--net", *as_root, sys.executable, "-m", __spec__.name, _INSIDE, *argv])


if __name__ == "__main__":
    main(sys.argv[1:])
