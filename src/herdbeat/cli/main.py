"""The entry point: parse the arguments, call the command, print its output, return an exit status."""

import errno
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from herdbeat import __version__
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output, render
from herdbeat.cli.output.terminal import Terminal, open_terminal, redirect_to_devnull, standard_streams
from herdbeat.cli.parser import Invocation, ParsedArgs, parse_args
from herdbeat.cli.spec import HELP, JSON, SERVER, URL, VERSION
from herdbeat.clock import Clock, SystemClock
from herdbeat.errors import HerdbeatError, truncate_for_message

_OUTPUT_ERRNOS = frozenset({errno.EPIPE, errno.ENOSPC})
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""What a shell reports if the reader of a pipe is gone (128 + SIGPIPE)."""

_GC_THRESHOLD = 50_000
"""New objects between two collections. Most commands end before: looking at every 700 new objects, of which imports
make thousands and leave no garbage, took 7 % of the time of `list`."""

_MAX_SHOWN_PATH = 200
_PERMISSION_HINT = "Give this user read and write permission, or run herdbeat as the owner of the file."
"""After one `sudo herdbeat up` every command may need it."""

_FILE_HINTS = {
    errno.ENAMETOOLONG: "Use a shorter name.",
    errno.ELOOP: "Remove the symbolic links that lead to each other.",
    errno.ENOSPC: "Free some space on this disk.",
    errno.EDQUOT: "Free some space within the quota of this user.",
    errno.EFBIG: "Raise the limit for the size of files, see: ulimit -f",
    errno.EROFS: "Choose a folder that you can write to.",
}


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
    """Run one command line and return its exit status. Only tests pass streams, environment, clock and folder."""
    gc.set_threshold(_GC_THRESHOLD)
    real_out, real_err = standard_streams()
    environ = os.environ if environ is None else environ
    argv = sys.argv[1:] if argv is None else argv
    terminal = open_terminal(environ, out or real_out, err or real_err, [word.lstrip("-") for word in argv])
    clock, folder, stdin = clock or SystemClock(), folder or _current_folder(), stdin or sys.stdin
    context = Context(terminal=terminal, clock=clock, environ=environ, folder=folder, stdin=stdin)
    try:
        status = _run_safely(argv, context)
        terminal.out.flush()
    except BrokenPipeError:
        redirect_to_devnull(terminal.out)
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.errno not in _OUTPUT_ERRNOS:
            raise
        redirect_to_devnull(terminal.out)
        terminal.error(f"error: The output cannot be written: {error.strerror}.")
        return EXIT_FAILED
    return status


def _current_folder() -> Path:
    """Return the current folder; the root if it was deleted meanwhile, since nothing is found in either."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def _run_safely(argv: Sequence[str], context: Context) -> int:
    """Run the command; every error becomes a message and an exit status, except those of writing the output."""
    try:
        with _explain_file_errors():
            return _run_invocation(parse_args(argv), context)
    except HerdbeatError as error:
        if _logs_json(argv, context):
            _import_function("herdbeat.cli.log_setup:log_error")(context, error)
            return error.exit_status
        show_error = _import_function("herdbeat.cli.output.errors:show_error")
        show_error(context.terminal, error, as_json=JSON.names[0] in argv)
        return error.exit_status
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # one request of an adapter: a bug must end in a message, not in a traceback
        if isinstance(error, OSError) and error.errno in _OUTPUT_ERRNOS:
            raise
        if _logs_json(argv, context):
            _import_function("herdbeat.cli.log_setup:log_error")(context, error)
            return EXIT_FAILED
        return _report_crash(context, error)


def _logs_json(argv: Sequence[str], context: Context) -> bool:
    """Whether a collector reads the output: then an error is one object, too."""
    chosen = context.environ.get("HERDBEAT_LOG_FORMAT", "")
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        name, _, value = word.partition("=")
        chosen = (value or following) if name == "--log-format" else chosen
    return chosen.lower() == "json" and bool({"up", "start", "serve"} & set(argv))


@contextmanager
def _explain_file_errors() -> Iterator[None]:
    """Report what a file system refuses as an error of the user, not as ours: each command may meet it."""
    try:
        yield
    except OSError as error:
        hint = _PERMISSION_HINT if isinstance(error, PermissionError) else _FILE_HINTS.get(error.errno or 0)
        if hint is None or error.filename is None:
            raise
        name = truncate_for_message(os.fsdecode(error.filename), _MAX_SHOWN_PATH)
        raise HerdbeatError(f"{name}: {error.strerror}.", hint=hint) from error


def _run_invocation(request: Invocation, context: Context) -> int:
    args = request.args
    if request.command is None or args.has(HELP):
        return _show_help_or_version(request, context.terminal)
    terminal = open_terminal(context.environ, context.terminal.out, context.terminal.err, tuple(args.switches))
    run: Callable[[ParsedArgs, Context], Output | int] = _import_function(request.command.function)
    if request.command.is_remote and args.value(SERVER if request.command.name == "create" else URL) is not None:
        run = partial(_import_function("herdbeat.cli.remote:run_remote"), request.command.name)
    with ExitStack() as resources:
        result = run(args, replace(context, terminal=terminal, resources=resources))
        return result if isinstance(result, int) else render(result, args, terminal)


def _show_help_or_version(request: Invocation, terminal: Terminal) -> int:
    """Print version or help, which need no command."""
    pages = "herdbeat.cli.help"
    if request.command is not None:
        _import_function(f"{pages}:show_command")(terminal, request.command)
    elif request.args.has(VERSION):
        terminal.print(f"herdbeat {__version__}")
    elif request.group:
        _import_function(f"{pages}:show_group")(terminal, request.group)
    else:
        page = "show_all_commands" if request.args.has(HELP) else "show_overview"
        _import_function(f"{pages}:{page}")(terminal)
    return 0


def _import_function(name: str) -> Callable[..., Any]:
    """Import `module:function` now: only the command that runs is loaded."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded


def _report_crash(context: Context, error: Exception) -> int:
    """Report a bug of ours in three lines. HERDBEAT_DEBUG prints its traceback instead."""
    if context.environ.get("HERDBEAT_DEBUG"):
        import traceback  # noqa: PLC0415 -- only for this

        context.terminal.error("".join(traceback.format_exception(error)).rstrip())
        return EXIT_FAILED
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    from herdbeat.cli.help import ISSUES_URL  # noqa: PLC0415 -- only for this

    context.terminal.error(f"error: internal error ({what}).")
    context.terminal.error("  This is a bug in herdbeat. Run the command again with HERDBEAT_DEBUG=1 and report the")
    context.terminal.error(f"  output at {ISSUES_URL}")
    return EXIT_FAILED
