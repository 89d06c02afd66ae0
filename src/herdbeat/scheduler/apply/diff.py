"""Describe what an apply changes in the words of the file: of each schedule and target only what differs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.change import ChangeData
from herdbeat.domain.policies import Bounds, Budget, Limits
from herdbeat.domain.references import VARIABLES_KEY
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.durations import format_duration
from herdbeat.errors import truncate_for_message
from herdbeat.redaction import redact, redact_data
from herdbeat.store.base import ScheduleRow, TargetRow
from herdbeat.timestamps import format_timestamp

_MAX_PROMPT_CHARS = 80
"""Characters of a prompt that are recorded: enough to recognize it."""

_FLATTENED_POLICIES = (Limits, Bounds)
"""Policies whose fields are keys of their own in a file."""

_CONFIG_KEYS = {"at_least": "min_interval", "at_most": "max_interval", "zone": "timezone"}


def describe_spec(plan: ScheduleSpec) -> dict[str, object]:
    """Return a plan by the keys of the file, without those that are not set."""
    return {"when": plan.trigger.describe(), **_flatten(plan.policies)}


def diff_schedule(
    before: ScheduleRow, old: ScheduleSpec | None, after: ScheduleRow, new: ScheduleSpec
) -> tuple[ChangeData, ChangeData]:
    """Return what differs, before and after. `old` is None if it could not be read: then all of the new one does."""
    before_data = {"enabled": before.enabled, **_describe_run_spec(before), **(describe_spec(old) if old else {})}
    after_data = {"enabled": after.enabled, **_describe_run_spec(after), **describe_spec(new)}
    names = [name for name in {**before_data, **after_data} if before_data.get(name) != after_data.get(name)]
    names = [name for name in names if name != VARIABLES_KEY]  # the texts themselves show them
    return _select(before_data, names), _select(after_data, names)


def _select(data: ChangeData, names: Sequence[str]) -> ChangeData:
    """Return the data of these names. It is recorded and shown, so secrets are hidden."""
    return {name: redact_data(data.get(name), name) for name in names}


def diff_target(before: TargetRow, after: TargetRow) -> ChangeData:
    """Return only which keys differ: the values of a target may be secret."""
    before_data, after_data = _describe_target(before), _describe_target(after)
    names = {*before_data, *after_data} - {VARIABLES_KEY}
    changed = sorted(name for name in names if before_data.get(name) != after_data.get(name))
    return {"changed": changed} if changed else {}


def describe_budget(budget: Budget | None) -> dict[str, object] | None:
    return None if budget is None else _flatten(budget)


def _flatten(value: Any) -> dict[str, object]:
    flat: dict[str, object] = {}
    for item in fields(value):
        field_value = getattr(value, item.name)
        if isinstance(field_value, _FLATTENED_POLICIES):
            flat |= _flatten(field_value)
        elif item.init and field_value is not None and field_value not in ("", ()):
            flat[_CONFIG_KEYS.get(item.name, item.name)] = _to_json_value(field_value)
    return flat


def _to_json_value(value: object) -> object:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, ZoneInfo):
        return value.key
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_to_json_value(item) for item in value]
    return _flatten(value) if is_dataclass(value) and type(value).__str__ is object.__str__ else str(value)


def _describe_run_spec(row: ScheduleRow) -> dict[str, object]:
    values: dict[str, object] = json.loads(row.brief)
    return {
        name: truncate_for_message(redact(value), _MAX_PROMPT_CHARS) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _describe_target(row: TargetRow) -> dict[str, object]:
    return {"kind": row.kind, "max_concurrent": row.max_concurrent, "hooks": row.hooks, **json.loads(row.spec)}
