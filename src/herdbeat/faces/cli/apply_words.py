"""A plan in words: a line for each schedule, old and new time beside each other, and what it comes to."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.change import What
from herdbeat.errors import shown
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.scheduler.foresee import Foreseen, Foresight

_SIGNS = {What.ADD: ("+", "green"), What.EDIT: ("~", "cyan"), What.REMOVE: ("-", "red")}
_LONGEST = 40


def plan_lines(terminal: Terminal, plan: Foresight, now: datetime, zone: ZoneInfo) -> Iterator[str]:
    rows = [_row(terminal, each, now, zone) for each in plan.items]
    for line, each in zip(terminal.lines(rows, shrink=(2, 1)), plan.items, strict=True):
        yield line
        for said in each.warnings:
            # Beside the table, which a sentence would make too wide.
            first, *rest = terminal.wrap(f"{printable(each.subject)}: {printable(said)}", "   ")
            yield f"{terminal.style('!', 'yellow')}  {first.strip()}"
            yield from rest
    before, after = (f"{number:,.0f}" for number in (plan.runs_before, plan.runs_after))
    if plan.items and before != after:
        yield f"runs/day {before} → {after}"


def _row(terminal: Terminal, item: Foreseen, now: datetime, zone: ZoneInfo) -> list[str]:
    glyph, colour = _SIGNS[item.what]
    return [terminal.style(glyph, colour), printable(item.subject), _what(item, zone), _times(item, now, zone)]


def summary(plan: Foresight, verb: str) -> str:
    """1 to add, 1 to change, 1 warning. — or, without the verb, in the past."""
    words = (("add", "added", What.ADD), ("change", "changed", What.EDIT), ("remove", "removed", What.REMOVE))
    parts = [f"{plan.count(what)} {f'{verb} {do}' if verb else did}" for do, did, what in words if plan.count(what)]
    warnings = sum(len(each.warnings) for each in plan.items)
    return f"{', '.join([*parts, *([counted(warnings, 'warning')] if warnings else [])])}."


def _what(item: Foreseen, zone: ZoneInfo) -> str:
    match item.what:
        case What.ADD:
            own = item.after.get("timezone")
            told = str(item.after.get("when") or item.after.get("kind") or "")
            return printable(f"{told} {own}" if own not in (None, zone.key) else told)
        case What.EDIT if "changed" in item.after and not item.before:
            changed = item.after["changed"]
            return printable(f"{', '.join(map(str, changed))} changed" if isinstance(changed, list) else "changed")
        case What.EDIT:
            return printable(_differences(item.before, item.after)) or "from now on managed by its file"
        case _:
            return "removed from the files"


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    parts = []
    for name in after:
        words = f"{_value(before.get(name))} → {_value(after[name])}"
        parts.append(words if name == "when" else f"{name} {words}")
    return ", ".join(parts)


def _value(value: object) -> str:
    if value is None:
        return "—"
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LONGEST)


def _times(item: Foreseen, now: datetime, zone: ZoneInfo) -> str:
    before, after = _time(item.next_before, now, zone), _time(item.next_after, now, zone)
    match item.what:
        case What.ADD:
            return f"first {after}" if item.next_after else ("off" if item.after.get("enabled") is False else "")
        case What.EDIT if item.next_before or item.next_after:
            return f"next {after}" if before == after else f"next {before} → {after}"
        case What.REMOVE if item.runs:
            return f"{counted(item.runs, 'run')} stay{'s' if item.runs == 1 else ''} in history"
        case _:
            return ""


def _time(moment: datetime | None, now: datetime, zone: ZoneInfo) -> str:
    return "—" if moment is None else near_time(moment, now, zone)
