"""The entry point: understand the words, call the command, turn every ending into an exit status."""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from herdbeat import __version__
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output, render
from herdbeat.cli.output.terminal import Terminal, open_terminal, standard_streams
from herdbeat.cli.parser import Invocation, ParsedArgs, parse_args
from herdbeat.cli.spec import HELP, JSON, VERSION
from herdbeat.clock import Clock, SystemClock
from herdbeat.errors import HerdbeatError

_OUTPUT_ERRNOS = frozenset({errno.EPIPE, errno.ENOSPC})
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
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
    real_out, real_err = standard_streams()
    environ = os.environ if environ is None else environ
    argv = sys.argv[1:] if argv is None else argv
    terminal = open_terminal(environ, out or real_out, err or real_err, [word.lstrip("-") for word in argv])
    context = Context(
        terminal=terminal,
        clock=clock or SystemClock(),
        environ=environ,
        folder=folder or _current_folder(),
        stdin=stdin or sys.stdin,
    )
    try:
        status = _run_safely(argv, context)
        terminal.out.flush()
    except BrokenPipeError:
        _redirect_to_devnull(terminal.out)
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.errno not in _OUTPUT_ERRNOS:
            raise  # somebody debugs
        _redirect_to_devnull(terminal.out)
        terminal.error(f"error: The output cannot be written: {error.strerror}.")
        return EXIT_FAILED
    return status


def _current_folder() -> Path:
    """The current folder; the root if it was deleted under us, for nothing can be found in it anyway."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def _run_safely(argv: Sequence[str], context: Context) -> int:
    """Whatever happens inside ends here, as words and a status; only what ails the output itself goes on."""
    try:
        with _explain_permission_errors():
            return _run_invocation(parse_args(argv), context)
    except HerdbeatError as error:
        _import_function("herdbeat.cli.output.errors:show_error")(
            context.terminal, error, as_json=JSON.names[0] in argv
        )
        return error.exit_status
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_ERRNOS:
            raise
        return _report_crash(context, error)


@contextmanager
def _explain_permission_errors() -> Iterator[None]:
    """Somebody else's folder is no bug of ours: one `sudo herdbeat up`, and every command may stumble over it."""
    try:
        yield
    except PermissionError as error:
        hint = "Let this user read and write it, or run herdbeat as the user whose it is."
        raise HerdbeatError(f"{error.filename}: {error.strerror}.", hint=hint) from error


def _run_invocation(request: Invocation, context: Context) -> int:
    args = request.args
    if request.command is None or args.has(HELP):
        return _show_help_or_version(request, context.terminal)
    terminal = open_terminal(context.environ, context.terminal.out, context.terminal.err, tuple(args.switches))
    run: Callable[[ParsedArgs, Context], Output | int] = _import_function(request.command.run)
    with ExitStack() as resources:
        result = run(args, replace(context, terminal=terminal, resources=resources))
        return result if isinstance(result, int) else render(result, args, terminal)


def _show_help_or_version(request: Invocation, terminal: Terminal) -> int:
    """Version and help: what needs no command."""
    pages = "herdbeat.cli.help"
    if request.command is not None:
        _import_function(f"{pages}:show_command")(terminal, request.command)
    elif request.args.has(VERSION):
        terminal.print(f"herdbeat {__version__}")
    elif request.group:
        _import_function(f"{pages}:show_group")(terminal, request.group)
    else:
        _import_function(f"{pages}:show_overview")(terminal)
    return 0


def _import_function(name: str) -> Callable[..., Any]:
    """Import `module:function` now: nothing is loaded before it is known to be needed."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded


def _report_crash(context: Context, error: Exception) -> int:
    """A bug of ours: one calm line instead of a traceback, which is there for who asks."""
    if context.environ.get("HERDBEAT_DEBUG"):
        raise error
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    context.terminal.error(f"error: herdbeat itself failed ({what}).")
    context.terminal.error("  Please report it with HERDBEAT_DEBUG=1, which shows where (docs/reference/cli.md).")
    return EXIT_FAILED


def _redirect_to_devnull(stream: TextIO) -> None:
    """Let the interpreter flush into nothing at its end, else it complains about the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
