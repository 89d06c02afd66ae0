"""Choosing the log of a command that runs for long, before it prints its first line."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import StringIO
from typing import TextIO, TypeVar, cast

from herdbeat.bootstrap.log_output import JsonLineStream, LogFormat, choose_log_format, log_to_stream
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import HerdbeatError

log = logging.getLogger(__name__)
T = TypeVar("T")


def choose_format(args: ParsedArgs, context: Context, fleet: Fleet) -> LogFormat:
    return choose_log_format(args.value(flags.LOG_FORMAT), context.environ, fleet.log_format)


def hold_messages(context: Context, load: Callable[[Context], T]) -> tuple[T, str]:
    """Return what `load` returns, and what it said meanwhile: only the files may say in which form to print that."""
    held = StringIO()
    with ExitStack() as stack:
        stack.callback(lambda: context.terminal.err.write(held.getvalue()))  # after an error; Ctrl+C is one, too
        loaded = load(replace(context, terminal=replace(context.terminal, err=held)))
        stack.pop_all()
    return loaded, held.getvalue()


@contextmanager
def open_log(context: Context, log_format: LogFormat) -> Iterator[Context]:
    """Write the log to stderr inside the block. As JSON, everything that the block says to people is part of it."""
    err = context.terminal.err
    with log_to_stream(err, log_format):
        if log_format is LogFormat.TEXT:
            yield context
            return
        stream = cast("TextIO", JsonLineStream())
        yield replace(context, terminal=replace(context.terminal, err=stream, has_error_colour=False))


def with_json(args: ParsedArgs) -> ParsedArgs:
    """Return the arguments with `--json`: a collector of JSON log lines must get no other lines."""
    return replace(args, switches=args.switches | {flags.JSON.key})


def log_error(context: Context, error: Exception) -> None:
    """Write an error that ends the command as one entry of a JSON log; a bug of ours with its traceback."""
    with log_to_stream(context.terminal.err, LogFormat.JSON):
        if isinstance(error, HerdbeatError):
            log.error("%s", _describe(error))
        else:
            log.critical("internal error", exc_info=error)


def run_logged(command: Callable[[], Output]) -> Output:
    """Run a command whose log is JSON. What it returns or raises for people becomes an entry of the log."""
    try:
        output = command()
    except HerdbeatError as error:
        log.error("%s", _describe(error))  # noqa: TRY400 -- it says all; a traceback adds nothing
        return Output(exit_status=error.exit_status)
    for line in output.lines:
        log.error("%s", line)
    return Output(exit_status=output.exit_status)


def _describe(error: HerdbeatError) -> str:
    problems = [f"{each.where}: {each.message} {each.hint}" for each in getattr(error, "problems", ())]
    return "; ".join(problems) or " ".join(filter(None, [error.message, error.hint]))
