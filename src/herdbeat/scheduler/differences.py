"""What an apply has changed, for the record: of each schedule and target the few words that differ."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.change import Facts
from herdbeat.domain.plan import Plan
from herdbeat.domain.policies import Bounds, Budget, Limits
from herdbeat.durations import format_duration
from herdbeat.errors import shown
from herdbeat.moments import format_moment
from herdbeat.store.base import ScheduleRow, TargetRow

_LONGEST = 80
"""Letters of a prompt that are kept: enough to see which one it was."""

_SPREAD = (Limits, Bounds)
"""Policies that are several keys of a file."""

_KEYS = {"at_least": "min_interval", "at_most": "max_interval", "zone": "timezone"}


def plan_facts(plan: Plan) -> dict[str, object]:
    """A plan in the words of the file, as far as it says anything."""
    return {"when": plan.trigger.describe(), **_spread(plan.policies)}


def edit_of(before: ScheduleRow, old: Plan | None, after: ScheduleRow, new: Plan) -> tuple[Facts, Facts]:
    """What differs, before and after. Without the old plan, which could not be read, the new one stands alone."""
    was = {"enabled": before.enabled, **_brief(before), **(plan_facts(old) if old else {})}
    will = {"enabled": after.enabled, **_brief(after), **plan_facts(new)}
    names = [name for name in {**was, **will} if was.get(name) != will.get(name)]
    return {name: was.get(name) for name in names}, {name: will.get(name) for name in names}


def target_edit_of(before: TargetRow, after: TargetRow) -> Facts:
    """Only which keys differ: what a target says may be secret."""
    was, will = _target(before), _target(after)
    changed = sorted(name for name in {**was, **will} if was.get(name) != will.get(name))
    return {"changed": changed} if changed else {}


def budget_facts(budget: Budget | None) -> dict[str, object] | None:
    return None if budget is None else _spread(budget)


def _spread(value: Any) -> dict[str, object]:
    told: dict[str, object] = {}
    for each in fields(value):
        found = getattr(value, each.name)
        if isinstance(found, _SPREAD):
            told |= _spread(found)
        elif each.init and found is not None and found not in ("", ()):
            told[_KEYS.get(each.name, each.name)] = _told(found)
    return told


def _told(value: Any) -> object:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, datetime):
        return format_moment(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, ZoneInfo):
        return value.key
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _told(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_told(item) for item in value]
    return _spread(value) if is_dataclass(value) and type(value).__str__ is object.__str__ else str(value)


def _brief(row: ScheduleRow) -> dict[str, object]:
    said: dict[str, object] = json.loads(row.brief)
    return {name: shown(value, _LONGEST) if isinstance(value, str) else value for name, value in said.items()}


def _target(row: TargetRow) -> dict[str, object]:
    return {"kind": row.kind, "max_concurrent": row.max_concurrent, **json.loads(row.spec)}
