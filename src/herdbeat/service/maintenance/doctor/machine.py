"""Checks of the machine: its clock, its time zones, and other schedulers that run the same fleet."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zoneinfo import TZPATH

from herdbeat.platform import default_signals, list_processes, read_command_line, read_process, read_working_directory
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_warning

_TIMEDATECTL_TIMEOUT_S = 3.0
_HERDCTL_PID_FILE = Path(".herdctl/herdctl.pid")


def check_clock() -> DoctorFinding:
    zones = f"zone data {read_tzdata_version()}"
    synchronised = _is_synchronised()
    if synchronised is None:
        return report_ok("clock", f"{zones}; time synchronization cannot be checked on this system")
    if synchronised:
        return report_ok("clock", f"synchronized; {zones}")
    fix = "Enable time synchronization: timedatectl set-ntp true"
    return report_warning("clock", f"not synchronized; {zones}", fix)


def check_other_schedulers(home: Path, own_pid: int | None) -> Iterator[DoctorFinding]:
    """A second scheduler of the same fleet starts everything twice."""
    with suppress(OSError, ValueError):
        pid = int((home / _HERDCTL_PID_FILE).read_text(encoding="utf-8").strip())
        if _is_alive(pid):
            text = f"pid {pid} runs the same fleet: every schedule would run twice"
            yield report_warning("herdctl", text, "herdctl stop")
    for pid in _find_local_nodes(home):
        if pid not in (own_pid, os.getpid()) and not (own_pid and _are_related(pid, own_pid)):
            text = f"pid {pid} also runs in {home}, with another ledger"
            yield report_warning("herdbeat", text, f"Stop one of them: kill {pid}")


def read_tzdata_version() -> str:
    """Return the version of the system's zone files, which Python reads first, else of the tzdata package."""
    for folder in TZPATH:
        with suppress(OSError, IndexError, UnicodeDecodeError):
            return (Path(folder) / "tzdata.zi").read_text(encoding="utf-8").split(maxsplit=3)[2]
    try:
        return f"{version('tzdata')} (package)"
    except PackageNotFoundError:
        return "of an unknown version"


def _is_synchronised() -> bool | None:
    program = shutil.which("timedatectl")
    if program is None:
        return None
    try:
        with default_signals() as preexec_fn:
            done = subprocess.run(  # noqa: S603 - a fixed question to a program of the system
                [program, "show", "--property=NTPSynchronized", "--value"],
                capture_output=True,
                text=True,
                timeout=_TIMEDATECTL_TIMEOUT_S,
                check=False,
                preexec_fn=preexec_fn,
            )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _are_related(pid: int, own_pid: int) -> bool:
    """`timeout 1h herdbeat up` looks like a second herdbeat, and killing it would stop the first. So does a child that
    the scheduler has just forked: until it starts its program, it has the command line of its parent.
    """
    return pid in _iter_ancestors(own_pid) or own_pid in _iter_ancestors(pid)


def _iter_ancestors(pid: int) -> Iterator[int]:
    while pid > 1 and (process := read_process(pid)) is not None:
        pid = process.parent
        yield pid


def _find_local_nodes(home: Path) -> Iterator[int]:
    """Yield processes that look like `herdbeat up` in this folder; none on a system without /proc."""
    for process in list_processes():
        words = read_command_line(process.pid)
        is_up = any(b"herdbeat" in word for word in words[:3]) and b"up" in words
        if is_up and read_working_directory(process.pid) == str(home):
            yield process.pid
