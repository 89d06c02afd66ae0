"""`herdbeat timeline`: the last hours as a picture, one line per schedule, as wide as the screen."""

import json
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import MissedReason
from herdbeat.domain.gap import Gap
from herdbeat.domain.records import ScheduleRecord, Span
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.facts import folded
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.terminal import Terminal, printable, shorten, width
from herdbeat.faces.cli.world import World
from herdbeat.moments import format_moment
from herdbeat.service.listing import find_named
from herdbeat.service.timeline import Cell, Scale, draw, span_object, tick_step
from herdbeat.store.looking import Look

USUAL = timedelta(hours=2)
ROWS = 40
MANY = 10_000
SPANS = 50_000
PAPER = 120
"""Columns where no screen limits them."""

LEAST_CELLS = 20
TICK = 12
"""Columns between two times on the axis, at least."""

GLYPHS = {
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
_WORDS = {
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


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        since = _since(given, ledger)
        rows = wanted_rows(given.value(flags.COUNT), ROWS)
        if ledger.reader is None:
            world.terminal.remark(NEVER)
            return 0
        picture = _picture(given, ledger, since, rows)
        if given.has(flags.JSON):
            items = [span_object(each, record.label) for record in picture.schedules for each in picture.of(record)]
            world.terminal.say(json.dumps({"items": items}, indent=2, ensure_ascii=False))
        elif given.has(flags.PLAIN):
            _show_plain(world.terminal, picture)
        else:
            _show(world.terminal, ledger, picture)
        _remark(world.terminal, ledger, picture)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """What is drawn. `left_out` counts the schedules for which there is no row."""

    since: datetime
    schedules: list[ScheduleRecord]
    spans: dict[int, list[Span]]
    gaps: list[Gap]
    left_out: int
    is_cut: bool

    def of(self, record: ScheduleRecord) -> list[Span]:
        return self.spans.get(record.id, [])


def _since(given: Given, ledger: Ledger) -> datetime:
    written = given.value(flags.SINCE)
    since = ledger.now - USUAL if written is None else read_past(written, ledger.now, ledger.zone)
    if since >= ledger.now:
        raise UsageError("--since lies in the future.", hint="Write for example 2h, or 09:00.")
    return since


def _picture(given: Given, ledger: Ledger, since: datetime, rows: int) -> _Picture:
    """Of those that were named, or of those to which something happened."""
    reader = ledger.opened()
    if given.words:
        found = find_named(reader, Look(now=ledger.now, names=given.words, limit=MANY))
    else:
        found = reader.schedules_of(reader.active_since(since, MANY))
    drawn = found if given.has(flags.JSON) or given.has(flags.PLAIN) else found[:rows]
    spans: dict[int, list[Span]] = {}
    read = reader.spans((each.id for each in drawn), since, ledger.now, SPANS)
    for span in read:
        spans.setdefault(span.schedule, []).append(span)
    return _Picture(
        since=since,
        schedules=[each for each in drawn if given.words or each.id in spans],
        spans=spans,
        gaps=[*reader.gaps(since), *_open_gap(ledger)],
        left_out=len(found) - len(drawn),
        is_cut=len(read) >= SPANS,
    )


def _open_gap(ledger: Ledger) -> list[Gap]:
    """A gap is written down by the next start; until then it is where the last one ended."""
    node = ledger.opened().last_node()
    if node is None or ledger.holder is not None:
        return []
    return [Gap(from_at=node.stopped_at or node.seen_at, until=ledger.now, reason=MissedReason.SCHEDULER_DOWN)]


def _show(terminal: Terminal, ledger: Ledger, picture: _Picture) -> None:
    if not picture.schedules:
        return
    columns = terminal.columns or PAPER
    labels = [printable(each.label) for each in picture.schedules]
    room = min(max(map(width, labels)), max(12, columns // 3))
    scale = Scale(since=picture.since, until=ledger.now, cells=max(LEAST_CELLS, columns - room - 2))
    terminal.say(terminal.style(" " * (room + 2) + _axis(scale, ledger.zone), "dim"))
    seen: set[Cell] = set()
    for label, record in zip(labels, picture.schedules, strict=True):
        row = draw(picture.of(record), scale, picture.gaps)
        seen |= set(row)
        name = shorten(label, room)
        terminal.say(f"{name}{' ' * (room - width(name))}  {_painted(terminal, row)}".rstrip())
    legend = [f"{GLYPHS[cell][0]} {word}" for cell, word in _WORDS.items() if cell in seen]
    for line in folded(terminal, legend):
        terminal.say(terminal.style(line, "dim"))


def _painted(terminal: Terminal, row: list[Cell]) -> str:
    """Neighbours of one kind are coloured together: a wide screen would drown in escape sequences."""
    text, start = "", 0
    for index in range(1, len(row) + 1):
        if index == len(row) or row[index] is not row[start]:
            glyph, colour = GLYPHS[row[start]]
            run = glyph * (index - start)
            text += terminal.style(run, colour) if colour else run
            start = index
    return text


def _axis(scale: Scale, zone: ZoneInfo) -> str:
    """Round times above the cells they stand for."""
    step = tick_step(scale.until - scale.since, max(1, scale.cells // TICK))
    line = ""
    at = _first_tick(scale.since, step, zone)
    while at <= scale.until:
        local = at.astimezone(zone)
        label = f"{local:%a %d %b}" if step >= timedelta(days=1) else f"{local:%H:%M}"
        column = scale.cell_of(at)
        if column >= len(line) and column + len(label) <= scale.cells:
            line = line.ljust(column) + label
        at += step
    return line


def _first_tick(since: datetime, step: timedelta, zone: ZoneInfo) -> datetime:
    """The first round time in the zone: counted from its midnight, in real time."""
    midnight = datetime.combine(since.astimezone(zone).date(), time(), zone).astimezone(since.tzinfo)
    steps = -(-(since - midnight) // step)
    return midnight + steps * step


def _show_plain(terminal: Terminal, picture: _Picture) -> None:
    """Tab-separated: schedule, outcome, status, due, start, end. `-` where there is nothing."""
    for record in picture.schedules:
        for each in reversed(picture.of(record)):
            moments = [each.due_at, each.started_at, each.finished_at]
            told = ["-" if at is None else format_moment(at) for at in moments]
            terminal.say("\t".join([printable(record.label), each.outcome, each.status or "-", *told]))


def _remark(terminal: Terminal, ledger: Ledger, picture: _Picture) -> None:
    if picture.left_out:
        more = counted(picture.left_out, "schedule")
        terminal.remark(f"And {more} more: name those you mean, or say -n {len(picture.schedules) + picture.left_out}.")
    if not picture.schedules:
        terminal.remark("Nothing happened in that time.")
    if picture.is_cut:
        terminal.remark(f"Only the newest {SPANS} beats of that time are drawn.")
    if (gap := next(iter(_open_gap(ledger)), None)) is not None:
        terminal.remark(f"scheduler: not running (since {near_time(gap.from_at, ledger.now, ledger.zone)}).")
