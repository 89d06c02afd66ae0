"""The plan of `apply` as lines: one for each schedule with old and new time, its warnings, and the total."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.domain.change import ChangeKind
from herdbeat.errors import truncate_for_message
from herdbeat.service.commands.fleet import ApplyPlan, PlannedChange

_CHANGE_SIGNS = {ChangeKind.ADD: ("+", "green"), ChangeKind.EDIT: ("~", "cyan"), ChangeKind.REMOVE: ("-", "red")}
_MAX_VALUE_CHARS = 40


def format_plan(terminal: Terminal, plan: ApplyPlan, now: datetime, zone: ZoneInfo) -> Iterator[str]:
    rows = [_plan_row(terminal, each, now, zone) for each in plan.items]
    for line, each in zip(terminal.format_table(rows, shrink=(2, 1)), plan.items, strict=True):
        yield line
        for warning in each.warnings:
            # Not in the table, which a sentence would make too wide.
            first, *rest = terminal.wrap(f"{printable(each.subject)}: {printable(warning)}", "   ")
            yield f"{terminal.style('!', 'yellow')}  {first.strip()}"
            yield from rest
    before, after = (f"{number:,.0f}" for number in (plan.runs_before, plan.runs_after))
    if plan.items and before != after:
        yield f"runs/day {before} → {after}"


def _plan_row(terminal: Terminal, item: PlannedChange, now: datetime, zone: ZoneInfo) -> list[str]:
    sign = terminal.style(*_CHANGE_SIGNS[item.what])
    return [sign, printable(item.subject), _describe_change(item, zone), _format_times(item, now, zone)]


def summarize_plan(plan: ApplyPlan, verb: str) -> str:
    """Return `1 to add, 1 to change, 1 warning.`; without a verb `1 added, 1 changed, 1 warning.`"""
    words = (
        ("add", "added", ChangeKind.ADD),
        ("change", "changed", ChangeKind.EDIT),
        ("remove", "removed", ChangeKind.REMOVE),
    )
    parts = [f"{plan.count(what)} {f'{verb} {do}' if verb else did}" for do, did, what in words if plan.count(what)]
    warnings = sum(len(each.warnings) for each in plan.items)
    return f"{', '.join([*parts, *([format_count(warnings, 'warning')] if warnings else [])])}."


def _describe_change(item: PlannedChange, zone: ZoneInfo) -> str:
    match item.what:
        case ChangeKind.ADD:
            own = item.after.get("timezone")
            trigger_text = str(item.after.get("when") or item.after.get("kind") or "")
            return printable(f"{trigger_text} {own}" if own not in (None, zone.key) else trigger_text)
        case ChangeKind.EDIT if "changed" in item.after and not item.before:
            changed = item.after["changed"]
            return printable(f"{', '.join(map(str, changed))} changed" if isinstance(changed, list) else "changed")
        case ChangeKind.EDIT:
            return printable(_format_differences(item.before, item.after)) or "now managed by its file"
        case _:
            return "removed from the files"


def _format_differences(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    parts = []
    for name in after:
        words = f"{_format_value(before.get(name))} → {_format_value(after[name])}"
        parts.append(words if name == "when" else f"{name} {words}")
    return ", ".join(parts)


def _format_value(value: object) -> str:
    if value is None:
        return "—"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return truncate_for_message(text, _MAX_VALUE_CHARS)


def _format_times(item: PlannedChange, now: datetime, zone: ZoneInfo) -> str:
    before, after = _format_time(item.next_before, now, zone), _format_time(item.next_after, now, zone)
    match item.what:
        case ChangeKind.ADD:
            return f"first {after}" if item.next_after else ("disabled" if item.after.get("enabled") is False else "")
        case ChangeKind.EDIT if item.next_before or item.next_after:
            return f"next {after}" if before == after else f"next {before} → {after}"
        case ChangeKind.REMOVE if item.runs:
            return f"{format_count(item.runs, 'run')} kept in history"
        case _:
            return ""


def _format_time(moment: datetime | None, now: datetime, zone: ZoneInfo) -> str:
    return "—" if moment is None else format_time(moment, now, zone)
