"""What `herdbeat up` does with its events: print them in order, with the story of a gap told before all else."""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.gap import Gap
from herdbeat.domain.ids import short_id
from herdbeat.events import BeatSettled, Event, FilesRefused, LedgerMended, RunFinished, ScheduleQuarantined, TimeLost
from herdbeat.faces.cli.live import LiveLines
from herdbeat.faces.cli.live_fold import Fate, Fold, Later
from herdbeat.faces.cli.live_gap import gap_block, is_about_gap
from herdbeat.faces.cli.marks import short_label
from herdbeat.moments import format_moment

HOLD = 0.25
"""Seconds in which the beats of a gap are settled: one turn of the loop."""


class LiveFeed:
    """A listener. After time was lost it holds everything back for a moment, to tell the whole story first."""

    def __init__(self, lines: LiveLines, clock: Clock, later: Later, *, is_quiet: bool = False) -> None:
        self._lines = lines
        self._is_quiet = is_quiet
        self._clock = clock
        self._later = later
        self._gap: Gap | None = None
        self._held: list[Event] = []
        self._fold = Fold(later, self._say_many)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TimeLost):
            self.tell()
            self._gap = event.gap
            self._later(HOLD, self.tell)
        elif self._gap is not None:
            self._held.append(event)
        else:
            self._say(event)

    def go_by(self, clock: Clock) -> None:
        """The time of the fleet at work, which need not be this machine's."""
        self._clock = clock

    def tell(self) -> None:
        """The block about the gap, then everything that was held back."""
        gap, held = self._gap, self._held
        self._gap, self._held = None, []
        if gap is None:
            self._fold.say()
            return
        about = [event for event in held if isinstance(event, BeatSettled) and is_about_gap(event)]
        terminal = self._lines.terminal
        block = gap_block(terminal, gap, about, self._clock.now(), self._lines.zone)
        for line in [*block, ""] if block else []:
            terminal.say(line)
        for event in held:
            if event not in about:
                self._say(event)
        self._fold.say()
        terminal.out.flush()

    def _say(self, event: Event) -> None:
        if self._is_quiet and not _needs_a_look(event):
            return
        if isinstance(event, BeatSettled) and self._fold.takes(event):
            return
        self._print(self._lines.line(event))

    def _say_many(self, fate: Fate, number: int) -> None:
        self._print(self._lines.many(self._clock.now(), fate, number))

    def _print(self, line: str | None) -> None:
        if line is not None:
            self._lines.terminal.say(line)
            self._lines.terminal.out.flush()


def _needs_a_look(event: Event) -> bool:
    """What `--quiet` still says: failures, beats that nobody ran, and what had to be put right."""
    if isinstance(event, RunFinished):
        return event.status.is_failure
    if isinstance(event, BeatSettled):
        return event.outcome is BeatOutcome.MISSED
    return isinstance(event, ScheduleQuarantined | LedgerMended | FilesRefused)


class JsonFeed:
    """A listener that writes every event as one line of JSON."""

    def __init__(self, lines: LiveLines) -> None:
        self._terminal = lines.terminal

    def __call__(self, event: Event) -> None:
        self._terminal.say(json.dumps(event_object(event), ensure_ascii=False))
        self._terminal.out.flush()

    def tell(self) -> None:
        """Nothing is held back."""


def event_object(event: Event) -> dict[str, object]:
    """`{"event": "run_started", "at": …}`: the fields of the event, in the words of the other commands' JSON."""
    return {"event": event.name, **{each.name: _value(each.name, event) for each in fields(event)}}


def _value(name: str, event: Event) -> object:
    value: Any = getattr(event, name)
    if isinstance(value, Gap):
        return {"from": format_moment(value.from_at), "until": format_moment(value.until), "reason": value.reason}
    if isinstance(value, datetime):
        return format_moment(value)
    if name in ("run_id", "held_by"):
        return None if value is None else short_id(value)
    return short_label(value) if name == "schedule" else value
