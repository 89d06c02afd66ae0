"""`herdbeat up --demo`: a fleet of its own, the endpoints it calls, and what to try while it runs."""

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from herdbeat.bootstrap.config import find_holder_pid
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.parser import ParsedArgs
from herdbeat.demo.fleet import demo_folder, open_socket, write_fleet
from herdbeat.errors import Conflict, HerdbeatError, StoreUnavailable, UsageError

_TOUR_COMMANDS = (
    ("herdbeat status", "What is running, late and next"),
    ("herdbeat explain checkout", "Why is its next run then? It often fails"),
    ("herdbeat beats report", "Which beats were skipped, and why?"),
    ("herdbeat beats --since 1m", "Every due time and its outcome"),
    ("herdbeat run heartbeat --wait", "Run it now and show its output"),
    ("herdbeat pause queue-depth --for 1m", "Pause it, then see: herdbeat changes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFleet:
    """The demo's fleet file, the socket of its endpoints, and the command that starts it again."""

    file: Path
    socket: socket.socket
    restart_command: str
    """Works in the folder of the demo, where its other commands are tried."""

    def tour_lines(self, context: Context) -> Iterator[str]:
        """Yield what to try in another terminal, which may be in any folder and without this environment."""
        yield "Try these commands in another terminal:"
        activate = _activate_script()
        if activate is not None:
            yield f"  source {shlex.quote(str(activate))}"
        yield f"  cd {shlex.quote(str(self.file.parent.absolute()))}"
        yield from context.terminal.format_table(_TOUR_COMMANDS, indent="  ")
        yield f"Kill it (kill -9 {os.getpid()}) and restart it there, to see how the gap is reported:"
        yield f"  {self.restart_command}"
        yield ""


def open_demo(args: ParsedArgs, context: Context) -> DemoFleet | None:
    """Return the demo; None without --demo. Raises Conflict if it runs already: its file must not change meanwhile."""
    if not args.has(flags.DEMO):
        if args.value(flags.STATE_DIR) is not None:
            raise UsageError(
                "--state-dir requires --demo.", hint="To move the ledger of a fleet, set store: in its file."
            )
        return None
    if args.value(flags.CONFIG) is not None:
        raise UsageError("--demo and --config cannot be combined.", hint="Use one of them.")
    wanted = args.value(flags.STATE_DIR)
    folder = context.folder / wanted if wanted else demo_folder(context.environ)
    try:
        return _prepare_demo(folder, "herdbeat up --demo --state-dir ." if wanted else "herdbeat up --demo")
    except (OSError, StoreUnavailable) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        why = cause.strerror if isinstance(cause, OSError) else str(error)
        hint = "Choose a writable folder: --state-dir DIR"
        raise HerdbeatError(f"The demo cannot use the folder {folder}: {why}.", hint=hint) from error


def _prepare_demo(folder: Path, restart_command: str) -> DemoFleet:
    pid = find_holder_pid(folder / ".herdbeat")
    if pid is not None:
        hint = f"Use it (cd {folder}), stop it (herdbeat down), or start another one with --state-dir DIR."
        raise Conflict(f"The demo is already running in {folder} (pid {pid}).", hint=hint)
    opened = open_socket()
    file = write_fleet(folder, opened.getsockname()[1])
    return DemoFleet(file=file, socket=opened, restart_command=restart_command)


def _activate_script() -> Path | None:
    """Return what puts this `herdbeat` on the PATH of another terminal. None where it is installed for the user."""
    script = Path(sys.prefix) / "bin" / "activate"
    return script if Path(sys.argv[0]).parent.resolve() == script.parent.resolve() and script.exists() else None
