"""How an explanation looks: the answer first, then what it rests on. Long lines fold; nothing is cut off."""

from datetime import datetime
from typing import Any

from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, display_width, printable
from herdbeat.cli.output.time_format import format_clock
from herdbeat.durations import format_duration, humanize
from herdbeat.errors import truncate_for_message
from herdbeat.service.queries.explain import Explanation
from herdbeat.service.queries.gates import GateStatus
from herdbeat.service.queries.hints import HintView
from herdbeat.service.queries.upcoming import RunPreview
from herdbeat.timestamps import parse_timestamp

_TIME_CHANGING_STEPS = frozenset({"clamp", "jitter", "hours", "bound", "pause"})
_NOTE_STEP = "note"
_SHADOWED_STEP = "shadowed"
_MAX_ERROR_CHARS = 300
"""Letters of an error that are shown; `herdbeat runs` and the log have the rest."""

_MIN_REASON_COLUMNS = 24
"""Columns that a reason keeps on the narrowest screen; its time then stands where it falls."""


def show_explanation(terminal: Terminal, handle: FleetHandle, explanation: Explanation) -> None:
    _show_headline(terminal, handle, explanation)
    _show_fields(terminal, explanation)
    if explanation.gates or any(step["kind"] != _NOTE_STEP for step in explanation.steps):
        terminal.print()
    _show_reasons(terminal, handle, explanation)
    for index, hint in enumerate(explanation.untraced_hints):
        _print_labelled(terminal, "" if index else "HINTS", _format_hint(handle, hint).split(" "), " ")
    if explanation.last:
        _print_labelled(terminal, "LAST", _truncate_line(explanation.last).split(" "), " ")
    if explanation.gates:
        _print_labelled(terminal, "GATES", [_format_gate(terminal, gate) for gate in explanation.gates], "   ")
    if explanation.preview.instants:
        _print_labelled(terminal, "THEN", _format_following_runs(handle, explanation.preview).split(" "), " ")


def _show_headline(terminal: Terminal, handle: FleetHandle, explanation: Explanation) -> None:
    if explanation.facts:
        lines = terminal.wrap(printable(explanation.text), "")
    else:
        at = explanation.next_run_at
        parts = [terminal.style(printable(explanation.schedule), "bold"), str(explanation.state)]
        parts += [f"{at.astimezone(handle.zone):%a %d %b %H:%M:%S %Z}", f"source {explanation.source}"] if at else []
        lines = [*_fold_parts(terminal, parts, "   ", "  "), *terminal.wrap(printable(explanation.text), "  ")]
    for line in lines:
        terminal.print(line)


def _show_fields(terminal: Terminal, explanation: Explanation) -> None:
    facts = [*explanation.facts, *([("fix", explanation.fix)] if explanation.fix else [])]
    available_width = max((len(word) for word, _ in facts), default=0) + 2
    for word, text in facts:
        first, *others = terminal.wrap(printable(text), " " * (available_width + 2))
        for line in (f"  {word:{available_width}}{first.lstrip()}", *others):
            terminal.print(line)


def _show_reasons(terminal: Terminal, handle: FleetHandle, explanation: Explanation) -> None:
    """The times that took part, and the notes. What only repeats the headline is left out."""
    times = [step for step in explanation.steps if step["kind"] != _NOTE_STEP]
    notes = [step for step in explanation.steps if step["kind"] == _NOTE_STEP and times]
    if times:
        # While an interval runs there is no next time yet: what is kept is the decision that has caused the run.
        is_running = explanation.next_run_at is None and not explanation.facts
        terminal.print(terminal.style("WHY IT CAME DUE" if is_running else "WHY", "bold"))
        _show_steps(terminal, handle, times)
    for note in notes:
        _print_labelled(terminal, "NOTE", printable(str(note["text"])).split(" "), " ")


def _show_steps(terminal: Terminal, handle: FleetHandle, steps: list[dict[str, Any]]) -> None:
    """Reasons on the left, their times in one column beside them."""
    time_texts = [_format_step_time(handle, step.get("at")) for step in steps]
    time_width = max(map(len, time_texts)) + 2
    limit = None if terminal.columns is None else max(_MIN_REASON_COLUMNS, terminal.columns - 4 - time_width)
    texts = [_format_step(step) for step in steps]
    available_width = min(max(map(display_width, texts)), limit or max(map(display_width, texts)))
    for step, text, when in zip(steps, texts, time_texts, strict=True):
        first, *others = _wrap_words(text, available_width)
        glyph = (
            terminal.style("✓", "green") if step.get("won") else "→" if step["kind"] in _TIME_CHANGING_STEPS else "·"
        )
        terminal.print(f"  {glyph} {first}{' ' * (available_width - display_width(first))}  {when}".rstrip())
        for line in others:
            terminal.print(f"    {line}")


def _truncate_line(text: str) -> str:
    return truncate_for_message(printable(text), _MAX_ERROR_CHARS)


def _format_step(step: dict[str, Any]) -> str:
    suffix = " (a stronger hint is active)" if step["kind"] == _SHADOWED_STEP else ""
    return printable(step["text"]) + suffix


def _wrap_words(text: str, available_width: int) -> list[str]:
    """A text in lines of so many columns; a single word may be longer."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and display_width(longer) > available_width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _format_step_time(handle: FleetHandle, at: str | None) -> str:
    return format_time(parse_timestamp(at), handle.now, handle.zone) if at else ""


def _print_labelled(terminal: Terminal, label: str, parts: list[str], between: str) -> None:
    """A word in capitals and what belongs to it; what does not fit stands below, in its column."""
    indent = " " * (max(len(label), 5) + 2)
    for index, line in enumerate(_fold_parts(terminal, [indent + parts[0], *parts[1:]], between, indent)):
        head = terminal.style(label, "bold") + indent[len(label) :]
        terminal.print(line if index else head + line[len(indent) :])


def _fold_parts(terminal: Terminal, parts: list[str], between: str, indent: str) -> list[str]:
    """The parts side by side; those that do not fit stand below."""
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}{between}{part}"
        if terminal.columns is not None and display_width(longer) > terminal.columns:
            lines.append(indent + part)
        else:
            lines[-1] = longer
    return lines


def _format_hint(handle: FleetHandle, hint: HintView) -> str:
    record = hint.record
    every = "" if record.every is None else f"every {format_duration(record.every)}"
    hint_text = f"at {format_clock(record.at, handle.zone, seconds=True)}" if record.at is not None else every
    reason = f' "{record.reason}"' if record.reason else ""
    lasts = humanize(record.expires_at - handle.now)
    return printable(f"{hint_text} by {record.origin}, {lasts} left{reason} ({hint.state})")


def _format_gate(terminal: Terminal, gate: GateStatus) -> str:
    count = f" {gate.used:g}/{gate.most:g}" if gate.most is not None and gate.used is not None else ""
    count = f" {printable(gate.text)}" if gate.text else count
    mark = terminal.style("✓", "green") if gate.ok else terminal.style("✗", "red")
    return f"{gate.gate.replace('_', ' ')}{count} {mark}"


def _format_following_runs(handle: FleetHandle, coming: RunPreview) -> str:
    """03:00:30, 03:01:00, … until the hint ends 03:11:00; after that every 5m"""
    shown = coming.instants if coming.is_complete else coming.instants[:2]
    times = ", ".join(_format_time(handle, each) for each in shown)
    if coming.is_complete:
        return f"{times}, and then no more"
    if coming.until is None:
        return f"{times}, … {coming.pace}{', if it succeeds' if coming.is_conditional else ''}"
    return f"{times}, … until the hint ends {_format_time(handle, coming.until)}; after that {coming.after}"


def _format_time(handle: FleetHandle, moment: datetime) -> str:
    return format_time(moment, handle.now, handle.zone)
