"""`herdbeat timeline`: the last hours as a picture, one line per schedule, as wide as the screen."""

import json
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import NEVER_RAN_NOTICE, FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.details import fold_parts
from herdbeat.cli.output.symbols import format_count, format_time
from herdbeat.cli.output.terminal import Terminal, display_width, printable, shorten
from herdbeat.cli.output.time_parse import parse_past_time
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.beat import Gap, MissedReason
from herdbeat.domain.records import ScheduleRecord, TimelineSpan
from herdbeat.errors import UsageError
from herdbeat.service.queries.schedules import find_schedules
from herdbeat.service.queries.timeline import Cell, Scale, choose_tick_step, draw_row
from herdbeat.service.serialize import serialize_span
from herdbeat.store.reader import ScheduleQuery
from herdbeat.timestamps import format_timestamp

DEFAULT_RANGE = timedelta(hours=2)
DEFAULT_ROWS = 40
MAX_SCHEDULES = 10_000
MAX_SPANS = 50_000
DEFAULT_COLUMNS = 120
"""Columns where no screen limits them."""

MIN_CELLS = 20
MIN_TICK_COLUMNS = 12
"""Columns between two times on the axis, at least."""

CELL_SYMBOLS = {
    Cell.EMPTY: (" ", ""),
    Cell.DOWN: ("░", "dim"),
    Cell.SKIPPED: ("▭", "dim"),
    Cell.MISSED: ("·", "yellow"),
    Cell.WAITING: ("◷", "yellow"),
    Cell.RAN: ("▬", "green"),
    Cell.CUT_OFF: ("▪", "yellow"),
    Cell.RUNNING: ("▬", "cyan"),
    Cell.OVERLAP: ("≡", "blue"),
    Cell.FAILED: ("✗", "red"),
    Cell.NOW: ("●", "cyan"),
}
_LEGEND = {
    Cell.RAN: "ran",
    Cell.FAILED: "failed",
    Cell.NOW: "running",
    Cell.OVERLAP: "overlap",
    Cell.CUT_OFF: "cut off",
    Cell.SKIPPED: "skipped",
    Cell.MISSED: "missed",
    Cell.WAITING: "waits",
    Cell.DOWN: "nothing was running",
}


def run_timeline(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        since = _parse_since(args, handle)
        rows = parse_row_count(args.value(flags.COUNT), DEFAULT_ROWS)
        if handle.reader is None:
            context.terminal.info(NEVER_RAN_NOTICE)
            return 0
        timeline = _load_timeline(args, handle, since, rows)
        if args.has(flags.JSON):
            items = [
                serialize_span(each, record.label)
                for record in timeline.schedules
                for each in timeline.spans_for(record)
            ]
            context.terminal.print(json.dumps({"items": items}, indent=2, ensure_ascii=False))
        elif args.has(flags.PLAIN):
            _show_plain(context.terminal, timeline)
        else:
            _show_chart(context.terminal, handle, timeline)
        _show_notices(context.terminal, handle, timeline)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimelineData:
    """What is drawn. `left_out` counts the schedules for which there is no row."""

    since: datetime
    schedules: list[ScheduleRecord]
    spans: dict[int, list[TimelineSpan]]
    gaps: list[Gap]
    left_out: int
    is_cut: bool

    def spans_for(self, record: ScheduleRecord) -> list[TimelineSpan]:
        return self.spans.get(record.id, [])


def _parse_since(args: ParsedArgs, handle: FleetHandle) -> datetime:
    written = args.value(flags.SINCE)
    since = handle.now - DEFAULT_RANGE if written is None else parse_past_time(written, handle.now, handle.zone)
    if since >= handle.now:
        raise UsageError("--since lies in the future.", hint="Write for example 2h, or 09:00.")
    return since


def _load_timeline(args: ParsedArgs, handle: FleetHandle, since: datetime, rows: int) -> _TimelineData:
    """Of those that were named, or of those to which something happened."""
    reader = handle.require_reader()
    if args.positionals:
        found = find_schedules(reader, ScheduleQuery(now=handle.now, names=args.positionals, limit=MAX_SCHEDULES))
    else:
        found = reader.schedules_by_id(reader.active_schedules(since, MAX_SCHEDULES))
    shown_records = found if args.has(flags.JSON) or args.has(flags.PLAIN) else found[:rows]
    spans: dict[int, list[TimelineSpan]] = {}
    read = reader.spans((each.id for each in shown_records), since, handle.now, MAX_SPANS)
    for span in read:
        spans.setdefault(span.schedule, []).append(span)
    return _TimelineData(
        since=since,
        schedules=[each for each in shown_records if args.positionals or each.id in spans],
        spans=spans,
        gaps=[*reader.gaps(since), *_current_gap(handle)],
        left_out=len(found) - len(shown_records),
        is_cut=len(read) >= MAX_SPANS,
    )


def _current_gap(handle: FleetHandle) -> list[Gap]:
    """A gap is written down by the next start; until then it is where the last one ended."""
    node = handle.require_reader().last_node()
    if node is None or handle.holder_pid is not None:
        return []
    return [Gap(from_at=node.stopped_at or node.seen_at, until=handle.now, reason=MissedReason.SCHEDULER_DOWN)]


def _show_chart(terminal: Terminal, handle: FleetHandle, timeline: _TimelineData) -> None:
    if not timeline.schedules:
        return
    columns = terminal.columns or DEFAULT_COLUMNS
    labels = [printable(each.label) for each in timeline.schedules]
    label_width = min(max(map(display_width, labels)), max(12, columns // 3))
    scale = Scale(since=timeline.since, until=handle.now, cells=max(MIN_CELLS, columns - label_width - 2))
    terminal.print(terminal.style(" " * (label_width + 2) + _format_axis(scale, handle.zone), "dim"))
    seen: set[Cell] = set()
    for label, record in zip(labels, timeline.schedules, strict=True):
        row = draw_row(timeline.spans_for(record), scale, timeline.gaps)
        seen |= set(row)
        name = shorten(label, label_width)
        terminal.print(f"{name}{' ' * (label_width - display_width(name))}  {_paint_row(terminal, row)}".rstrip())
    legend = [f"{CELL_SYMBOLS[cell][0]} {word}" for cell, word in _LEGEND.items() if cell in seen]
    for line in fold_parts(terminal, legend):
        terminal.print(terminal.style(line, "dim"))


def _paint_row(terminal: Terminal, row: list[Cell]) -> str:
    """Neighbours of one kind are coloured together: a wide screen would drown in escape sequences."""
    text, start = "", 0
    for index in range(1, len(row) + 1):
        if index == len(row) or row[index] is not row[start]:
            glyph, colour = CELL_SYMBOLS[row[start]]
            run = glyph * (index - start)
            text += terminal.style(run, colour) if colour else run
            start = index
    return text


def _format_axis(scale: Scale, zone: ZoneInfo) -> str:
    """Round times above the cells they stand for."""
    step = choose_tick_step(scale.until - scale.since, max(1, scale.cells // MIN_TICK_COLUMNS))
    line = ""
    at = _first_tick(scale.since, step, zone)
    while at <= scale.until:
        local = at.astimezone(zone)
        label = f"{local:%a %d %b}" if step >= timedelta(days=1) else f"{local:%H:%M}"
        column = scale.cell_index(at)
        if column >= len(line) and column + len(label) <= scale.cells:
            line = line.ljust(column) + label
        at += step
    return line


def _first_tick(since: datetime, step: timedelta, zone: ZoneInfo) -> datetime:
    """The first round time in the zone: counted from its midnight, in real time."""
    midnight = datetime.combine(since.astimezone(zone).date(), time(), zone).astimezone(since.tzinfo)
    steps = -(-(since - midnight) // step)
    return midnight + steps * step


def _show_plain(terminal: Terminal, timeline: _TimelineData) -> None:
    """Tab-separated: schedule, outcome, status, due, start, end. `-` where there is nothing."""
    for record in timeline.schedules:
        for each in reversed(timeline.spans_for(record)):
            moments = [each.due_at, each.started_at, each.finished_at]
            time_texts = ["-" if at is None else format_timestamp(at) for at in moments]
            terminal.print("\t".join([printable(record.label), each.outcome, each.status or "-", *time_texts]))


def _show_notices(terminal: Terminal, handle: FleetHandle, timeline: _TimelineData) -> None:
    if timeline.left_out:
        more = format_count(timeline.left_out, "schedule")
        terminal.info(f"And {more} more: name those you mean, or say -n {len(timeline.schedules) + timeline.left_out}.")
    if not timeline.schedules:
        terminal.info("Nothing happened in that time.")
    if timeline.is_cut:
        terminal.info(f"Only the newest {MAX_SPANS} beats of that time are drawn.")
    if (gap := next(iter(_current_gap(handle)), None)) is not None:
        terminal.info(f"scheduler: not running (since {format_time(gap.from_at, handle.now, handle.zone)}).")
