"""What `herdbeat up` does with its events: print them in order, with the story of a gap told before all else."""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.gap import Gap
from herdbeat.domain.ids import format_short_id
from herdbeat.events import (
    BeatSettled,
    ConfigRejected,
    Event,
    GapDetected,
    InconsistencyRepaired,
    RunFinished,
    ScheduleQuarantined,
)
from herdbeat.faces.cli.live import LiveLineFormatter
from herdbeat.faces.cli.live_fold import BeatAggregator, CallLater, OutcomeKey
from herdbeat.faces.cli.live_gap import gap_lines, is_gap_beat
from herdbeat.faces.cli.marks import short_label
from herdbeat.moments import format_timestamp

GAP_HOLD_S = 0.25
"""Seconds in which the beats of a gap are settled: one turn of the loop."""


class LiveFeed:
    """A listener. After time was lost it holds everything back for a moment, to tell the whole story first."""

    def __init__(
        self, lines: LiveLineFormatter, clock: Clock, call_later: CallLater, *, is_quiet: bool = False
    ) -> None:
        self._lines = lines
        self._is_quiet = is_quiet
        self._clock = clock
        self._later = call_later
        self._gap: Gap | None = None
        self._held_events: list[Event] = []
        self._fold = BeatAggregator(call_later, self._print_count)

    def __call__(self, event: Event) -> None:
        if isinstance(event, GapDetected):
            self.flush()
            self._gap = event.gap
            self._later(GAP_HOLD_S, self.flush)
        elif self._gap is not None:
            self._held_events.append(event)
        else:
            self._print_event(event)

    def use_clock(self, clock: Clock) -> None:
        """The time of the fleet at work, which need not be this machine's."""
        self._clock = clock

    def flush(self) -> None:
        """The block about the gap, then everything that was held back."""
        gap, held_events = self._gap, self._held_events
        self._gap, self._held_events = None, []
        if gap is None:
            self._fold.print()
            return
        about = [event for event in held_events if isinstance(event, BeatSettled) and is_gap_beat(event)]
        terminal = self._lines.terminal
        block = gap_lines(terminal, gap, about, self._clock.now(), self._lines.zone)
        for line in [*block, ""] if block else []:
            terminal.print(line)
        for event in held_events:
            if event not in about:
                self._print_event(event)
        self._fold.print()
        terminal.out.flush()

    def _print_event(self, event: Event) -> None:
        if self._is_quiet and not _needs_attention(event):
            return
        if isinstance(event, BeatSettled) and self._fold.fold_if_repeated(event):
            return
        self._print_line(self._lines.line(event))

    def _print_count(self, outcome_key: OutcomeKey, number: int) -> None:
        self._print_line(self._lines.summary_line(self._clock.now(), outcome_key, number))

    def _print_line(self, line: str | None) -> None:
        if line is not None:
            self._lines.terminal.print(line)
            self._lines.terminal.out.flush()


def _needs_attention(event: Event) -> bool:
    """What `--quiet` still says: failures, beats that nobody ran, and what had to be put right."""
    if isinstance(event, RunFinished):
        return event.status.is_failure
    if isinstance(event, BeatSettled):
        return event.outcome is BeatOutcome.MISSED
    return isinstance(event, ScheduleQuarantined | InconsistencyRepaired | ConfigRejected)


class JsonFeed:
    """A listener that writes every event as one line of JSON."""

    def __init__(self, lines: LiveLineFormatter) -> None:
        self._terminal = lines.terminal

    def __call__(self, event: Event) -> None:
        self._terminal.print(json.dumps(event_object(event), ensure_ascii=False))
        self._terminal.out.flush()

    def flush(self) -> None:
        """Nothing is held back."""


def event_object(event: Event) -> dict[str, object]:
    """`{"event": "run_started", "at": …}`: the fields of the event, in the words of the other commands' JSON."""
    return {"event": event.name, **{each.name: _field_value(each.name, event) for each in fields(event)}}


def _field_value(name: str, event: Event) -> object:
    value: Any = getattr(event, name)
    if isinstance(value, Gap):
        return {"from": format_timestamp(value.from_at), "until": format_timestamp(value.until), "reason": value.reason}
    if isinstance(value, datetime):
        return format_timestamp(value)
    if name in ("run_id", "held_by"):
        return None if value is None else format_short_id(value)
    return short_label(value) if name == "schedule" else value
