"""The live lines of `herdbeat up`: one event, one line. Pure, but for the colours of the terminal."""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed, humanize
from herdbeat.errors import truncate_for_message
from herdbeat.events import (
    BeatSettled,
    ConfigApplied,
    ConfigRejected,
    Event,
    GapDetected,
    InconsistencyRepaired,
    NodeReady,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    SchedulesChanged,
)
from herdbeat.faces.cli.live_files import describe_config_event
from herdbeat.faces.cli.marks import OUTCOME_SYMBOLS, RUN_STATUS_SYMBOLS, format_count, format_time, short_label
from herdbeat.faces.cli.terminal import Terminal, display_width, printable

_SEPARATOR = "   "
_INDENT = " " * len("09:41:04  ▶ ")

_LATE_THRESHOLD_S = 30.0
"""Seconds. A start is only called late when a person would call it so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLineFormatter:
    """Writes events as lines: time, glyph, schedule, and what happened. `room` is the width of the names."""

    terminal: Terminal
    zone: ZoneInfo
    label_width: int = 0

    def line(self, event: Event) -> str | None:
        """None for what has no line of its own."""
        match event:
            case RunStarted():
                return self._format_line(event.at, event.schedule, "▶", "cyan", _describe_start(event))
            case RunFinished():
                glyph, word, colour = RUN_STATUS_SYMBOLS[event.status]
                return self._format_line(
                    event.at, event.schedule, glyph, colour, _describe_finish(event, word, self.zone)
                )
            case BeatSettled():
                glyph, colour = OUTCOME_SYMBOLS[event.outcome]
                return self._format_line(
                    event.at, event.schedule, glyph, colour, _describe_settled_beat(event, self.zone)
                )
            case ScheduleQuarantined() | InconsistencyRepaired() | SchedulesChanged():
                return self._format_line(event.at, *_describe_schedule_event(event))
            case ConfigApplied() | ConfigRejected():
                glyph, colour, what = describe_config_event(event)
                return self._fold_line(f"{self._format_time(event.at)}  {self.terminal.style(glyph, colour)} ", what)
            case NodeReady(interrupted=0) | GapDetected():
                return None
            case NodeReady():
                what = f"{format_count(event.interrupted, 'run')} of the last start ended with it: interrupted"
                return f"{self._format_time(event.at)}  {self.terminal.style('–', 'yellow')} {what}"
            case never:
                assert_never(never)

    def summary_line(self, at: datetime, outcome_key: tuple[BeatOutcome, str], number: int) -> str:
        """Beats of one fate that have no line of their own."""
        outcome, reason = outcome_key
        glyph, colour = OUTCOME_SYMBOLS[outcome]
        waits = "waits" if number == 1 else "wait"
        word = waits if outcome is BeatOutcome.PENDING else outcome.value
        head = f"{self._format_time(at)}  {self.terminal.style(glyph, colour)} "
        return self._fold_line(head, f"{number:,} more {word}: {reason}{_SEPARATOR}see: herdbeat beats")

    def _format_line(self, at: datetime, schedule: str, glyph: str, colour: str, what: str) -> str:
        label = printable(short_label(schedule))
        padded = label + " " * (self.label_width - display_width(label))
        return self._fold_line(f"{self._format_time(at)}  {self.terminal.style(glyph, colour)} {padded}  ", what)

    def _fold_line(self, head: str, what: str) -> str:
        """On a screen that is too narrow, what does not fit stands below: whole parts if it can be, else words."""
        columns = self.terminal.columns
        if columns is None or display_width(head + what) <= columns:
            return head + what
        lines = [head]
        for part in what.split(_SEPARATOR):
            between = "" if lines[-1] == head else _SEPARATOR
            if display_width(lines[-1] + between + part) <= columns:
                lines[-1] += between + part
            elif between and display_width(_INDENT + part) <= columns:
                lines.append(_INDENT + part)
            else:
                lines[-1] += between
                _append_words(lines, part, columns)
        return "\n".join(line.rstrip() for line in lines)

    def _format_time(self, at: datetime) -> str:
        return self.terminal.style(f"{at.astimezone(self.zone):%H:%M:%S}", "dim")


def _append_words(lines: list[str], text: str, columns: int) -> None:
    """As much as fits goes on the last line, and the rest below."""
    for word in text.split(" "):
        between = "" if lines[-1].endswith(" ") else " "
        if display_width(lines[-1] + between + word) <= columns:
            lines[-1] += between + word
        else:
            lines.append(_INDENT + word)


def _describe_start(event: RunStarted) -> str:
    notes = [event.source.value]
    late = (event.at - event.due_at).total_seconds()
    if event.source.is_clock and late > _LATE_THRESHOLD_S and event.source is not Source.FIRST_RUN:
        notes.append(f"{format_elapsed(event.at - event.due_at)} late")
    if event.attempt > 1:
        notes.append(f"attempt {event.attempt}")
    return f"{format_short_id(event.run_id)} started   {', '.join(notes)}"


def _describe_finish(event: RunFinished, word: str, zone: ZoneInfo) -> str:
    spent = f" {format_elapsed(event.at - event.started_at)}" if event.started_at else ""
    result = "" if word == "ok" else f"   {word}"
    tells_why = event.status.is_failure or event.status is RunStatus.SKIPPED
    error = f": {truncate_for_message(event.error, 100)}" if event.error and tells_why else ""
    following = f"   next {format_time(event.next_run_at, event.at, zone)}" if event.next_run_at else ""
    return f"{format_short_id(event.run_id)}{spent}{result}{error}{following}"


def _describe_settled_beat(event: BeatSettled, zone: ZoneInfo) -> str:
    many = f" x{event.count}" if event.count > 1 else ""
    if event.outcome is BeatOutcome.PENDING:
        return f"waits{many}: {event.reason}{_describe_blocking_run(event)}"
    due = format_time(event.due_at, event.at, zone)
    if event.count > 1:
        due += f" to {format_time(event.last_due_at, event.at, zone)}"
    return f"{event.outcome}{many}: {event.reason}{_describe_blocking_run(event)}   due {due}"


def _describe_blocking_run(event: BeatSettled) -> str:
    """Who has the place: (7f2z, running 12m)"""
    if event.held_by is None or event.held_since is None:
        return ""
    return f" ({format_short_id(event.held_by)}, running {humanize(event.at - event.held_since)})"


def _describe_schedule_event(
    event: ScheduleQuarantined | InconsistencyRepaired | SchedulesChanged,
) -> tuple[str, str, str, str]:
    """What is not about one beat: its subject, glyph, colour and words."""
    match event:
        case ScheduleQuarantined():
            what = f"quarantined: {truncate_for_message(event.reason, 100)}   it rests until it is edited"
            return event.schedule, "✗", "red", what
        case InconsistencyRepaired():
            return event.subject, "!", "yellow", f"mended: {event.what}"
        case SchedulesChanged():
            names = event.schedules
            subject = names[0] if len(names) == 1 else format_count(len(names), "schedule")
            reason = f'   "{truncate_for_message(event.reason, 100)}"' if event.reason else ""
            return subject, "↻", "blue", f"{event.what.replace('_', ' ')} by {printable(event.who)}{reason}"
