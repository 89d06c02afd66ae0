"""Programs that start a process which tries to outlive their run, and write its pid into a file or a fifo.

Run as a program itself, it is a daemon: `escaping_programs.py FILE [ignore] [clear]`.
"""

import os
import resource
import signal
import sys
from pathlib import Path

ESCAPES = {
    "own session": False,
    "own session, ignores TERM": False,
    "own session, without environment": False,
    "double fork": False,
    "double fork, ignores TERM": False,
    "double fork, without environment": not hasattr(resource, "RLIMIT_RTTIME"),
}
"""The ways to escape, each in the first moment of the program, and whether nothing finds such a process without a
control group."""


def escape_script(name: str, file: Path, rest: str = "sleep 600 & wait") -> str:
    """Return a shell script that starts a process which escapes; then it does the rest."""
    ignores, clears = "ignores TERM" in name, "without environment" in name
    if name.startswith("double fork"):
        options = " ".join(["ignore"] * ignores + ["clear"] * clears)
        return f"{sys.executable} -S {__file__} {file} {options}; {rest}"
    trap, prefix = "trap '' TERM;" * ignores, "env -i " * clears
    # It writes its pid itself: before that, it may not have left the group yet.
    escaped = f'{prefix}setsid sh -c "echo \\$\\$ >> {file}; exec sleep 600"'
    return f"({trap} exec {escaped} > /dev/null 2>&1) & {rest}"


def run_daemon(file: str, *options: str) -> None:
    """Fork twice around a new session, as daemons do, and go on without a terminal."""
    if "again" not in options:
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(silence, descriptor)
    if "ignore" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "clear" in options:
        os.execve(sys.executable, [sys.executable, "-S", __file__, file, "again"], {})
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.close(descriptor)
    signal.pause()


if __name__ == "__main__":
    run_daemon(*sys.argv[1:])
