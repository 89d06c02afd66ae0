"""The live output of `herdbeat up`.

`LiveLineFormatter` turns one event into one line, `BeatAggregator` counts beats of one kind once there are many,
`gap_lines` reports what happened to the beats of a time in which nothing ran, and `LiveFeed` prints all of it in order.
`JsonFeed` prints the same events as JSON, one a line.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, assert_never
from zoneinfo import ZoneInfo

from herdbeat.cli.output.details import fold_parts
from herdbeat.cli.output.symbols import (
    OUTCOME_SYMBOLS,
    RUN_STATUS_SYMBOLS,
    format_cause,
    format_due,
    format_time,
    short_label,
)
from herdbeat.cli.output.terminal import Terminal, display_width, format_count, printable, redirect_to_devnull
from herdbeat.clock import Clock
from herdbeat.domain.agent_run import FinishReason
from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run_status import RunStatus
from herdbeat.durations import format_duration, format_elapsed, humanize
from herdbeat.errors import truncate_for_message
from herdbeat.events import (
    AccountHeld,
    AccountReleased,
    BeatSettled,
    ConfigApplied,
    ConfigRejected,
    Event,
    GapDetected,
    InconsistencyRepaired,
    NodeReady,
    RuleEffectKind,
    RuleFired,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    SchedulesChanged,
    ServerReady,
)
from herdbeat.service.queries.gates import MISSED_TEXTS
from herdbeat.timestamps import format_timestamp

log = logging.getLogger(__name__)

_MAX_NAMED_SCHEDULES = 3
"""Schedules of a configuration change that are named; more are counted."""


def describe_config_event(event: ConfigApplied | ConfigRejected) -> tuple[str, str, str]:
    """Return glyph, colour and text of a change of the files: what it changed, or why it was refused."""
    if isinstance(event, ConfigRejected):
        more = f" (and {event.problems - 1} more)" if event.problems > 1 else ""
        what = f"{printable(event.where)}  {truncate_for_message(event.reason, 100)}{more}"
        return "✗", "red", f"files rejected: {what}   no change; see: herdbeat validate"
    parts = [
        _format_labels("+", "added", event.added),
        _format_labels("~", "changed", event.changed),
        _format_labels("~", "changed", _list_other_targets(event), "target"),
        _format_labels("-", "removed", event.removed),
        f"takes effect at the next start: {', '.join(event.unheeded)}" if event.unheeded else "",
    ]
    return "~", "cyan", f"files applied: {'   '.join(part for part in parts if part)}"


def _list_other_targets(event: ConfigApplied) -> tuple[str, ...]:
    """Return the changed targets of which no schedule is named as changed."""
    named = {label.rpartition("/")[0] or label for label in event.changed}
    return tuple(name for name in event.targets if name not in named)


def _format_labels(sign: str, word: str, labels: tuple[str, ...], noun: str = "schedule") -> str:
    if len(labels) > _MAX_NAMED_SCHEDULES:
        return f"{format_count(len(labels), noun)} {word}"
    return " ".join(f"{sign}{printable(short_label(label))}" for label in labels)


_SEPARATOR = "   "
_INDENT = " " * len("09:41:04  ▶ ")

_LATE_THRESHOLD_S = 30.0
"""Starts that are less late than this are not called late: a person would not do so either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLineFormatter:
    """Formats an event as a line: time, glyph, schedule, text. `label_width` is the width of the schedule column."""

    terminal: Terminal
    zone: ZoneInfo
    label_width: int = 0

    def line(self, event: Event) -> str | None:
        """Return the line of an event; None for one that has none."""
        match event:
            case RunStarted():
                return self._format_line(event.at, event.schedule, "▶", "cyan", _describe_start(event))
            case RunFinished():
                glyph, word, colour = RUN_STATUS_SYMBOLS[event.status]
                what = _describe_finish(event, word, self.zone)
                return self._format_line(event.at, event.schedule, glyph, colour, what)
            case BeatSettled():
                what = _describe_settled_beat(event, self.zone)
                return self._format_line(event.at, event.schedule, *OUTCOME_SYMBOLS[event.outcome], what)
            case ScheduleQuarantined() | InconsistencyRepaired() | SchedulesChanged() | RuleFired():
                return self._format_line(event.at, *_describe_schedule_event(event, self.zone))
            case AccountHeld() | AccountReleased():
                glyph, colour, what = _describe_account_event(event, self.zone)
                return self._fold_line(f"{self._format_time(event.at)}  {self.terminal.style(glyph, colour)} ", what)
            case ConfigApplied() | ConfigRejected():
                glyph, colour, what = describe_config_event(event)
                return self._fold_line(f"{self._format_time(event.at)}  {self.terminal.style(glyph, colour)} ", what)
            case NodeReady(interrupted=0) | GapDetected() | ServerReady():
                return None
            case NodeReady():
                what = f"{format_count(event.interrupted, 'run')} of the previous process recorded as interrupted"
                return f"{self._format_time(event.at)}  {self.terminal.style('–', 'yellow')} {what}"
            case never:
                assert_never(never)

    def summary_line(self, at: datetime, outcome_key: tuple[BeatOutcome, str], number: int) -> str:
        """Return the line for beats of one outcome that are counted, not named."""
        outcome, reason = outcome_key
        glyph, colour = OUTCOME_SYMBOLS[outcome]
        word = "queued" if outcome is BeatOutcome.PENDING else outcome.value
        head = f"{self._format_time(at)}  {self.terminal.style(glyph, colour)} "
        return self._fold_line(head, f"{number:,} more {word}: {reason}{_SEPARATOR}see: herdbeat beats")

    def _format_line(self, at: datetime, schedule: str, glyph: str, colour: str, what: str) -> str:
        label = printable(short_label(schedule))
        padded = label + " " * (self.label_width - display_width(label))
        return self._fold_line(f"{self._format_time(at)}  {self.terminal.style(glyph, colour)} {padded}  ", what)

    def _fold_line(self, head: str, what: str) -> str:
        """Return head and text; what does not fit continues below, in whole parts if possible, else in words."""
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
    """Append the words of a text to the last line while they fit, and then to new lines."""
    for word in text.split(" "):
        between = "" if lines[-1].endswith(" ") else " "
        if display_width(lines[-1] + between + word) <= columns:
            lines[-1] += between + word
        else:
            lines.append(_INDENT + word)


def _describe_start(event: RunStarted) -> str:
    notes = [format_cause(event.source)]
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
    return f"{format_short_id(event.run_id)}{spent}{result}{error}{following}{_describe_retry(event)}"


def _describe_retry(event: RunFinished) -> str:
    """Return when a failed beat is tried again by itself; else the commands that do so, and that end the backoff."""
    if event.error_code == FinishReason.RATE_LIMITED:
        return f"{_SEPARATOR}runs again when its account opens" if event.retry_at else ""
    if event.retry_at is not None:
        wait = humanize(event.retry_at - event.at) if event.retry_at > event.at else "0s"
        return f"{_SEPARATOR}retry {event.retry_attempt} of {event.max_attempts} in {wait}"
    if not event.status.is_failure:
        return ""
    retry, reset = f"herdbeat retry {format_short_id(event.run_id)}", f"herdbeat reset {short_label(event.schedule)}"
    return f"{_SEPARATOR}retry: {retry}{_SEPARATOR}end backoff: {printable(reset)}"


def _describe_settled_beat(event: BeatSettled, zone: ZoneInfo) -> str:
    many = f" x{event.count}" if event.count > 1 else ""
    if event.outcome is BeatOutcome.PENDING:
        return f"queued{many}: {event.reason}{_describe_blocking_run(event)}"
    due = format_due(event, event.at, zone)
    return f"{event.outcome}{many}: {event.reason}{_describe_blocking_run(event)}   due {due}"


def _describe_blocking_run(event: BeatSettled) -> str:
    """Return the run that the beat waits for: ` (7f2z, running 12m)`."""
    if event.held_by is None or event.held_since is None:
        return ""
    return f" ({format_short_id(event.held_by)}, running {humanize(event.at - event.held_since)})"


def _describe_schedule_event(
    event: ScheduleQuarantined | InconsistencyRepaired | SchedulesChanged | RuleFired, zone: ZoneInfo
) -> tuple[str, str, str, str]:
    """Return subject, glyph, colour and text of an event that is not about one beat."""
    match event:
        case ScheduleQuarantined():
            what = (
                f"quarantined: {truncate_for_message(event.reason, 100)}   it does not run until it is edited or reset"
            )
            return event.schedule, "✗", "red", what
        case InconsistencyRepaired():
            return event.subject, "!", "yellow", f"repaired: {event.what}"
        case RuleFired():
            return event.schedule, "↯", "magenta", _describe_rule(event, zone)
        case SchedulesChanged():
            names = event.schedules
            subject = names[0] if len(names) == 1 else format_count(len(names), "schedule")
            reason = f'   "{truncate_for_message(event.reason, 100)}"' if event.reason else ""
            return subject, "↻", "magenta", f"{event.what.replace('_', ' ')} by {printable(event.who)}{reason}"


def _describe_rule(event: RuleFired, zone: ZoneInfo) -> str:
    """Return what a rule has done and why: `rule surge: every 30s for 15m   queue at 150`."""
    rule = f"rule {printable(event.rule)}"
    reason = f"{_SEPARATOR}{truncate_for_message(event.reason, 100)}" if event.reason else ""
    until = "" if event.until is None else format_time(event.until, event.at, zone)
    match event.action:
        case RuleEffectKind.EVERY:
            done = f"every {format_duration(event.every or timedelta())} until {until}"
        case RuleEffectKind.RUN_IN:
            done = f"one more run at {until}"
        case RuleEffectKind.PAUSE:
            done = f"paused until {until}"
        case RuleEffectKind.TRIGGER:
            done = f"starts {printable(short_label(event.triggers))}"
        case RuleEffectKind.END:
            return f"{rule} has ended"
        case never:
            assert_never(never)
    return f"{rule}: {done}{reason}"


def _describe_account_event(event: AccountHeld | AccountReleased, zone: ZoneInfo) -> tuple[str, str, str]:
    """Return glyph, colour and text."""
    model = f" ({printable(event.model)})" if event.model else ""
    account = f"account {printable(event.account)}{model}"
    if isinstance(event, AccountReleased):
        by = f" by {printable(event.who)}" if event.who else ""
        return "↻", "magenta", f"{account} released{by}: what waited for it starts"
    until, run = format_time(event.until, event.at, zone), format_short_id(event.run_id)
    parts = [
        f"{account} held until {until}: usage limit ({run})",
        f"release it: herdbeat resume --account {printable(event.account)}",
    ]
    return "!", "yellow", _SEPARATOR.join(parts)


MAX_NAMED_BEATS = 10
"""Beats of one outcome and reason that get a line each, before the others are counted."""

COUNT_INTERVAL_S = 1.0
"""Seconds between two counts. After a quiet interval, beats get lines of their own again."""

OutcomeKey = tuple[BeatOutcome, str]
"""Outcome and reason."""

CallLater = Callable[[float, Callable[[], None]], object]


@dataclass(slots=True)
class BeatAggregator:
    """Decides which beats get a line of their own; `on_count` receives the outcome and number of the others.

    A thousand beats that wait for one busy target would otherwise scroll everything else away.
    """

    call_later: CallLater
    on_count: Callable[[OutcomeKey, int], None]
    _shown_counts: Counter[OutcomeKey] = field(default_factory=Counter)
    _folded_counts: Counter[OutcomeKey] = field(default_factory=Counter)
    _is_waiting: bool = False

    def fold_if_repeated(self, event: BeatSettled) -> bool:
        """Return whether the beat is counted instead of shown. Missed beats are always shown: a person should look."""
        if event.outcome is BeatOutcome.MISSED:
            return False
        outcome_key = (event.outcome, event.reason)
        is_many = self._shown_counts[outcome_key] >= MAX_NAMED_BEATS
        (self._folded_counts if is_many else self._shown_counts)[outcome_key] += 1
        self._start_interval()
        return is_many

    def flush_counts(self) -> None:
        """Report what was counted so far."""
        counted, self._folded_counts = self._folded_counts, Counter()
        for outcome_key, number in counted.items():
            self.on_count(outcome_key, number)

    def _start_interval(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self.call_later(COUNT_INTERVAL_S, self._on_interval)

    def _on_interval(self) -> None:
        """Report the counts. Outcomes that were counted stay so; those that were quiet begin anew."""
        self._is_waiting = False
        self._shown_counts = Counter(dict.fromkeys(self._folded_counts, MAX_NAMED_BEATS))
        if self._folded_counts:
            self._start_interval()
        self.flush_counts()


MIN_REPORTED_GAP = timedelta(seconds=30)
"""A shorter gap without lost beats is a restart, and is not reported."""

MAX_GAP_ROWS = 10
"""Beats of a gap that are listed; the ledger has the others."""


def is_gap_beat(event: BeatSettled) -> bool:
    """Return whether a beat was lost, or is caught up, because of a gap."""
    if event.outcome is BeatOutcome.PENDING:
        return event.reason == Source.CATCH_UP
    return event.outcome in (BeatOutcome.MISSED, BeatOutcome.MERGED)


def gap_lines(terminal: Terminal, gap: Gap, events: list[BeatSettled], now: datetime, zone: ZoneInfo) -> list[str]:
    """Return how long nothing ran, what is caught up and what was missed; empty if there is nothing to report."""
    if gap.until - gap.from_at < MIN_REPORTED_GAP and not events:
        return []
    down = humanize(gap.until - gap.from_at)
    # Without events nothing is claimed: on a busy machine, or after a long time, beats are settled after this report.
    counts = f"  {_count_outcomes(events)}." if events else ""
    head = f"Down for {down} ({MISSED_TEXTS[gap.reason]}).{counts}"
    hint = f"→ herdbeat beats --since {_format_since(now - gap.from_at)}"
    rows = [_gap_row(each, now, zone) for each in events[:MAX_GAP_ROWS]]
    more = [f"  and {len(events) - MAX_GAP_ROWS} more"] if len(events) > MAX_GAP_ROWS else []
    return [
        *fold_parts(terminal, [head, terminal.style(hint, "dim")] if events else [head]),
        *terminal.format_table(rows, indent="  ", shrink=(3,)),
        *more,
    ]


def _format_since(age: timedelta) -> str:
    """Return a round duration that reaches back beyond the beginning of the gap."""
    minutes = int(age.total_seconds() // 60) + 1
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60 + 1}h"


def _count_outcomes(events: Iterable[BeatSettled]) -> str:
    """Return for example `1 caught up, 2 missed`."""
    sums = {"caught up": 0, "missed": 0, "merged": 0}
    for event in events:
        word = "caught up" if event.outcome is BeatOutcome.PENDING else event.outcome.value
        sums[word] += event.count
    parts = [f"{number} {word}" for word, number in sums.items() if number]
    return ", ".join(parts)


def _gap_row(event: BeatSettled, now: datetime, zone: ZoneInfo) -> list[str]:
    word, why = _describe_gap_outcome(event, now)
    return [printable(short_label(event.schedule)), f"due {format_due(event, now, zone)}", word, why]


def _describe_gap_outcome(event: BeatSettled, now: datetime) -> tuple[str, str]:
    many = f" x{event.count}" if event.count > 1 else ""
    if event.outcome is BeatOutcome.PENDING:
        return "running now", f"catch-up, {humanize(now - event.due_at)} late"
    if event.outcome is BeatOutcome.MERGED:
        return f"merged{many}", "one run for all of them"
    if event.reason == MissedReason.TOO_LATE:
        return f"missed{many}", "older than max_late"
    return f"missed{many}", "not caught up"


GAP_HOLD_S = 0.25
"""Seconds in which the beats of a gap are settled: one cycle of the loop."""


class LiveFeed:
    """An event listener that prints lines. After a gap it holds events back for a moment, to report the gap first."""

    def __init__(self, lines: LiveLineFormatter, clock: Clock, call_later: CallLater, *, is_quiet: bool) -> None:
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
        """Take the time from the clock of the running fleet, which may be that of a database."""
        self._clock = clock

    def flush(self) -> None:
        """Print the report about the gap, then everything that was held back."""
        gap, held_events = self._gap, self._held_events
        self._gap, self._held_events = None, []
        if gap is None:
            self._fold.flush_counts()
            return
        about = [event for event in held_events if isinstance(event, BeatSettled) and is_gap_beat(event)]
        terminal = self._lines.terminal
        block = gap_lines(terminal, gap, about, self._clock.now(), self._lines.zone)
        for line in [*block, ""] if block else []:
            terminal.print(line)
        for event in held_events:
            if event not in about:
                self._print_event(event)
        self._fold.flush_counts()
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
    """Return whether `--quiet` still shows it: failures, missed beats, quarantine, repairs and refused files."""
    if isinstance(event, RunFinished):
        return event.status.is_failure
    if isinstance(event, BeatSettled):
        return event.outcome is BeatOutcome.MISSED
    return isinstance(event, ScheduleQuarantined | InconsistencyRepaired | ConfigRejected | AccountHeld)


class JsonFeed:
    """An event listener that prints every event as one line of JSON."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def __call__(self, event: Event) -> None:
        self._terminal.print(json.dumps(event_object(event), ensure_ascii=False))
        self._terminal.out.flush()

    def flush(self) -> None:
        """Do nothing: no event is held back."""


def event_object(event: Event) -> dict[str, object]:
    """Return `{"event": "run_started", "at": …}`: the fields of the event, named as in other JSON output."""
    return {"event": event.name, **{each.name: _field_value(each.name, event) for each in fields(event)}}


def _field_value(name: str, event: Event) -> object:
    value: Any = getattr(event, name)
    if isinstance(value, Gap):
        return {"from": format_timestamp(value.from_at), "until": format_timestamp(value.until), "reason": value.reason}
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, timedelta):
        return format_duration(value)
    if name in ("run_id", "held_by"):
        return None if value is None else format_short_id(value)
    return short_label(value) if name in ("schedule", "triggers") else value


def show_event(feed: LiveFeed | JsonFeed, terminal: Terminal, event: Event) -> None:
    """Print an event. A terminal that was closed, or `| head`, ends the output and not the fleet."""
    try:
        feed(event)
    except BrokenPipeError:
        redirect_to_devnull(terminal.out)
        log.warning("output closed; the fleet continues. Show it with: herdbeat status")
    except OSError as error:  # a full disk, for example
        log.warning("output failed event=%s error=%s", event.name, error)
