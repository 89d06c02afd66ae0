"""The entry point: understand the words, call the command, turn every ending into an exit status."""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TextIO

from herdbeat import __version__
from herdbeat.clock import Clock, SystemClock
from herdbeat.errors import HerdbeatError
from herdbeat.faces.cli.arguments import Given, Request, understand
from herdbeat.faces.cli.options import HELP, JSON, VERSION
from herdbeat.faces.cli.terminal import Terminal, open_terminal, real_streams
from herdbeat.faces.cli.world import World

_ABOUT_OUTPUT = frozenset({errno.EPIPE, errno.ENOSPC})
FAILED = 1
INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports for a program whose reader has left (128 + SIGPIPE)."""


def main(
    argv: Sequence[str] | None = None,
    *,
    out: TextIO | None = None,
    err: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    folder: Path | None = None,
    stdin: TextIO | None = None,
) -> int:
    """Run one command line and return its exit status. Tests hand in another world; nobody else needs to."""
    real_out, real_err = real_streams()
    environ = os.environ if environ is None else environ
    argv = sys.argv[1:] if argv is None else argv
    terminal = open_terminal(environ, out or real_out, err or real_err, [word.lstrip("-") for word in argv])
    world = World(
        terminal=terminal,
        clock=clock or SystemClock(),
        environ=environ,
        folder=folder or _here(),
        stdin=stdin or sys.stdin,
    )
    try:
        status = _contained(argv, world)
        terminal.out.flush()
    except BrokenPipeError:
        _silence(terminal.out)
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in _ABOUT_OUTPUT:
            raise  # somebody debugs
        _silence(terminal.out)
        terminal.complain(f"error: The output cannot be written: {error.strerror}.")
        return FAILED
    return status


def _here() -> Path:
    """The current folder; the root if it was deleted under us, for nothing can be found in it anyway."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def _contained(argv: Sequence[str], world: World) -> int:
    """Whatever happens inside ends here, as words and a status; only what ails the output itself goes on."""
    try:
        with _permissions_told():
            return _dispatch(understand(argv), world)
    except HerdbeatError as error:
        _load("herdbeat.faces.cli.problems:show_error")(world.terminal, error, as_json=JSON.names[0] in argv)
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _ABOUT_OUTPUT:
            raise
        return _confess(world, error)


@contextmanager
def _permissions_told() -> Iterator[None]:
    """Somebody else's folder is no bug of ours: one `sudo herdbeat up`, and every command may stumble over it."""
    try:
        yield
    except PermissionError as error:
        hint = "Let this user read and write it, or run herdbeat as the user whose it is."
        raise HerdbeatError(f"{error.filename}: {error.strerror}.", hint=hint) from error


def _dispatch(request: Request, world: World) -> int:
    given = request.given
    if request.command is None or given.has(HELP):
        return _answer_directly(request, world.terminal)
    terminal = open_terminal(world.environ, world.terminal.out, world.terminal.err, tuple(given.switches))
    run: Callable[[Given, World], int] = _load(request.command.run)
    return run(given, replace(world, terminal=terminal))


def _answer_directly(request: Request, terminal: Terminal) -> int:
    """Version and help: what needs no command."""
    pages = "herdbeat.faces.cli.help"
    if request.command is not None:
        _load(f"{pages}:show_command")(terminal, request.command)
    elif request.given.has(VERSION):
        terminal.say(f"herdbeat {__version__}")
    elif request.group:
        _load(f"{pages}:show_group")(terminal, request.group)
    else:
        _load(f"{pages}:show_overview")(terminal)
    return 0


def _load(name: str) -> Callable[..., int]:
    """Import `module:function` now: nothing is loaded before it is known to be needed."""
    module, _, function = name.partition(":")
    loaded: Callable[..., int] = getattr(import_module(module), function)
    return loaded


def _confess(world: World, error: Exception) -> int:
    """A bug of ours: one calm line instead of a traceback, which is there for who asks."""
    if world.environ.get("HERDBEAT_DEBUG"):
        raise error
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    world.terminal.complain(f"error: herdbeat itself failed ({what}).")
    world.terminal.complain("  Please report it with HERDBEAT_DEBUG=1, which shows where (docs/reference/cli.md).")
    return FAILED


def _silence(stream: TextIO) -> None:
    """Let the interpreter flush into nothing at its end, else it complains about the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
