"""`herdbeat explain`: three questions, one trace."""

import json
from datetime import datetime, timedelta
from typing import Any

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.terminal import Terminal, printable, width
from herdbeat.faces.cli.times import clock
from herdbeat.faces.cli.world import World
from herdbeat.moments import parse_moment
from herdbeat.service.explain import (
    Explanation,
    Past,
    explain_instant,
    explain_next,
    explain_nothing,
    explain_run,
    explanation_object,
)
from herdbeat.service.questions import find_run, find_schedule
from herdbeat.store.reader import Filter

NEAR = timedelta(minutes=1)
"""Who asks for 09:00 means the interval that came due at 09:00:12, too."""

_MOVES = frozenset({"clamp", "jitter", "hours", "bound", "pause"})


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        explanation = _explain(given, ledger)
        if given.has(flags.JSON):
            world.terminal.say(json.dumps(explanation_object(explanation), indent=2, ensure_ascii=False))
        else:
            _show(world.terminal, ledger, explanation)
    return 0


def _explain(given: Given, ledger: Ledger) -> Explanation:
    """A schedule's name comes first: a target may well be called `beef`, which is also the id of a run."""
    reader, selector = ledger.opened(), given.words[0]
    try:
        record = find_schedule(reader, selector)
    except NotFound:
        found = find_run(reader, selector)
        if found is None:
            raise
        return explain_run(found, reader.trace_of_beat(found.beat_id), ledger.now, ledger.zone)
    at = given.value(flags.AT)
    if at is None:
        pending = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
        waiting = next(iter(reader.beats(pending)), None) if record.waiting else None
        return explain_next(record, ledger.now, is_served=ledger.holder is not None, waiting=waiting)
    return _explain_past(ledger, record, read_past(at, ledger.now, ledger.zone))


def _explain_past(ledger: Ledger, record: ScheduleRecord, at: datetime) -> Explanation:
    reader = ledger.opened()
    held = reader.beat_at(record.target, record.name, at)
    before, after = (None if each is None else reader.beat(each) for each in reader.neighbours(record.id, at))
    beat = reader.beat(held) if held is not None else _nearest(at, before, after)
    if beat is None:
        return explain_nothing(record, at, (before, after), ledger.now, ledger.zone)
    gaps = reader.gaps(beat.due_at) if beat.outcome is BeatOutcome.MISSED else []
    gap = next((gap for gap in gaps if gap.covers(beat.last_due_at)), None)
    runs = tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs)))) if beat.runs else ()
    past = Past(beat=beat, gap=gap, runs=runs, trace=reader.trace_of_beat(beat.id))
    return explain_instant(record, past, ledger.now, ledger.zone)


def _nearest(at: datetime, before: BeatRecord | None, after: BeatRecord | None) -> BeatRecord | None:
    """The beat within a minute of the moment that is asked for, if there is one."""
    if after is not None and after.due_at - at < NEAR:
        return after
    return before if before is not None and at - before.last_due_at < NEAR else None


def _show(terminal: Terminal, ledger: Ledger, explanation: Explanation) -> None:
    _show_headline(terminal, ledger, explanation)
    room = max((len(word) for word, _ in (*explanation.facts, ("fix", ""))), default=0) + 2
    for word, text in explanation.facts:
        _show_fact(terminal, word, text, room)
    if explanation.fix:
        _show_fact(terminal, "fix", explanation.fix, room)
    if explanation.steps:
        terminal.say()
        terminal.say(terminal.style("WHY", "bold"))
        _show_steps(terminal, ledger, explanation.steps)
    if explanation.gates:
        told = (_gate(terminal, gate.gate, gate.used, gate.most, ok=gate.ok) for gate in explanation.gates)
        terminal.say(f"{terminal.style('GATES', 'bold')}  {'   '.join(told)}")


def _show_headline(terminal: Terminal, ledger: Ledger, explanation: Explanation) -> None:
    if explanation.facts:
        lines = terminal.wrap(printable(explanation.text), "")
    else:
        at = explanation.next_run_at
        parts = [terminal.style(printable(explanation.schedule), "bold"), str(explanation.state)]
        parts += [f"{at.astimezone(ledger.zone):%a %d %b %H:%M:%S %Z}", f"source {explanation.source}"] if at else []
        for line in _folded(terminal, parts):
            terminal.say(line)
        lines = terminal.wrap(printable(explanation.text), "  ")
    for line in lines:
        terminal.say(line)


def _folded(terminal: Terminal, parts: list[str]) -> list[str]:
    """The parts side by side; those that do not fit stand below."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}   {part}" if lines[-1] else part
        if terminal.columns is not None and width(longer) > terminal.columns and lines[-1]:
            lines.append(f"  {part}")
        else:
            lines[-1] = longer
    return lines


def _show_fact(terminal: Terminal, word: str, text: str, room: int) -> None:
    first, *others = terminal.wrap(printable(text), " " * (room + 2))
    terminal.say(f"  {word:{room}}{first.lstrip()}")
    for line in others:
        terminal.say(line)


def _show_steps(terminal: Terminal, ledger: Ledger, steps: tuple[dict[str, Any], ...]) -> None:
    rows = []
    for step in steps:
        glyph = terminal.style("✓", "green") if step.get("won") else "→" if step["kind"] in _MOVES else "·"
        at = step.get("at")
        when = clock(parse_moment(at), ledger.zone, seconds=True) if at else ""
        aside = f"({step['kind']})" if step["kind"] in ("shadowed", "expired", "note") else ""
        rows.append([f"{glyph} {printable(step['text'])}", when, aside])
    room = max(width(row[0]) for row in rows)
    for line in terminal.lines([[row[0].ljust(room), *row[1:]] for row in rows], indent="  ", shrink=(0,)):
        terminal.say(line)


def _gate(terminal: Terminal, gate: str, used: int | None, most: int | None, *, ok: bool) -> str:
    count = f" {used}/{most}" if most is not None else ""
    mark = terminal.style("✓", "green") if ok else terminal.style("✗", "red")
    return f"{gate.replace('_', ' ')}{count} {mark}"
