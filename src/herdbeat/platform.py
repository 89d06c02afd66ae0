"""The process and its machine: what differs between Linux and macOS (clocks, timers, waiting for a process, the process
table, control groups), and how Python collects garbage in a node.

Only this module uses what one system has and another lacks; each function says what it does without it. The reaper
process imports it, so it imports only cheap parts of the standard library.
"""

import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

PROC = "/proc"
HAS_PROC = os.path.exists(f"{PROC}/self/stat")  # noqa: PTH110  importing pathlib would double the reaper's start time
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On macOS, CLOCK_MONOTONIC itself advances while the machine sleeps."""

_AWAKE_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)
"""CLOCK_UPTIME_RAW is the clock of macOS that stands still in sleep, as CLOCK_MONOTONIC does on Linux."""

_TIMERFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
"""TFD_NONBLOCK and TFD_CLOEXEC have these values on every Linux."""

_P_PID, _WEXITED = 1, 4
_WNOWAIT = 0x20 if sys.platform == "darwin" else 0x01000000
_SIGINFO_BYTES = 256
"""More than any system writes."""

_PS_TIMEOUT_S = 10.0

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl+C, and what a supervisor sends."""

_TERMINAL_SIGNALS = {signal.SIGTTIN, signal.SIGTTOU}
"""The terminal treats a process that ignores these differently from one that handles them."""


# --- clocks and timers


def boot_time() -> float:
    """Return the seconds since boot, by a clock that all processes share and that does not stop in sleep."""
    return time.clock_gettime(_BOOT_CLOCK)


def awake_time() -> float:
    """Return the seconds for which the machine has been awake. It stands still while the machine is suspended."""
    return time.clock_gettime(_AWAKE_CLOCK)


def start_timerfd(seconds: float) -> int | None:
    """Return a file that becomes readable then; None where there is no timerfd, or no more files."""
    libc = load_libc()
    if not hasattr(libc, "timerfd_create"):
        return None
    fd: int = libc.timerfd_create(time.CLOCK_MONOTONIC, _TIMERFD_FLAGS)
    if fd < 0:
        return None  # no more file descriptors: late is better than never
    from ctypes import c_long  # noqa: PLC0415  loaded already

    whole_seconds = int(seconds)
    # struct itimerspec: the interval (none), and the time from now, each in seconds and nanoseconds
    spec = (c_long * 4)(0, 0, whole_seconds, int((seconds - whole_seconds) * 1e9))
    libc.timerfd_settime(fd, 0, spec, None)
    return fd


def yield_to_others(niceness: int) -> None:
    """Let this process give way to others. On Linux it also interrupts none of them when it has something to do."""
    os.nice(niceness)
    if sys.platform != "darwin" and hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # Linux on a desktop weighs sessions against each other, and niceness only inside of one.
    if os.getsid(0) == os.getpid():
        with suppress(OSError), open(f"{PROC}/self/autogroup", "wb", buffering=0) as session:  # noqa: PTH123
            session.write(str(niceness).encode())


@cache
def load_libc() -> Any:
    """Return the C library. Python has `timerfd_create`, and `waitid` on macOS, only from 3.13 on."""
    import ctypes  # noqa: PLC0415  not needed by the reaper process

    return ctypes.CDLL(None, use_errno=True)


# --- signals of programs that are started


def _noop(number: int, frame: object) -> None:
    """A handler, unlike "ignore", is not inherited: the program that is started has the default again."""


def list_inherited_ignores() -> list[int]:
    """Return the signals that this process ignores and that a program which it starts would ignore, too.

    Popen itself restores SIGPIPE and SIGXFSZ, which Python ignores.
    """
    candidates = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    return [number for number in candidates if signal.getsignal(number) is signal.SIG_IGN]


def _restore_default_signals() -> None:
    for number in list_inherited_ignores():
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def default_signals() -> Iterator[Callable[[], None] | None]:
    """A program that is started in the block begins with an empty signal mask and nothing ignored.

    `nohup`, background jobs and supervisors start their programs with signals ignored or blocked, and what a process
    ignores, its children ignore: an agent could not be interrupted. Where possible, "ignore" is replaced by a handler
    that does nothing. Otherwise the block gets a function for Popen's `preexec_fn`, which is slower.
    """
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            for number in list_inherited_ignores():
                if number not in _TERMINAL_SIGNALS:
                    signal.signal(number, _noop)
        yield _restore_default_signals if list_inherited_ignores() else None
    finally:
        if blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def handle_stop_signals(
    loop: "AbstractEventLoop", callback: Callable[[], object], signals: Collection[signal.Signals] = STOP_SIGNALS
) -> None:
    """Call it for these signals, also if this process began with them ignored or blocked. In the main thread only."""
    for number in signals:
        loop.add_signal_handler(number, callback)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


# --- waiting for a process


def open_pidfd(pid: int) -> int | None:
    """Return a file that becomes readable when the process ends; None on a system without. Raises OSError."""
    pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    return None if pidfd_open is None else pidfd_open(pid)


def wait_without_reaping(pid: int) -> None:
    """Block until a child has ended, and leave it to be reaped: until then its pid is not reused."""
    load_libc().waitid(_P_PID, pid, bytes(_SIGINFO_BYTES), _WEXITED | _WNOWAIT)


# --- the process table


class ProcessInfo(NamedTuple):
    """A row of the process table. Pids are reused; the start time distinguishes two processes with one pid."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    is_running: bool


def read_process(pid: int) -> ProcessInfo | None:
    """Return the process; None if there is none with that pid."""
    if HAS_PROC:
        return _read_stat(pid)
    return next(_query_ps("-p", str(pid)), None) if has_process_table() else _probe(pid)


class ProcessOrigin(NamedTuple):
    """Where and when a process began. Pids can be compared only between processes that agree on all but the start."""

    boot_id: str
    namespace: str
    start: int


def read_own_origin() -> ProcessOrigin | None:
    """Return the origin of this process; None where the system does not show it, or /proc shows other pids than ours.

    Start times are shifted between time namespaces, and another user's processes may be hidden: both belong to the
    namespace.
    """
    try:
        boot_id = _read_file(f"{PROC}/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
        # In a new pid namespace without a /proc of its own, /proc shows the pids outside.
        is_ours = os.readlink(f"{PROC}/self") == str(os.getpid())  # noqa: PTH115
        spaces = [os.readlink(f"{PROC}/self/ns/{kind}") for kind in ("pid", "time", "user")]  # noqa: PTH115
    except OSError:
        return None
    own = _read_stat(os.getpid()) if is_ours else None
    if own is None or not boot_id:
        return None
    return ProcessOrigin(boot_id, " ".join([*spaces, f"uid:{os.getuid()}"]), own.start)


def has_ended(pid: int, start: int) -> bool:
    """True if the process that began then has certainly ended: no such pid, a zombie, or another process with its pid.

    For processes of the own user and namespaces. When in doubt, it is taken to be alive.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    found = read_process(pid)
    return found is not None and (not found.is_running or not is_same_start(found.start, start))


def is_same_start(one: int, other: int) -> bool:
    """True if both are the start of one process. `ps` may round the second differently from call to call."""
    return abs(one - other) <= (0 if HAS_PROC else 1)


def has_process_table() -> bool:
    """False on a system that has neither /proc nor `ps`: processes with the same pid cannot be distinguished."""
    return HAS_PROC or _find_ps() is not None


def list_processes() -> list[ProcessInfo]:
    """Return every process; an empty list where neither /proc nor `ps` is."""
    if HAS_PROC:
        return [process for pid in _list_pids() if (process := _read_stat(pid)) is not None]
    return list(_query_ps("-A"))


def list_children(pid: int) -> list[int]:
    """Return the pids of the processes that a process has started, as far as they live. Without the whole table."""
    with suppress(OSError):  # it has ended, or this kernel does not list them
        threads = os.listdir(f"{PROC}/{pid}/task")  # noqa: PTH208
        return [int(each) for thread in threads for each in _read_file(f"{PROC}/{pid}/task/{thread}/children").split()]
    return [process.pid for process in list_processes() if process.parent == pid]


def iter_environments() -> Iterator[tuple[int, bytes]]:
    """Yield the environment of every process of this user: variables, each followed by a NUL.

    With `ps`, a value that holds spaces is cut there, and words of the command line come first.
    """
    if HAS_PROC:
        for pid in _list_pids():
            with suppress(OSError):  # it has ended, or belongs to another user
                yield pid, _read_file(f"{PROC}/{pid}/environ")
        return
    options = ("-A", "-E", "-ww", "-o", "pid=,command=") if sys.platform == "darwin" else ("axeww", "-o", "pid=,args=")
    for line in _run_ps(*options):
        pid_text, _, words = line.strip().partition(b" ")
        yield int(pid_text), words.replace(b" ", b"\0")


def read_command_line(pid: int) -> list[bytes]:
    """Return the words of the command that a process runs; empty if it cannot be read, or without /proc."""
    with suppress(OSError):
        return _read_file(f"{PROC}/{pid}/cmdline").split(b"\0")
    return []


def read_working_directory(pid: int) -> str | None:
    """Return the folder of a process; None if it cannot be read, or without /proc."""
    with suppress(OSError):
        return os.readlink(f"{PROC}/{pid}/cwd")  # noqa: PTH115
    return None


def _list_pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208
    return []


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def _read_stat(pid: int) -> ProcessInfo | None:
    try:
        # The name of the program may contain spaces and parentheses: the other fields begin after the last ")".
        fields = _read_file(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) <= 19:
        return None
    parent, group, session = map(int, fields[1:4])
    return ProcessInfo(pid, parent, group, session, int(fields[19]), fields[0] not in (b"Z", b"X"))


def _probe(pid: int) -> ProcessInfo | None:
    try:
        return ProcessInfo(pid, 0, os.getpgid(pid), os.getsid(pid), 0, is_running=True)
    except OSError:
        return None


def _query_ps(*selection: str) -> Iterator[ProcessInfo]:
    for line in _run_ps(*selection, "-o", "pid=,ppid=,pgid=,stat=,lstart="):
        pid, parent, group, state, *start = line.decode("ascii", "replace").split()
        try:
            # The column `sess` is an address on macOS.
            session = os.getsid(int(pid))
        except OSError:
            session = 0
        yield ProcessInfo(
            int(pid), int(parent), int(group), session, _parse_start(" ".join(start)), not state.startswith(("Z", "X"))
        )


@cache
def _find_ps() -> str | None:
    return next((path for path in ("/bin/ps", "/usr/bin/ps") if os.access(path, os.X_OK)), None)


def _run_ps(*options: str) -> list[bytes]:
    import subprocess  # noqa: PLC0415  not needed where /proc is

    program = _find_ps()
    if program is None:
        return []
    try:
        with default_signals() as preexec_fn:
            done = subprocess.run(  # noqa: S603  a fixed question to a program of the system
                [program, *options],
                env={"LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PS_TIMEOUT_S,
                check=False,
                preexec_fn=preexec_fn,
            )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


def _parse_start(text: str) -> int:
    from calendar import timegm  # noqa: PLC0415  not needed where /proc is

    return timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y"))


# --- a mark that programs inherit

_MARK_LIMIT: int | None = getattr(resource, "RLIMIT_RTTIME", None)
"""The processor time that a real-time program may use at a stretch: other programs do not have it, and none sets it."""

MARK_BASE = 1 << 62
"""Every mark is at least this large. As a limit, in microseconds, it is 146,000 years."""


@contextmanager
def inherited_mark(mark: int) -> Iterator[None]:
    """What is started in the block has this mark from its first instruction on, and so has everything that it starts.

    A program loses its environment, its session and its parent in three calls, and in the first millisecond of its life
    if it likes, but keeps its resource limits: the mark is one. It needs no permission. Without effect on systems
    without such a limit, and where the operator has set it.
    """
    if _MARK_LIMIT is None:
        yield
        return
    soft, hard = resource.getrlimit(_MARK_LIMIT)
    is_free = hard == resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft >= MARK_BASE)
    if is_free:
        resource.setrlimit(_MARK_LIMIT, (mark, hard))
    try:
        yield
    finally:
        if is_free:
            resource.setrlimit(_MARK_LIMIT, (soft, hard))


def read_inherited_mark(pid: int) -> int | None:
    """Return the mark of a process of this user; None if it has none, or has ended."""
    if _MARK_LIMIT is None:
        return None
    try:
        soft: int = getattr(resource, "prlimit")(pid, _MARK_LIMIT)[0]  # noqa: B009  typed for Linux only
    except (OSError, AttributeError):
        return None
    return soft if soft >= MARK_BASE else None


# --- control groups


class ControlGroup(NamedTuple):
    """A group of processes that no process can leave by itself: cgroup v2 of Linux."""

    folder: str

    @classmethod
    def create(cls, name: str) -> "ControlGroup | None":
        """Create a group inside ours; None where this user may not."""
        parent = find_own_control_group()
        if parent is None:
            return None
        group = cls(f"{parent}/{name}")
        try:
            os.mkdir(group.folder)  # noqa: PTH102
        except FileExistsError:
            return group  # of the precheck of the same run
        except OSError:
            return None
        return group

    @classmethod
    def find_all(cls, prefix: str) -> "list[ControlGroup]":
        """Return the groups inside ours whose names begin so."""
        parent = find_own_control_group()
        if parent is None:
            return []
        with suppress(OSError):
            return [cls(f"{parent}/{name}") for name in os.listdir(parent) if name.startswith(prefix)]  # noqa: PTH208
        return []

    @property
    def name(self) -> str:
        return self.folder.rpartition("/")[2]

    def add(self, pid: int) -> None:
        """Move a process into the group. What it starts from now on is in the group, too."""
        self._write("cgroup.procs", str(pid))

    def kill(self) -> None:
        """Kill every process in the group at once, also one that is just being started. Linux before 5.14 cannot."""
        self._write("cgroup.kill", "1")

    def list_pids(self) -> list[int]:
        with suppress(OSError):
            return [int(pid) for pid in _read_file(f"{self.folder}/cgroup.procs").split()]
        return []

    def remove(self) -> bool:
        """Remove the group, unless a process is in it."""
        try:
            os.rmdir(self.folder)  # noqa: PTH106
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _write(self, file: str, text: str) -> None:
        with suppress(OSError), open(f"{self.folder}/{file}", "wb", buffering=0) as target:  # noqa: PTH123
            target.write(text.encode())


@cache
def find_own_control_group() -> str | None:
    """Return the folder of our own control group if we may make others in it; else None.

    That is the case if the group was delegated to us, for example by `Delegate=yes` in a systemd unit, or is the root
    of all groups that we see, as in a container. Anywhere else systemd does not expect groups of others.
    """
    try:
        path = next(line[3:] for line in _read_file(f"{PROC}/self/cgroup").splitlines() if line.startswith(b"0::"))
        mounts = [line.split() for line in _read_file(f"{PROC}/self/mountinfo").splitlines()]
        mount = next(words[4] for words in mounts if b"cgroup2" in words[words.index(b"-") :][1:2])
    except (OSError, StopIteration):
        return None
    folder = os.fsdecode(mount + path).rstrip("/")
    is_writable = os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)
    return folder if is_writable and (path == b"/" or _is_delegated(folder)) else None


def _is_delegated(folder: str) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError, AttributeError):  # the kernel has no such attribute, or the system none at all
            return bool(getattr(os, "getxattr")(folder, name) == b"1")  # noqa: B009  typed for Linux only
    return False


# ── the interpreter ──

GC_THRESHOLD_OBJECTS = 50_000
"""New objects between two collections of the young generation: a few MB."""

SWITCH_INTERVAL_S = 0.0005
"""For so long a thread keeps Python's lock while another one waits for it. The thread that writes needs it after each
statement. With the default of 5 ms it waited nearly as long each time, and a beat of a burst took a tenth longer."""


def tune_interpreter() -> None:
    """Prepare the process of a node for many beats. A program that embeds a fleet keeps its own settings.

    Threads take shorter turns. Garbage is collected less often, and never what exists by now: modules and tables stay
    to the end. No object on the path of a beat is part of a cycle, so there is next to nothing to find; looking every
    700 objects took a tenth of the time of a burst.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD_OBJECTS, 20, 20)
