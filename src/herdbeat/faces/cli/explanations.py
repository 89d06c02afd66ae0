"""How an explanation looks: the answer first, then what it rests on. Long lines fold; nothing is cut off."""

from datetime import datetime
from typing import Any

from herdbeat.durations import format_duration, spoken_duration
from herdbeat.errors import shown
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import near_time
from herdbeat.faces.cli.terminal import Terminal, printable, width
from herdbeat.faces.cli.times import clock
from herdbeat.moments import parse_moment
from herdbeat.service.coming import Coming
from herdbeat.service.explain import Explanation
from herdbeat.service.gates import Gate
from herdbeat.service.hints import StandingHint

_MOVES = frozenset({"clamp", "jitter", "hours", "bound", "pause"})
_NOTE = "note"
_SHADOWED = "shadowed"
_LONGEST = 300
"""Letters of an error that are shown; `herdbeat runs` and the log have the rest."""

_LEAST = 24
"""Columns that a reason keeps on the narrowest screen; its time then stands where it falls."""


def show_explanation(terminal: Terminal, ledger: Ledger, explanation: Explanation) -> None:
    _show_headline(terminal, ledger, explanation)
    _show_facts(terminal, explanation)
    if explanation.gates or any(step["kind"] != _NOTE for step in explanation.steps):
        terminal.say()
    _show_why(terminal, ledger, explanation)
    for index, hint in enumerate(explanation.unheard):
        _labelled(terminal, "" if index else "HINTS", _hint(ledger, hint).split(" "), " ")
    if explanation.last:
        _labelled(terminal, "LAST", _one_line(explanation.last).split(" "), " ")
    if explanation.gates:
        _labelled(terminal, "GATES", [_gate(terminal, gate) for gate in explanation.gates], "   ")
    if explanation.coming.instants:
        _labelled(terminal, "THEN", _then(ledger, explanation.coming).split(" "), " ")


def _show_headline(terminal: Terminal, ledger: Ledger, explanation: Explanation) -> None:
    if explanation.facts:
        lines = terminal.wrap(printable(explanation.text), "")
    else:
        at = explanation.next_run_at
        parts = [terminal.style(printable(explanation.schedule), "bold"), str(explanation.state)]
        parts += [f"{at.astimezone(ledger.zone):%a %d %b %H:%M:%S %Z}", f"source {explanation.source}"] if at else []
        lines = [*_folded(terminal, parts, "   ", "  "), *terminal.wrap(printable(explanation.text), "  ")]
    for line in lines:
        terminal.say(line)


def _show_facts(terminal: Terminal, explanation: Explanation) -> None:
    facts = [*explanation.facts, *([("fix", explanation.fix)] if explanation.fix else [])]
    room = max((len(word) for word, _ in facts), default=0) + 2
    for word, text in facts:
        first, *others = terminal.wrap(printable(text), " " * (room + 2))
        for line in (f"  {word:{room}}{first.lstrip()}", *others):
            terminal.say(line)


def _show_why(terminal: Terminal, ledger: Ledger, explanation: Explanation) -> None:
    """The times that took part, and the notes. What only repeats the headline is left out."""
    times = [step for step in explanation.steps if step["kind"] != _NOTE]
    notes = [step for step in explanation.steps if step["kind"] == _NOTE and times]
    if times:
        # While an interval runs there is no next time yet: what is kept is the decision that has caused the run.
        is_at_it = explanation.next_run_at is None and not explanation.facts
        terminal.say(terminal.style("WHY IT CAME DUE" if is_at_it else "WHY", "bold"))
        _show_steps(terminal, ledger, times)
    for note in notes:
        _labelled(terminal, "NOTE", printable(str(note["text"])).split(" "), " ")


def _show_steps(terminal: Terminal, ledger: Ledger, steps: list[dict[str, Any]]) -> None:
    """Reasons on the left, their times in one column beside them."""
    whens = [_when(ledger, step.get("at")) for step in steps]
    beside = max(map(len, whens)) + 2
    limit = None if terminal.columns is None else max(_LEAST, terminal.columns - 4 - beside)
    texts = [_step_text(step) for step in steps]
    room = min(max(map(width, texts)), limit or max(map(width, texts)))
    for step, text, when in zip(steps, texts, whens, strict=True):
        first, *others = _words_in(text, room)
        glyph = terminal.style("✓", "green") if step.get("won") else "→" if step["kind"] in _MOVES else "·"
        terminal.say(f"  {glyph} {first}{' ' * (room - width(first))}  {when}".rstrip())
        for line in others:
            terminal.say(f"    {line}")


def _one_line(text: str) -> str:
    return shown(printable(text), _LONGEST)


def _step_text(step: dict[str, Any]) -> str:
    silenced = " (a stronger hint is active)" if step["kind"] == _SHADOWED else ""
    return printable(step["text"]) + silenced


def _words_in(text: str, room: int) -> list[str]:
    """A text in lines of so many columns; a single word may be longer."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _when(ledger: Ledger, at: str | None) -> str:
    return near_time(parse_moment(at), ledger.now, ledger.zone) if at else ""


def _labelled(terminal: Terminal, label: str, parts: list[str], between: str) -> None:
    """A word in capitals and what belongs to it; what does not fit stands below, in its column."""
    indent = " " * (max(len(label), 5) + 2)
    for index, line in enumerate(_folded(terminal, [indent + parts[0], *parts[1:]], between, indent)):
        head = terminal.style(label, "bold") + indent[len(label) :]
        terminal.say(line if index else head + line[len(indent) :])


def _folded(terminal: Terminal, parts: list[str], between: str, indent: str) -> list[str]:
    """The parts side by side; those that do not fit stand below."""
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}{between}{part}"
        if terminal.columns is not None and width(longer) > terminal.columns:
            lines.append(indent + part)
        else:
            lines[-1] = longer
    return lines


def _hint(ledger: Ledger, hint: StandingHint) -> str:
    record = hint.record
    every = "" if record.every is None else f"every {format_duration(record.every)}"
    wish = f"at {clock(record.at, ledger.zone, seconds=True)}" if record.at is not None else every
    reason = f' "{record.reason}"' if record.reason else ""
    lasts = spoken_duration(record.expires_at - ledger.now)
    return printable(f"{wish} by {record.origin}, {lasts} left{reason} ({hint.state})")


def _gate(terminal: Terminal, gate: Gate) -> str:
    count = f" {gate.used:g}/{gate.most:g}" if gate.most is not None and gate.used is not None else ""
    count = f" {printable(gate.text)}" if gate.text else count
    mark = terminal.style("✓", "green") if gate.ok else terminal.style("✗", "red")
    return f"{gate.gate.replace('_', ' ')}{count} {mark}"


def _then(ledger: Ledger, coming: Coming) -> str:
    """03:00:30, 03:01:00, … until the hint ends 03:11:00; after that every 5m"""
    shown = coming.instants if coming.is_all else coming.instants[:2]
    times = ", ".join(_moment(ledger, each) for each in shown)
    if coming.is_all:
        return f"{times}, and then no more"
    if coming.until is None:
        return f"{times}, … {coming.pace}{', if it succeeds' if coming.is_hoped else ''}"
    return f"{times}, … until the hint ends {_moment(ledger, coming.until)}; after that {coming.after}"


def _moment(ledger: Ledger, moment: datetime) -> str:
    return near_time(moment, ledger.now, ledger.zone)
