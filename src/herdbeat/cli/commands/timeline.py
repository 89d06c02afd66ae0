"""`herdbeat timeline`: the last hours as a chart, one line per schedule, as wide as the screen."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.details import fold_parts
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, display_width, format_count, printable, shorten
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import UsageError
from herdbeat.service.queries.timeline import (
    MAX_SPANS,
    Cell,
    Scale,
    Timeline,
    choose_tick_step,
    draw_row,
    load_timeline,
)
from herdbeat.service.serialize import serialize_timeline
from herdbeat.time_phrases import parse_past_time
from herdbeat.timestamps import format_timestamp

DEFAULT_RANGE = timedelta(hours=2)
MIN_RANGE = timedelta(seconds=20)
DEFAULT_ROWS = 40
DEFAULT_COLUMNS = 120
"""Columns of the chart if stdout is not a terminal."""

MIN_CELLS = 20
MIN_TICK_COLUMNS = 12
"""Columns between two times on the axis."""

_CELL_SYMBOLS = {
    Cell.EMPTY: (" ", "", ""),
    Cell.RAN: ("▬", "green", "ran"),
    Cell.RUNNING: ("▬", "cyan", ""),
    Cell.FAILED: ("✗", "red", "failed"),
    Cell.NOW: ("●", "cyan", "running"),
    Cell.OVERLAP: ("≡", "magenta", "overlap"),
    Cell.CUT_OFF: ("▪", "yellow", "interrupted"),
    Cell.SKIPPED: ("▭", "dim", "skipped"),
    Cell.MISSED: ("·", "yellow", "missed"),
    Cell.WAITING: ("◷", "yellow", "queued"),
    Cell.DOWN: ("░", "dim", "scheduler not running"),
}
"""Glyph, colour and meaning, in the order of the legend."""


def run_timeline(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    since = _parse_since(args, handle)
    rows = parse_row_count(args.value(flags.COUNT), DEFAULT_ROWS)
    if handle.reader is None:
        return Output(notices=[NEVER_RAN_NOTICE])
    names, max_rows = args.positionals, None if args.has(flags.JSON) or args.has(flags.PLAIN) else rows
    has_live_node = handle.holder_pid is not None
    timeline = load_timeline(
        handle.reader, names, since=since, now=handle.now, max_rows=max_rows, has_live_node=has_live_node
    )
    start = _choose_start(args, handle, timeline)
    lines, notices = _chart_lines(context.terminal, handle, timeline, start), _notices(handle, timeline)
    plain = _plain_lines(timeline)
    return Output(json=lambda: serialize_timeline(timeline), plain=plain, lines=lines, notices=notices)


def _parse_since(args: ParsedArgs, handle: FleetHandle) -> datetime:
    text = args.value(flags.SINCE)
    since = handle.now - DEFAULT_RANGE if text is None else parse_past_time(text, handle.now, handle.zone)
    if since >= handle.now:
        raise UsageError("--since is in the future.", hint="Use for example 2h or 09:00.")
    return since


def _choose_start(args: ParsedArgs, handle: FleetHandle, timeline: Timeline) -> datetime:
    """Return where the chart begins. That of a fleet younger than the usual range begins with its first beat."""
    starts = [span.due_at for record in timeline.schedules for span in timeline.list_spans(record)]
    if args.value(flags.SINCE) is not None or not starts:
        return timeline.since
    return max(timeline.since, min(*starts, handle.now - MIN_RANGE))


def _chart_lines(terminal: Terminal, handle: FleetHandle, timeline: Timeline, since: datetime) -> Iterator[str]:
    if not timeline.schedules:
        return
    columns = terminal.columns or DEFAULT_COLUMNS
    labels = [printable(record.label) for record in timeline.schedules]
    label_width = min(max(map(display_width, labels)), max(12, columns // 3))
    scale = Scale(since=since, until=handle.now, cells=max(MIN_CELLS, columns - label_width - 2))
    yield terminal.style(" " * (label_width + 2) + _format_axis(scale, handle.zone), "dim")
    seen: set[Cell] = set()
    for label, record in zip(labels, timeline.schedules, strict=True):
        row = draw_row(timeline.list_spans(record), scale, timeline.gaps)
        seen |= set(row)
        name = shorten(label, label_width)
        yield f"{name}{' ' * (label_width - display_width(name))}  {_paint_row(terminal, row)}".rstrip()
    legend = [f"{glyph} {word}" for cell, (glyph, _, word) in _CELL_SYMBOLS.items() if word and cell in seen]
    yield from (terminal.style(line, "dim") for line in fold_parts(terminal, legend))


def _paint_row(terminal: Terminal, row: list[Cell]) -> str:
    """Return the row with its colours, one escape sequence for each stretch of equal cells instead of one per cell."""
    text = ""
    for cell, cells in groupby(row):
        glyph, colour, _ = _CELL_SYMBOLS[cell]
        stretch = glyph * len(list(cells))
        text += terminal.style(stretch, colour) if colour else stretch
    return text


def _format_axis(scale: Scale, zone: ZoneInfo) -> str:
    """Return round times above the cells they stand for."""
    step = choose_tick_step(scale.until - scale.since, max(1, scale.cells // MIN_TICK_COLUMNS))
    line = ""
    at = _first_tick(scale.since, step, zone)
    while at <= scale.until:
        local = at.astimezone(zone)
        label = f"{local:%a %d %b}" if step >= timedelta(days=1) else f"{local:%H:%M}"
        label = f"{local:%H:%M:%S}" if step < timedelta(minutes=1) else label
        column = scale.find_cell(at)
        if column >= len(line) and column + len(label) <= scale.cells:
            line = line.ljust(column) + label
        at += step
    return line


def _first_tick(since: datetime, step: timedelta, zone: ZoneInfo) -> datetime:
    """Return the first round time in the zone, counted from its midnight in elapsed time."""
    midnight = datetime.combine(since.astimezone(zone).date(), time(), zone).astimezone(since.tzinfo)
    steps = -(-(since - midnight) // step)
    return midnight + steps * step


def _plain_lines(timeline: Timeline) -> Iterator[str]:
    """Yield schedule, outcome, status, due, start and end, separated by tabs. `-` stands for none."""
    for record in timeline.schedules:
        for span in reversed(timeline.list_spans(record)):
            moments = (span.due_at, span.started_at, span.finished_at)
            times = ["-" if at is None else format_timestamp(at) for at in moments]
            yield "\t".join([printable(record.label), span.outcome, span.status or "-", *times])


def _notices(handle: FleetHandle, timeline: Timeline) -> Iterator[str]:
    if timeline.left_out:
        more = format_count(timeline.left_out, "schedule")
        yield f"{more} not shown: name schedules, or use -n {len(timeline.schedules) + timeline.left_out}."
    if not timeline.schedules:
        yield "No beats in that period."
    if timeline.is_cut:
        yield f"Only the newest {MAX_SPANS} beats of that period are shown."
    if timeline.current_gap is not None:
        since = format_time(timeline.current_gap.from_at, handle.now, handle.zone)
        yield f"scheduler: not running (since {since})."
