"""`herdbeat next` for people: one schedule in detail, or many in one list by time."""

from datetime import datetime
from typing import TYPE_CHECKING

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.next import MAX_INSTANTS, TimeRange, UpcomingSource
from herdbeat.cli.output.terminal import Terminal, display_width, printable
from herdbeat.cli.output.time_format import (
    format_clock,
    format_date,
    format_short_date,
    format_time_left,
    format_utc_clock,
    has_seconds,
)
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.decision import step_to_json
from herdbeat.domain.trigger import TriggerKind
from herdbeat.service.queries.expressions import NoNextRunReason, UnscheduledEntry, UpcomingRun
from herdbeat.timestamps import format_timestamp

if TYPE_CHECKING:
    from herdbeat.service.queries.upcoming import ForecastInput


# `herdbeat next --json`.


def show_upcoming_json(terminal: Terminal, source: UpcomingSource, time_range: TimeRange) -> None:
    trigger = source.trigger
    answer = {
        "from": format_timestamp(time_range.start),
        "until": None if time_range.until is None else format_timestamp(time_range.until),
        "timezone": source.zone.key,
        "trigger": trigger and {"kind": trigger.kind, "description": trigger.describe(), **trigger.options()},
        "items": [_instant_object(each, source) for each in source.instants(time_range)],
        "idle": [
            {"schedule": each.schedule, "standing": each.cause, "reason": each.reason}
            for each in source.idle(time_range)
        ],
    }
    import json  # noqa: PLC0415 -- `next` without --json does not need it

    terminal.print(json.dumps(answer, indent=2, ensure_ascii=False))


def _instant_object(each: UpcomingRun, source: UpcomingSource) -> dict[str, object]:
    return {
        "schedule": each.schedule or None,
        "due_at": format_timestamp(each.due_at),
        "next_run_at": format_timestamp(each.next_run_at),
        "local": each.next_run_at.astimezone(source.zone).isoformat(),
        "source": each.source,
        "notes": list(each.notes),
        "steps": [step_to_json(step) for step in each.trace],
    }


_HEADINGS = ["NEXT", "LEFT", "SCHEDULE", "WHEN", "ZONE"]
_UNSCHEDULED_LABELS = {
    NoNextRunReason.DISABLED: "○ disabled",
    NoNextRunReason.PAUSED: "‖ paused",
    NoNextRunReason.RUNNING: "● after run",
    NoNextRunReason.LATE: "◷ due, waits",
    NoNextRunReason.BROKEN: "✗ broken",
    NoNextRunReason.WAITING: "⚡ on call",
    NoNextRunReason.ENDED: "▪ ended",
}


def show_upcoming(args: ParsedArgs, terminal: Terminal, source: UpcomingSource, time_range: TimeRange) -> None:
    instants = source.instants(time_range)
    unscheduled = source.idle(time_range)
    if args.has(flags.PLAIN):
        _show_plain(terminal, instants, unscheduled)
    elif source.is_single:
        _show_headline(terminal, source, unscheduled)
        _show_single(args, terminal, source, time_range, instants)
    else:
        _show_fleet(terminal, source, time_range, instants, unscheduled)
    if not instants and not unscheduled:
        terminal.info("There is nothing in that time." if source.is_single else "There are no schedules.")
    if len(instants) == MAX_INSTANTS:
        terminal.info(f"Stopped at {MAX_INSTANTS} instants.")


def _show_plain(terminal: Terminal, instants: list[UpcomingRun], unscheduled: list[UnscheduledEntry]) -> None:
    """Tab-separated: the instant, the schedule, the source, the remarks. `-` where there is no time."""
    for each in instants:
        fields = [format_timestamp(each.next_run_at), each.schedule or "-", each.source, "; ".join(each.notes)]
        terminal.print("\t".join(fields))
    for nothing in unscheduled:
        terminal.print("\t".join(["-", nothing.schedule, nothing.cause, nothing.reason]))


def _show_headline(terminal: Terminal, source: UpcomingSource, unscheduled: list[UnscheduledEntry]) -> None:
    """triage/standup   0 9 * * 1-5   "at 09:00, Monday to Friday"   Europe/Berlin"""
    trigger = source.trigger or source.schedules[0].trigger
    parts = [terminal.style(printable(each.label), "bold") for each in source.schedules]
    expression = trigger.options().get("expression")
    parts += [expression, f'"{trigger.describe()}"'] if expression else [trigger.describe()]
    terminal.print("   ".join([*parts, terminal.style(_format_zones(source), "dim")]))
    for nothing in unscheduled:
        terminal.print(f"  {_UNSCHEDULED_LABELS[nothing.cause]}: {nothing.reason}")


def _format_zones(source: UpcomingSource) -> str:
    """The zone of the times, and the schedule's own if that is another one."""
    own = {each.zone.key for each in source.schedules} - {source.zone.key}
    return f"{own.pop()}, shown in {source.zone.key}" if own else source.zone.key


def _show_single(
    args: ParsedArgs, terminal: Terminal, source: UpcomingSource, time_range: TimeRange, instants: list[UpcomingRun]
) -> None:
    rows = _single_rows(terminal, source, time_range, instants)
    if args.has(flags.VERBOSE):
        _show_traces(terminal, source, rows, instants)
        return
    bare = _drop_empty_columns([row[:-1] for row in rows])
    for line, row in zip(terminal.format_table(bare, indent="  "), rows, strict=True):
        _print_with_note(terminal, line, row[-1])


def _single_rows(
    terminal: Terminal, source: UpcomingSource, time_range: TimeRange, instants: list[UpcomingRun]
) -> list[list[str]]:
    seconds = has_seconds([each.next_run_at for each in instants])
    rows = []
    for number, each in enumerate(instants, start=1):
        at = each.next_run_at
        when, utc_time = (show(at, source.zone, seconds=seconds) for show in (format_clock, format_utc_clock))
        rows.append(
            [
                f"{number:>{len(str(len(instants)))}}",
                format_date(at, source.zone),
                terminal.style(when, "bold"),
                "" if utc_time == when else utc_time,
                _format_left(at, time_range),
                "; ".join(each.notes),
            ]
        )
    return rows


def _show_traces(
    terminal: Terminal, source: UpcomingSource, rows: list[list[str]], instants: list[UpcomingRun]
) -> None:
    """Every instant with the governor's whole story."""
    for row, each in zip(rows, instants, strict=True):
        terminal.print(f"  {'  '.join(cell for cell in row[:-1] if cell)}  {each.source}")
        for step in each.trace:
            glyph = "✓" if step.won else "·"
            at = "" if step.at is None else f"  {format_clock(step.at, source.zone, seconds=True)}"
            terminal.print(terminal.style(f"       {glyph} {printable(step.text)}{at}", "dim"))


def _show_fleet(
    terminal: Terminal,
    source: UpcomingSource,
    time_range: TimeRange,
    instants: list[UpcomingRun],
    unscheduled: list[UnscheduledEntry],
) -> None:
    if not instants and not unscheduled:
        return
    headings, *rows = _drop_empty_columns(_fleet_rows(source, time_range, instants, unscheduled), _HEADINGS)
    lines = terminal.format_table([headings, *rows], shrink=[headings.index("WHEN"), headings.index("SCHEDULE")])
    notes = ["", *("; ".join(each.notes) for each in instants), *("" for _ in unscheduled)]
    for line, note in zip(lines, notes, strict=True):
        _print_with_note(terminal, line, note)
    _show_interval_notice(terminal, source, time_range)


def _fleet_rows(
    source: UpcomingSource, time_range: TimeRange, instants: list[UpcomingRun], unscheduled: list[UnscheduledEntry]
) -> list[list[str]]:
    # "now" says enough: its seconds would put a :00 behind every other time.
    seconds = has_seconds([each.next_run_at for each in instants if each.next_run_at != time_range.now])
    trigger_cells = {each.label: [each.trigger.describe(), _trigger_zone(each, source)] for each in source.schedules}
    rows = []
    for each in instants:
        at = each.next_run_at
        when = f"{format_short_date(at, time_range.now, source.zone)}  {format_clock(at, source.zone, seconds=seconds)}"
        rows.append([when, _format_left(at, time_range), printable(each.schedule), *trigger_cells[each.schedule]])
    nothing = "—" if time_range.is_from_now else ""
    return rows + [
        [_UNSCHEDULED_LABELS[each.cause], nothing, printable(each.schedule), each.when, ""] for each in unscheduled
    ]


def _format_left(at: datetime, time_range: TimeRange) -> str:
    """How long it takes from now; of another start nobody asked how long ago it was."""
    return format_time_left(at, time_range.now) if time_range.is_from_now else ""


def _trigger_zone(schedule: "ForecastInput", source: UpcomingSource) -> str:
    """The zone that a calendar is read in, if it is not the one shown: "at 01:00" stood beside 02:00 CET."""
    zone = schedule.trigger.options().get("timezone", "")
    return "" if zone == source.zone.key else zone


def _print_with_note(terminal: Terminal, line: str, note: str) -> None:
    """The remark stands behind its line, or below it where the screen is too narrow."""
    styled = terminal.style(note, "yellow")
    fits = terminal.columns is None or display_width(line) + 2 + display_width(note) <= terminal.columns
    if not note or fits:
        terminal.print(f"{line}  {styled}".rstrip())
    else:
        terminal.print(line)
        terminal.print(f"     {styled}")


def _show_interval_notice(terminal: Terminal, source: UpcomingSource, time_range: TimeRange) -> None:
    is_guess = time_range.count is not None or time_range.until is not None
    if is_guess and any(each.trigger.kind is TriggerKind.INTERVAL for each in source.schedules):
        terminal.info("Intervals count from the end of a run; shown as if runs took no time.")


def _drop_empty_columns(rows: list[list[str]], headings: list[str] | None = None) -> list[list[str]]:
    """The rows without columns that are empty in all of them, below their headings."""
    kept = [index for index, column in enumerate(zip(*rows, strict=True)) if any(column)]
    return [[row[index] for index in kept] for row in ([headings] if headings else []) + rows]
