"""The server as a process of its own: `up` and `serve` bind its socket, start it, ping it and start it again.

The parent keeps the listening socket, so no connection is refused while the server restarts. The child reads its spec
from its standard input and ends when that closes; it answers each ping on its standard output. Whatever happens to the
child, the parent only loses a process: no beat waits for it.
"""

import asyncio
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from herdbeat.bootstrap.server_spec import ServerSpec
from herdbeat.domain.fleet import DEFAULT_SERVER_PORT, ServerSettings
from herdbeat.errors import Conflict, UsageError
from herdbeat.platform import HAS_PROC, PROC, default_signals, read_command_line, read_process

log = logging.getLogger(__name__)

PING_INTERVAL_S = 5.0
MAX_SILENT_PINGS = 3
START_TIMEOUT_S = 120.0
"""Long: a start takes two seconds of processor time at a low priority, and on a busy machine that was half a minute.
A server that was killed for it started again, and was killed again."""
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
STOP_TIMEOUT_S = 5.0
MAX_PORTS_TRIED = 20
ORPHAN_TIMEOUT_S = 10.0
ORPHAN_POLL_S = 0.05
SERVER_MODULE = "herdbeat.web"
MAX_PORT = 65_535
BACKLOG = 1024

READY = b"ready\n"
PING = b"ping\n"
PONG = b"pong\n"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def bind_server_socket(
    settings: ServerSettings, port: int | None = None, *, has_callers: bool = False
) -> socket.socket:
    """Return a listening socket. Raises Conflict, which names the holder and a free port, if the port is taken.

    The default port, if it was not requested, gives way to the next free one. A port that others know must not move:
    that of a public address, or of webhooks (`has_callers`). The server of a killed node holds its port until it has
    ended.
    """
    wanted = settings.port if port is None else port
    try:
        return _listen_after_orphan(settings.host, wanted)
    except PermissionError as error:
        hint = "Use a port above 1023: --port 3232"
        raise Conflict(f"Port {wanted} needs more permissions than this user has.", hint=hint) from error
    except OSError as error:
        if error.errno not in _TAKEN_ERRNOS:
            hint = "Correct server.host. The default is 127.0.0.1."
            raise UsageError(f"{settings.host}:{wanted} cannot be used: {error.strerror}.", hint=hint) from error
        taken = error
    free = _listen_above(settings.host, wanted)
    is_known = bool(settings.public_url) or has_callers
    if free is not None and port is None and wanted == DEFAULT_SERVER_PORT and not is_known:
        return free
    raise _build_port_taken_error(wanted, free) from taken


def require_certificate(settings: ServerSettings, home: str) -> None:
    """Raises UsageError if the files for TLS cannot be used: the server would end again and again without a word."""
    if not settings.tls_cert and not settings.tls_key:
        return
    import ssl  # noqa: PLC0415 -- most fleets have no certificate

    cert, key = (Path(home, each) if each else None for each in (settings.tls_cert, settings.tls_key))
    hint = "Name two PEM files that belong together. Paths are relative to the fleet file."
    if cert is None:
        raise UsageError("server.tls_key has no server.tls_cert.", hint=hint)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_refuse_password)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        missing = next((each for each in (cert, key) if each is not None and not each.is_file()), None)
        reason = f"there is no file {missing}" if missing is not None else getattr(error, "reason", None) or error
        raise UsageError(f"server.tls_cert and server.tls_key cannot be used: {reason}.", hint=hint) from error


def _refuse_password() -> str:
    raise ValueError("the key has a password")  # OpenSSL would ask for it on the terminal


def _listen_above(host: str, port: int) -> socket.socket | None:
    for number in range(port + 1, min(port + MAX_PORTS_TRIED, MAX_PORT + 1)):
        try:
            return _listen(host, number)
        except OSError:
            continue
    return None


def _build_port_taken_error(port: int, free: socket.socket | None) -> Conflict:
    offer = "Use another port with --port"
    if free is not None:
        with free:
            number = free.getsockname()[1]
        offer = f"Port {number} is free: use --port {number}"
    message = f"Port {port} is in use{describe_holder(port)}."
    return Conflict(message, hint=f"{offer}, or run without the server: --no-server")


_TAKEN_ERRNOS = frozenset({98, 48})
"""EADDRINUSE of Linux and of macOS."""


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _listen_after_orphan(host: str, port: int) -> socket.socket:
    """Listen on a port, which the server of a killed node gives up in a moment. Raises OSError."""
    until = time.monotonic() + ORPHAN_TIMEOUT_S
    while True:
        try:
            return _listen(host, port)
        except OSError as error:
            if error.errno not in _TAKEN_ERRNOS or time.monotonic() > until or not _is_held_by_orphan(port):
                raise
        time.sleep(ORPHAN_POLL_S)


def _is_held_by_orphan(port: int) -> bool:
    """True if a server of ours listens there whose node has died. It ends as soon as it notices that.

    Also if no process listens there any more: it has ended since the attempt.
    """
    inode = _find_listener_inode(port)
    if inode is None:
        return HAS_PROC
    holder = _find_holder(inode)
    if holder is not None and _is_orphaned_server(holder):
        return True
    return _find_listener_inode(port) != inode  # it has ended while it was looked for


def _is_orphaned_server(pid: int) -> bool:
    """True also for a process that is ending: it has no command line any more, and for a moment still its sockets."""
    process, command = read_process(pid), read_command_line(pid)
    if not any(command):
        return True
    if process is None or SERVER_MODULE.encode() not in command:
        return False
    words = read_command_line(process.parent)
    return not any(os.path.basename(word).partition(b".")[0] == b"herdbeat" for word in words)  # noqa: PTH119  bytes


def describe_holder(port: int) -> str:
    """Return ` by NAME (pid N)` for the process that listens on a port; empty if that cannot be found out."""
    inode = _find_listener_inode(port)
    pid = None if inode is None else _find_holder(inode)
    try:
        return "" if pid is None else f" by {Path(PROC, str(pid), 'comm').read_text().strip()} (pid {pid})"
    except OSError:  # it has just ended
        return ""


def _find_holder(inode: str) -> int | None:
    """Return the process that has a socket; None if it is another user's, or has ended."""
    for folder in Path(PROC).glob("[0-9]*"):
        with suppress(OSError):
            if any(link.readlink().as_posix() == f"socket:[{inode}]" for link in (folder / "fd").iterdir()):
                return int(folder.name)
    return None


def _find_listener_inode(port: int) -> str | None:
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(PROC, "net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                return fields[9]
    return None


def format_server_url(settings: ServerSettings, port: int) -> str:
    """Return the address that a person opens."""
    if settings.public_url:
        return settings.public_url
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    host = "127.0.0.1" if host in ("0.0.0.0", "[::]") else host  # noqa: S104 -- compared, not bound
    scheme = "https" if settings.tls_cert else "http"
    return f"{scheme}://{host}:{port}{settings.base_path}"


def complete_server_spec(spec: ServerSpec, listener: socket.socket) -> ServerSpec:
    """Add what belongs to this start: the socket, the secret of sessions, and the code of the login link."""
    return replace(
        spec,
        socket_fd=listener.fileno(),
        port=listener.getsockname()[1],
        secret=secrets.token_hex(32),
        login_code=secrets.token_urlsafe(24),
    )


class ServerSupervisor:
    """Keeps one server process running until it is cancelled."""

    def __init__(self, spec: ServerSpec, on_ready: Callable[[], None] = lambda: None) -> None:
        self._spec = spec
        self._on_ready = on_ready
        self.pid: int | None = None
        self.restarts = 0

    async def run(self) -> None:
        """Start the server again whenever it ends or hangs, after a pause that grows while it does not get up."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                process = await self._start()
            except OSError as error:  # no memory, no descriptors: the fleet continues without a server
                log.warning("server cannot be started error=%s", error)
                was_ready = False
            else:
                was_ready = await self._run_once(process)
            backoff_s = FIRST_BACKOFF_S if was_ready else min(backoff_s * 2, MAX_BACKOFF_S)
            self.restarts += 1
            log.warning("server restarts in_s=%g schedules are not affected", backoff_s)
            await asyncio.sleep(backoff_s)

    async def _start(self) -> asyncio.subprocess.Process:
        with default_signals() as preexec_fn:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                SERVER_MODULE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(self._spec.socket_fd,),
                start_new_session=True,  # Ctrl+C is for us: we close its pipe when the fleet has stopped
                preexec_fn=preexec_fn,
            )

    async def _run_once(self, process: asyncio.subprocess.Process) -> bool:
        """Return when the process has ended, and whether it had been ready."""
        self.pid = process.pid
        try:
            return await self._serve_until_exit(process)
        finally:
            self.pid = None
            await _end_process(process)
            log.info("server ended pid=%s status=%s", process.pid, process.returncode)

    async def _serve_until_exit(self, process: asyncio.subprocess.Process) -> bool:
        assert process.stdin is not None
        assert process.stdout is not None
        was_ready = False
        try:
            process.stdin.write(self._spec.to_line().encode() + b"\n")
            async with asyncio.timeout(START_TIMEOUT_S):
                was_ready = await process.stdout.readline() == READY
            if was_ready:
                self._on_ready()
                await _ping_until_silent(process)
        except TimeoutError:
            log.warning("server does not answer pid=%s it is killed", process.pid)
            process.kill()
        except (ConnectionError, BrokenPipeError):
            pass  # it has ended: the exit status says more
        return was_ready


async def _ping_until_silent(process: asyncio.subprocess.Process) -> None:
    """Return when the process has closed its output. Raises TimeoutError after too many pings without an answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    silent = 0
    while True:
        await asyncio.sleep(0 if silent else PING_INTERVAL_S)
        process.stdin.write(PING)
        try:
            async with asyncio.timeout(PING_INTERVAL_S):
                if not await process.stdout.readline():
                    return
            silent = 0
        except TimeoutError:
            silent += 1
            if silent >= MAX_SILENT_PINGS:
                raise


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """Close its pipe, which ends it; kill it if it does not end in time."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S if process.returncode is None else None):
            await process.wait()
    except TimeoutError:
        # It may have ended meanwhile, and asyncio not know it yet. Raised from here, that error would take the place of
        # the cancellation that brought us here, and the supervisor would start another server instead of ending.
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()
