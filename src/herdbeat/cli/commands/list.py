"""`herdbeat list`: all schedules, one line each. From the ledger, or from the files where nothing has ever run."""

import json

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.symbols import (
    beat_mark_symbol,
    format_beat_marks,
    format_last_run,
    format_next_run,
    format_state,
    format_time,
    format_trigger,
)
from herdbeat.cli.output.terminal import Terminal, display_width, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.service.queries.schedules import SchedulePage, ScheduleSummary, list_configured_schedules, list_schedules
from herdbeat.service.serialize import serialize_page, serialize_summary
from herdbeat.store.reader import ScheduleQuery
from herdbeat.timestamps import format_timestamp

DEFAULT_ROWS = 200
MIN_MARKS_COLUMNS = 70
"""Columns from which on there is room for the last beats beside all the words."""

PLAIN_PAGE_SIZE = 1_000

_HEADINGS = ["SCHEDULE", "WHEN", "STATE", "LAST", "NEXT", "LAST 10"]


def run_list(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        if args.has(flags.PLAIN):
            return _show_plain(args, context.terminal, handle)
        listing = _find_schedules(args, handle)
        if args.has(flags.JSON):
            cursor = None if listing.next_after is None else format_short_id(listing.next_after)
            page = serialize_page([serialize_summary(each) for each in listing.rows], cursor)
            context.terminal.print(json.dumps(page, indent=2, ensure_ascii=False))
        else:
            _show_table(context.terminal, handle, listing)
        _show_notices(args, context.terminal, handle, listing)
    return 0


def _show_plain(args: ParsedArgs, terminal: Terminal, handle: FleetHandle) -> int:
    """All of them, or as many as -n says, page by page: a script reads the first while the last is looked up."""
    wanted = args.value(flags.COUNT)
    left = None if wanted is None else parse_row_count(wanted)
    after = _parse_cursor(args)
    while True:
        listing = _find_schedules(
            args, handle, after=after, limit=PLAIN_PAGE_SIZE if left is None else min(left, PLAIN_PAGE_SIZE)
        )
        for each in listing.rows:
            terminal.print("\t".join(_plain_fields(each)))
        left = None if left is None else left - len(listing.rows)
        after = listing.next_after
        if after is None or left == 0:
            _show_notices(args, terminal, handle, listing)
            return 0


def _find_schedules(
    args: ParsedArgs, handle: FleetHandle, after: int | None = None, limit: int | None = None
) -> SchedulePage:
    query = ScheduleQuery(
        now=handle.now,
        names=args.positionals,
        tags=args.all_values(flags.TAG),
        groups=args.all_values(flags.GROUP),
        state=args.value(flags.IN_STATE),
        after=after or _parse_cursor(args),
        limit=limit or parse_row_count(args.value(flags.COUNT), DEFAULT_ROWS),
    )
    if handle.reader is not None:
        return list_schedules(handle.reader, query)
    return list_configured_schedules(handle.fleet, query)


def _parse_cursor(args: ParsedArgs) -> int | None:
    if args.value(flags.CURSOR) is None:
        return None
    from herdbeat.cli.output.pages import parse_cursor  # noqa: PLC0415 -- most lists have one page

    return parse_cursor(args.value(flags.CURSOR))


def _show_table(terminal: Terminal, handle: FleetHandle, listing: SchedulePage) -> None:
    if not listing.rows:
        return
    is_roomy = terminal.columns is None or terminal.columns >= MIN_MARKS_COLUMNS
    rows = [_HEADINGS, *(_schedule_row(terminal, handle, each) for each in listing.rows)]
    for line in terminal.format_table(rows if is_roomy else [row[:-1] for row in rows], shrink=(1, 0)):
        terminal.print(line)
    legend = _format_legend(listing)
    total = f"{len(listing.rows)} of {listing.total}"
    legend_width = (
        display_width(legend) + 6 if terminal.columns is None else max(0, terminal.columns - display_width(total))
    )
    terminal.print(terminal.style(f"{legend:<{legend_width}}{total}" if legend else total, "dim"))


def _schedule_row(terminal: Terminal, handle: FleetHandle, each: ScheduleSummary) -> list[str]:
    return [
        printable(each.record.label),
        printable(format_trigger(each)),
        format_state(terminal, each),
        format_last_run(each, handle.now),
        format_next_run(each, handle.now, handle.zone),
        format_beat_marks(terminal, each.strip),
    ]


def _format_legend(listing: SchedulePage) -> str:
    """Only of the signs that are there."""
    glyphs = {beat_mark_symbol(mark)[0] for each in listing.rows for mark in each.strip}
    meanings = {"–": "– skipped", "·": "· missed"}
    hinted = ["↯ a hint is active, baseline in brackets"] if any(each.hint for each in listing.rows) else []
    return "   ".join([*hinted, *(words for glyph, words in meanings.items() if glyph in glyphs)])


def _plain_fields(each: ScheduleSummary) -> list[str]:
    record = each.record
    moments = ["-" if at is None else format_timestamp(at) for at in (record.last_run_at, each.at)]
    strip = "".join(beat_mark_symbol(mark)[0] for mark in each.strip)
    return [printable(record.label), each.state, format_trigger(each), *moments, str(record.failures), strip or "-"]


def _show_notices(args: ParsedArgs, terminal: Terminal, handle: FleetHandle, listing: SchedulePage) -> None:
    if listing.next_after is not None and not args.has(flags.JSON):
        terminal.info(f"There are more: --cursor {format_short_id(listing.next_after)}, or a larger -n.")
    if not listing.rows:
        wanted = args.value(flags.IN_STATE)
        terminal.info(f"None of them is {wanted}." if wanted and listing.total else "There are no schedules.")
    if handle.reader is None:
        terminal.info(NEVER_RAN_NOTICE)
    elif handle.holder_pid is None:
        node = handle.reader.last_node()
        since = f" (since {format_time(node.stopped_at or node.seen_at, handle.now, handle.zone)})" if node else ""
        terminal.info(f"scheduler: not running{since}. Nothing starts until: herdbeat up")
