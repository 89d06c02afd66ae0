"""`herdbeat logs`: what runs have printed, and with -f what they print now.

It reads files and ledger, so it does not matter which process runs the fleet, or whether one does. It prints line by
line and returns an exit status, because it may not end.
"""

import json
import time
from collections.abc import Iterable
from datetime import datetime
from zlib import crc32

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS, format_cause
from herdbeat.cli.output.terminal import Terminal, format_output_line, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.durations import format_elapsed
from herdbeat.service.queries.logs import (
    LogEntry,
    LogEntryKind,
    LogFeed,
    LogSelection,
    find_remote_runs,
    resolve_log_selection,
)
from herdbeat.service.queries.selectors import split_selector
from herdbeat.service.serialize import serialize_log_entry
from herdbeat.time_phrases import parse_past_time

MAX_NAMED_RUNS = 3
"""Active runs of other nodes that are named."""

DEFAULT_LINES = 100
DEFAULT_FOLLOW_LINES = 10
"""Lines of the past before `--follow` continues, as with `tail -f`."""

ACTIVE_POLL_INTERVAL_S = 0.1
IDLE_POLL_INTERVAL_S = 0.5
"""Seconds between two polls, while there is output and while there is none."""

_TARGET_COLOURS = ("cyan", "green", "magenta", "yellow")


def run_logs(args: ParsedArgs, context: Context) -> int:
    handle = open_fleet_handle(args, context)
    reader = handle.require_reader()
    selection = resolve_log_selection(reader, args.positionals, handle.now)
    feed = LogFeed(reader, handle.state_dir, selection)
    past = feed.past(handle.now, since=_parse_since(args, handle), lines=_parse_line_limit(args, selection))
    _show_entries(args, context.terminal, handle, past)
    if handle.is_shared:
        _show_remote_runs(context, feed)
    if args.has(flags.FOLLOW):
        _follow_entries(args, context, handle, feed)
    elif not past:
        context.terminal.info("No output.")
    return 0


def _show_remote_runs(context: Context, feed: LogFeed) -> None:
    """Say why an active run shows nothing: its log is on its own node, and reaches the ledger a little later."""
    for run, details in find_remote_runs(feed, MAX_NAMED_RUNS):
        label = f"{printable(run.schedule)} {format_short_id(run.id)}"
        what = f"{label} runs on {printable(details.host)} (pid {details.pid})"
        context.terminal.info(f"{what}; its output arrives here every few seconds.")


def _parse_since(args: ParsedArgs, handle: FleetHandle) -> datetime | None:
    since = args.value(flags.SINCE)
    return None if since is None else parse_past_time(since, handle.now, handle.zone)


def _parse_line_limit(args: ParsedArgs, selection: LogSelection) -> int | None:
    """Return None, which means all lines, for single runs or with --since; otherwise how many of the last."""
    count = args.value(flags.COUNT)
    if count is None and (args.value(flags.SINCE) is not None or (selection.runs and not selection.names)):
        return None
    return parse_row_count(count, DEFAULT_FOLLOW_LINES if args.has(flags.FOLLOW) else DEFAULT_LINES)


def _follow_entries(args: ParsedArgs, context: Context, handle: FleetHandle, feed: LogFeed) -> None:
    """Print what is written from now on, until Ctrl+C or until the named runs have ended."""
    if handle.holder_pid is None:
        context.terminal.info("scheduler: not running. Waiting for: herdbeat up")
    while not feed.is_over:
        entries = feed.poll(handle.clock.now())
        _show_entries(args, context.terminal, handle, entries)
        context.terminal.out.flush()
        time.sleep(ACTIVE_POLL_INTERVAL_S if entries or feed.has_open_runs else IDLE_POLL_INTERVAL_S)


def _show_entries(args: ParsedArgs, terminal: Terminal, handle: FleetHandle, entries: Iterable[LogEntry]) -> None:
    for entry in entries:
        if args.has(flags.JSONL):
            terminal.print(json.dumps(serialize_log_entry(entry), ensure_ascii=False))
        else:
            terminal.print(_format_entry(terminal, handle, entry))


def _format_entry(terminal: Terminal, handle: FleetHandle, entry: LogEntry) -> str:
    """Return for example `14:02:13 triage 7f3k   what it printed`."""
    target, _ = split_selector(entry.run.schedule)
    colour = _TARGET_COLOURS[crc32(target.encode()) % len(_TARGET_COLOURS)]
    local = entry.at.astimezone(handle.zone)
    is_today = local.date() == handle.now.astimezone(handle.zone).date()
    at = terminal.style(f"{local:%H:%M:%S}" if is_today else f"{local:%d %b %H:%M:%S}", "dim")
    label = terminal.style(f"{printable(entry.run.schedule)} {format_short_id(entry.run.id)}", colour)
    return f"{at} {label} {_format_text(terminal, entry)}".rstrip()


def _format_text(terminal: Terminal, entry: LogEntry) -> str:
    text = format_output_line(entry.text)
    match entry.kind:
        case LogEntryKind.OUT:
            return f"  {text}"
        case LogEntryKind.ERR:
            return f"{terminal.style('!', 'yellow')} {text}"
        case LogEntryKind.NOTE:
            return terminal.style(f"· {text}", "dim")
        case LogEntryKind.STARTED:
            return f"{terminal.style('▶', 'cyan')} {format_cause(entry.run.source, entry.run.origin)}"
        case LogEntryKind.ENDED:
            return _format_end(terminal, entry, " ".join(text.split()))


def _format_end(terminal: Terminal, entry: LogEntry, error: str) -> str:
    glyph, word, colour = RUN_STATUS_SYMBOLS[entry.run.status]
    spent = f" {format_elapsed(entry.run.elapsed(entry.at))}"
    return f"{terminal.style(f'{glyph} {word}', colour)}{spent}" + (f"   {error}" if error else "")
