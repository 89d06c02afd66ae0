"""`herdbeat up --demo`: a fleet of its own, what it needs beside it, and what to try while it runs."""

import os
import shlex
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from herdbeat.demo.endpoints import answering, open_socket
from herdbeat.demo.fleet import demo_folder, write_fleet
from herdbeat.errors import Conflict, HerdbeatError, StoreUnavailable, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.world import World
from herdbeat.store.lock import holder_of

_TRY = (
    ("herdbeat status", "what runs, what is late, what comes next"),
    ("herdbeat explain checkout", "why then? It breaks now and then"),
    ("herdbeat explain report", "why did it not run?"),
    ("herdbeat beats --since 1m", "every due instant, and what became of it"),
    ("herdbeat run heartbeat --wait", "by hand; its schedule keeps its times"),
    ("herdbeat pause queue-depth --for 1m", "and see who did it: herdbeat changes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The demo's own fleet file, the socket at which its endpoints will answer, and what starts it again."""

    file: Path
    socket: socket.socket
    again: str = "herdbeat up --demo"

    def beside(self) -> AbstractAsyncContextManager[None]:
        """What has to run beside the fleet."""
        return answering(self.socket)

    def tour(self, world: World) -> Iterator[str]:
        """What to try now, in another terminal. The folder is named once: commands find the fleet from there."""
        yield "Try in another terminal:"
        yield f"  cd {_named(self.file.parent, world)}"
        yield from world.terminal.lines(_TRY, indent="  ")
        yield f"Kill it: kill -9 {os.getpid()}. Then start it again, and the gap is accounted for:"
        yield f"  {self.again}"
        yield ""


def open_demo(given: Given, world: World) -> Demo | None:
    """None if nobody asked for it. Raises Conflict if it runs already: its fleet file must not change under it."""
    if not given.has(flags.DEMO):
        _refuse_state(given)
        return None
    if given.value(flags.CONFIG) is not None:
        raise UsageError("--demo brings its own fleet.", hint="Leave --config out, or --demo.")
    wanted = given.value(flags.STATE_DIR)
    folder = world.folder / wanted if wanted else demo_folder(world.environ)
    try:
        opened = _opened(folder)
        return replace(opened, again=f"{opened.again} --state-dir {shlex.quote(wanted)}") if wanted else opened
    except (OSError, StoreUnavailable) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        why = cause.strerror if isinstance(cause, OSError) else str(error)
        hint = "Choose a folder that you may write in: --state-dir DIR"
        raise HerdbeatError(f"The demo cannot live in {folder}: {why}.", hint=hint) from error


def _opened(folder: Path) -> Demo:
    pid = holder_of(folder / ".herdbeat")
    if pid is not None:
        raise Conflict(
            f"The demo is already running in {folder} (pid {pid}).",
            hint=f"Look at it (cd {folder}), stop it (herdbeat down), or start another with --state-dir DIR.",
        )
    opened = open_socket()
    return Demo(file=write_fleet(folder, opened.getsockname()[1]), socket=opened)


def _named(folder: Path, world: World) -> str:
    """As short as somebody who stands here may write it."""
    home = world.environ.get("HOME", "")
    if folder != world.folder and folder.is_relative_to(world.folder):
        return str(folder.relative_to(world.folder))
    return f"~/{folder.relative_to(home)}" if home and folder.is_relative_to(home) else str(folder)


def _refuse_state(given: Given) -> None:
    if given.value(flags.STATE_DIR) is not None:
        raise UsageError("--state-dir is for --demo.", hint="The ledger of a fleet is where its file says: store:")
