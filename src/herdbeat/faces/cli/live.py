"""The live lines of `herdbeat up`: one event, one line. Pure, but for the colours of the terminal."""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import short_id
from herdbeat.domain.run import RunStatus
from herdbeat.durations import measured_duration, spoken_duration
from herdbeat.errors import shown
from herdbeat.events import (
    BeatSettled,
    Event,
    FilesApplied,
    FilesRefused,
    LedgerMended,
    NodeReady,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    SchedulesChanged,
    TimeLost,
)
from herdbeat.faces.cli.live_files import files_words
from herdbeat.faces.cli.marks import OUTCOMES, STATUSES, counted, near_time, short_label
from herdbeat.faces.cli.terminal import Terminal, printable, width

_BETWEEN = "   "
_INDENT = " " * len("09:41:04  ▶ ")

_LATE = 30.0
"""Seconds. A start is only called late when a person would call it so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLines:
    """Writes events as lines: time, glyph, schedule, and what happened. `room` is the width of the names."""

    terminal: Terminal
    zone: ZoneInfo
    room: int = 0

    def line(self, event: Event) -> str | None:
        """None for what has no line of its own."""
        match event:
            case RunStarted():
                return self._compose(event.at, event.schedule, "▶", "cyan", _started(event))
            case RunFinished():
                glyph, word, colour = STATUSES[event.status]
                return self._compose(event.at, event.schedule, glyph, colour, _finished(event, word, self.zone))
            case BeatSettled():
                glyph, colour = OUTCOMES[event.outcome]
                return self._compose(event.at, event.schedule, glyph, colour, _settled(event, self.zone))
            case ScheduleQuarantined() | LedgerMended() | SchedulesChanged():
                return self._compose(event.at, *_spoken(event))
            case FilesApplied() | FilesRefused():
                glyph, colour, what = files_words(event)
                return self._folded(f"{self._time(event.at)}  {self.terminal.style(glyph, colour)} ", what)
            case NodeReady(interrupted=0) | TimeLost():
                return None
            case NodeReady():
                what = f"{counted(event.interrupted, 'run')} of the last start ended with it: interrupted"
                return f"{self._time(event.at)}  {self.terminal.style('–', 'yellow')} {what}"
            case never:
                assert_never(never)

    def many(self, at: datetime, fate: tuple[BeatOutcome, str], number: int) -> str:
        """Beats of one fate that have no line of their own."""
        outcome, reason = fate
        glyph, colour = OUTCOMES[outcome]
        waits = "waits" if number == 1 else "wait"
        word = waits if outcome is BeatOutcome.PENDING else outcome.value
        head = f"{self._time(at)}  {self.terminal.style(glyph, colour)} "
        return self._folded(head, f"{number:,} more {word}: {reason}{_BETWEEN}see: herdbeat beats")

    def _compose(self, at: datetime, schedule: str, glyph: str, colour: str, what: str) -> str:
        label = printable(short_label(schedule))
        padded = label + " " * (self.room - width(label))
        return self._folded(f"{self._time(at)}  {self.terminal.style(glyph, colour)} {padded}  ", what)

    def _folded(self, head: str, what: str) -> str:
        """On a screen that is too narrow, what does not fit stands below: whole parts if it can be, else words."""
        columns = self.terminal.columns
        if columns is None or width(head + what) <= columns:
            return head + what
        lines = [head]
        for part in what.split(_BETWEEN):
            between = "" if lines[-1] == head else _BETWEEN
            if width(lines[-1] + between + part) <= columns:
                lines[-1] += between + part
            elif between and width(_INDENT + part) <= columns:
                lines.append(_INDENT + part)
            else:
                lines[-1] += between
                _add_words(lines, part, columns)
        return "\n".join(line.rstrip() for line in lines)

    def _time(self, at: datetime) -> str:
        return self.terminal.style(f"{at.astimezone(self.zone):%H:%M:%S}", "dim")


def _add_words(lines: list[str], text: str, columns: int) -> None:
    """As much as fits goes on the last line, and the rest below."""
    for word in text.split(" "):
        between = "" if lines[-1].endswith(" ") else " "
        if width(lines[-1] + between + word) <= columns:
            lines[-1] += between + word
        else:
            lines.append(_INDENT + word)


def _started(event: RunStarted) -> str:
    notes = [event.source.value]
    late = (event.at - event.due_at).total_seconds()
    if event.source.is_clock and late > _LATE and event.source is not Source.FIRST_RUN:
        notes.append(f"{measured_duration(event.at - event.due_at)} late")
    if event.attempt > 1:
        notes.append(f"attempt {event.attempt}")
    return f"{short_id(event.run_id)} started   {', '.join(notes)}"


def _finished(event: RunFinished, word: str, zone: ZoneInfo) -> str:
    spent = f" {measured_duration(event.at - event.started_at)}" if event.started_at else ""
    result = "" if word == "ok" else f"   {word}"
    tells_why = event.status.is_failure or event.status is RunStatus.SKIPPED
    error = f": {shown(event.error, 100)}" if event.error and tells_why else ""
    following = f"   next {near_time(event.next_run_at, event.at, zone)}" if event.next_run_at else ""
    return f"{short_id(event.run_id)}{spent}{result}{error}{following}"


def _settled(event: BeatSettled, zone: ZoneInfo) -> str:
    many = f" x{event.count}" if event.count > 1 else ""
    if event.outcome is BeatOutcome.PENDING:
        return f"waits{many}: {event.reason}{_holder(event)}"
    due = near_time(event.due_at, event.at, zone)
    if event.count > 1:
        due += f" to {near_time(event.last_due_at, event.at, zone)}"
    return f"{event.outcome}{many}: {event.reason}{_holder(event)}   due {due}"


def _holder(event: BeatSettled) -> str:
    """Who has the place: (7f2z, running 12m)"""
    if event.held_by is None or event.held_since is None:
        return ""
    return f" ({short_id(event.held_by)}, running {spoken_duration(event.at - event.held_since)})"


def _spoken(event: ScheduleQuarantined | LedgerMended | SchedulesChanged) -> tuple[str, str, str, str]:
    """What is not about one beat: its subject, glyph, colour and words."""
    match event:
        case ScheduleQuarantined():
            what = f"quarantined: {shown(event.reason, 100)}   it rests until it is edited"
            return event.schedule, "✗", "red", what
        case LedgerMended():
            return event.subject, "!", "yellow", f"mended: {event.what}"
        case SchedulesChanged():
            names = event.schedules
            subject = names[0] if len(names) == 1 else counted(len(names), "schedule")
            reason = f'   "{shown(event.reason, 100)}"' if event.reason else ""
            return subject, "↻", "blue", f"{event.what.replace('_', ' ')} by {printable(event.who)}{reason}"
