"""`herdbeat next` for people: one schedule in detail, or many in one list by time."""

from datetime import datetime
from typing import TYPE_CHECKING

from herdbeat.domain.trigger import TriggerKind
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.next_times import MOST, Subject, Window
from herdbeat.faces.cli.terminal import Terminal, printable, width
from herdbeat.faces.cli.times import clock, day, has_seconds, left, short_day, utc_clock
from herdbeat.moments import format_moment
from herdbeat.service.instants import Idle, Standing, Upcoming

if TYPE_CHECKING:
    from herdbeat.service.outlook import Outlook

_HEADINGS = ["NEXT", "LEFT", "SCHEDULE", "WHEN", "ZONE"]
_GLYPHS = {
    Standing.DISABLED: "○ disabled",
    Standing.PAUSED: "‖ paused",
    Standing.RUNNING: "● after run",
    Standing.LATE: "◷ due, waits",
    Standing.BROKEN: "✗ broken",
    Standing.WAITING: "⚡ on call",
    Standing.ENDED: "▪ ended",
}


def show_lists(given: Given, terminal: Terminal, subject: Subject, window: Window) -> None:
    instants = subject.instants(window)
    without = subject.idle(window)
    if given.has(flags.PLAIN):
        _show_plain(terminal, instants, without)
    elif subject.is_single:
        _show_headline(terminal, subject, without)
        _show_one(given, terminal, subject, window, instants)
    else:
        _show_many(terminal, subject, window, instants, without)
    if not instants and not without:
        terminal.remark("There is nothing in that time." if subject.is_single else "There are no schedules.")
    if len(instants) == MOST:
        terminal.remark(f"Stopped at {MOST} instants.")


def _show_plain(terminal: Terminal, instants: list[Upcoming], without: list[Idle]) -> None:
    """Tab-separated: the instant, the schedule, the source, the remarks. `-` where there is no time."""
    for each in instants:
        fields = [format_moment(each.next_run_at), each.schedule or "-", each.source, "; ".join(each.notes)]
        terminal.say("\t".join(fields))
    for nothing in without:
        terminal.say("\t".join(["-", nothing.schedule, nothing.standing, nothing.reason]))


def _show_headline(terminal: Terminal, subject: Subject, without: list[Idle]) -> None:
    """triage/standup   0 9 * * 1-5   "at 09:00, Monday to Friday"   Europe/Berlin"""
    trigger = subject.trigger or subject.schedules[0].trigger
    parts = [terminal.style(printable(each.label), "bold") for each in subject.schedules]
    expression = trigger.options().get("expression")
    parts += [expression, f'"{trigger.describe()}"'] if expression else [trigger.describe()]
    terminal.say("   ".join([*parts, terminal.style(_zones(subject), "dim")]))
    for nothing in without:
        terminal.say(f"  {_GLYPHS[nothing.standing]}: {nothing.reason}")


def _zones(subject: Subject) -> str:
    """The zone of the times, and the schedule's own if that is another one."""
    own = {each.zone.key for each in subject.schedules} - {subject.zone.key}
    return f"{own.pop()}, shown in {subject.zone.key}" if own else subject.zone.key


def _show_one(given: Given, terminal: Terminal, subject: Subject, window: Window, instants: list[Upcoming]) -> None:
    rows = _rows_of_one(terminal, subject, window, instants)
    if given.has(flags.VERBOSE):
        _show_traces(terminal, subject, rows, instants)
        return
    bare = _without_empty_columns([row[:-1] for row in rows])
    for line, row in zip(terminal.lines(bare, indent="  "), rows, strict=True):
        _say_with_note(terminal, line, row[-1])


def _rows_of_one(terminal: Terminal, subject: Subject, window: Window, instants: list[Upcoming]) -> list[list[str]]:
    seconds = has_seconds([each.next_run_at for each in instants])
    rows = []
    for number, each in enumerate(instants, start=1):
        at = each.next_run_at
        when, there = (show(at, subject.zone, seconds=seconds) for show in (clock, utc_clock))
        rows.append(
            [
                f"{number:>{len(str(len(instants)))}}",
                day(at, subject.zone),
                terminal.style(when, "bold"),
                "" if there == when else there,
                _left(at, window),
                "; ".join(each.notes),
            ]
        )
    return rows


def _show_traces(terminal: Terminal, subject: Subject, rows: list[list[str]], instants: list[Upcoming]) -> None:
    """Every instant with the governor's whole story."""
    for row, each in zip(rows, instants, strict=True):
        terminal.say(f"  {'  '.join(cell for cell in row[:-1] if cell)}  {each.source}")
        for step in each.trace:
            glyph = "✓" if step.won else "·"
            at = "" if step.at is None else f"  {clock(step.at, subject.zone, seconds=True)}"
            terminal.say(terminal.style(f"       {glyph} {printable(step.text)}{at}", "dim"))


def _show_many(
    terminal: Terminal, subject: Subject, window: Window, instants: list[Upcoming], without: list[Idle]
) -> None:
    if not instants and not without:
        return
    headings, *rows = _without_empty_columns(_rows_of_many(subject, window, instants, without), _HEADINGS)
    lines = terminal.lines([headings, *rows], shrink=[headings.index("WHEN"), headings.index("SCHEDULE")])
    notes = ["", *("; ".join(each.notes) for each in instants), *("" for _ in without)]
    for line, note in zip(lines, notes, strict=True):
        _say_with_note(terminal, line, note)
    _remark_on_intervals(terminal, subject, window)


def _rows_of_many(subject: Subject, window: Window, instants: list[Upcoming], without: list[Idle]) -> list[list[str]]:
    # "now" says enough: its seconds would put a :00 behind every other time.
    seconds = has_seconds([each.next_run_at for each in instants if each.next_run_at != window.now])
    told = {each.label: [each.trigger.describe(), _other_zone(each, subject)] for each in subject.schedules}
    rows = []
    for each in instants:
        at = each.next_run_at
        when = f"{short_day(at, window.now, subject.zone)}  {clock(at, subject.zone, seconds=seconds)}"
        rows.append([when, _left(at, window), printable(each.schedule), *told[each.schedule]])
    nothing = "—" if window.is_from_now else ""
    return rows + [[_GLYPHS[each.standing], nothing, printable(each.schedule), each.when, ""] for each in without]


def _left(at: datetime, window: Window) -> str:
    """How long it takes from now; of another start nobody asked how long ago it was."""
    return left(at, window.now) if window.is_from_now else ""


def _other_zone(schedule: "Outlook", subject: Subject) -> str:
    """The zone that a calendar is read in, if it is not the one shown: "at 01:00" stood beside 02:00 CET."""
    zone = schedule.trigger.options().get("timezone", "")
    return "" if zone == subject.zone.key else zone


def _say_with_note(terminal: Terminal, line: str, note: str) -> None:
    """The remark stands behind its line, or below it where the screen is too narrow."""
    styled = terminal.style(note, "yellow")
    fits = terminal.columns is None or width(line) + 2 + width(note) <= terminal.columns
    if not note or fits:
        terminal.say(f"{line}  {styled}".rstrip())
    else:
        terminal.say(line)
        terminal.say(f"     {styled}")


def _remark_on_intervals(terminal: Terminal, subject: Subject, window: Window) -> None:
    is_guess = window.count is not None or window.until is not None
    if is_guess and any(each.trigger.kind is TriggerKind.INTERVAL for each in subject.schedules):
        terminal.remark("Intervals count from the end of a run; shown as if runs took no time.")


def _without_empty_columns(rows: list[list[str]], headings: list[str] | None = None) -> list[list[str]]:
    """The rows without columns that are empty in all of them, below their headings."""
    kept = [index for index, column in enumerate(zip(*rows, strict=True)) if any(column)]
    return [[row[index] for index in kept] for row in ([headings] if headings else []) + rows]
