"""`herdbeat list`: all schedules, one line each: from the ledger, or from the files if nothing has ever run."""

from collections.abc import Iterator

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, not_running_notice, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.schedule_cells import format_trigger, schedule_row
from herdbeat.cli.output.symbols import beat_mark_symbol
from herdbeat.cli.output.terminal import Terminal, display_width, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.service.queries.schedules import (
    SchedulePage,
    ScheduleQuery,
    ScheduleSummary,
    list_configured_schedules,
    list_schedules,
)
from herdbeat.service.serialize import JsonObject, serialize_page, serialize_summary
from herdbeat.timestamps import format_timestamp

DEFAULT_ROWS = 200
PLAIN_PAGE_SIZE = 1_000

_HEADINGS = ["SCHEDULE", "WHEN", "STATE", "LAST", "NEXT", "LAST 10"]


def run_list(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    if args.has(flags.PLAIN):
        return Output(plain=_plain_lines(args, handle))
    page = _find_schedules(args, handle)
    lines, notices = _table_lines(context.terminal, handle, page), _notices(args, page)
    return Output(json=lambda: _page_object(page), lines=lines, notices=notices)


def _plain_lines(args: ParsedArgs, handle: FleetHandle) -> Iterator[str]:
    """Yield all schedules, or as many as -n says, page by page: a script reads the first while the last is queried."""
    count = args.value(flags.COUNT)
    left = None if count is None else parse_row_count(count)
    after = _parse_cursor(args)
    while True:
        limit = PLAIN_PAGE_SIZE if left is None else min(left, PLAIN_PAGE_SIZE)
        page = _find_schedules(args, handle, after=after, limit=limit)
        yield from ("\t".join(_plain_fields(each)) for each in page.rows)
        left = None if left is None else left - len(page.rows)
        after = page.next_after
        if after is None or left == 0:
            break
    yield from _more_notice(page)
    yield from map(Notice, _notices(args, page))


def _page_object(page: SchedulePage) -> JsonObject:
    cursor = None if page.next_after is None else format_short_id(page.next_after)
    return serialize_page([serialize_summary(each) for each in page.rows], cursor)


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
    if handle.reader is None:
        return list_configured_schedules(handle.fleet, query)
    return list_schedules(handle.reader, query, has_live_node=handle.holder_pid is not None)


def _parse_cursor(args: ParsedArgs) -> int | None:
    if args.value(flags.CURSOR) is None:
        return None
    from herdbeat.cli.output.pages import parse_cursor  # noqa: PLC0415 -- most lists have one page

    return parse_cursor(args.value(flags.CURSOR))


def _table_lines(terminal: Terminal, handle: FleetHandle, page: SchedulePage) -> Iterator[str]:
    if (notice := not_running_notice(handle)) is not None:
        yield Notice(notice)
    if page.rows:
        rows = [_HEADINGS, *(schedule_row(terminal, each, handle.now, handle.zone) for each in page.rows)]
        lines = terminal.format_table(rows, shrink=(1, 4))
        if not terminal.fits(lines):  # the last beats are on other screens, too; a shortened name cannot be copied
            lines = terminal.format_table([row[:-1] for row in rows], shrink=(1, 4, 0))
        yield from lines
        yield terminal.style(_format_footer(terminal, page), "dim")
    yield from _more_notice(page)


def _format_footer(terminal: Terminal, page: SchedulePage) -> str:
    """Return the legend on the left, and how many of all schedules are shown on the right."""
    legend, total = _format_legend(page), f"{len(page.rows):,} of {page.total:,}"
    if not legend:
        return total
    if terminal.columns is None:
        return f"{legend}      {total}"
    return f"{legend:<{max(0, terminal.columns - display_width(total))}}{total}"


def _more_notice(page: SchedulePage) -> Iterator[Notice]:
    if page.next_after is not None:
        yield Notice(f"There are more rows: use --cursor {format_short_id(page.next_after)}, or a larger -n.")


def _format_legend(page: SchedulePage) -> str:
    """Return the meaning of the glyphs that are shown, and of no others."""
    glyphs = {beat_mark_symbol(mark)[0] for each in page.rows for mark in each.strip}
    meanings = {"–": "– skipped", "·": "· missed"}
    hinted = ["↯ active hint (baseline in parentheses)"] if any(each.hint for each in page.rows) else []
    return "   ".join([*hinted, *(words for glyph, words in meanings.items() if glyph in glyphs)])


def _plain_fields(each: ScheduleSummary) -> list[str]:
    record = each.record
    moments = ["-" if at is None else format_timestamp(at) for at in (record.last_run_at, each.at)]
    strip = "".join(beat_mark_symbol(mark)[0] for mark in each.strip)
    return [printable(record.label), each.state, format_trigger(each), *moments, str(record.failures), strip or "-"]


def _notices(args: ParsedArgs, page: SchedulePage) -> Iterator[str]:
    if not page.rows:
        state = args.value(flags.IN_STATE)
        yield f"No schedule is {state}." if state and page.total else "No schedules."
