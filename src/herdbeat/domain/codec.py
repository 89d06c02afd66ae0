"""Encodes domain values as JSON and decodes them by their type hints, for specs and decisions in the store.

Timestamps are RFC 3339 in UTC, durations whole microseconds, zones their IANA names. A trigger is its kind and its
options. The trigger kinds are in a layer above, so decoding takes a function that builds them.

The names of dataclass fields are written to the ledger: renaming a field breaks every existing ledger.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.timestamps import clamp_to_calendar

T = TypeVar("T")
TriggerLoader = Callable[[TriggerKind, Mapping[str, str]], Trigger]
"""Builds a trigger from its stored kind and options: `herdbeat.triggers.load_trigger`."""

_MICROSECOND = timedelta(microseconds=1)


def to_json(value: Any) -> Any:
    """Return plain JSON data. Fields that have their default are omitted: a spec is stored with every revision."""
    if type(value) is str or value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, datetime):
        return timestamp_to_json(value)
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, ZoneInfo):
        return value.key
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (tuple, list)) else _object_to_json(value)


def _object_to_json(value: Any) -> Any:
    # A trigger: no other value has this method. Trigger is a protocol, so there is no base class to test for.
    if hasattr(value, "next_time"):
        return {"kind": value.kind, **value.options()}
    data: dict[str, Any] = {}
    for name, default in _list_fields(value.__class__):
        item = getattr(value, name)
        if item is not default and item != default:  # most are the default itself, and comparing is a call for many
            data[name] = to_json(item)
    return data


@cache
def _list_fields(kind: type) -> tuple[tuple[str, object], ...]:
    """Return the fields of a dataclass with their defaults. `fields` makes a new list with every call."""
    assert is_dataclass(kind), f"{kind.__name__} has no JSON form"
    return tuple((field.name, field.default) for field in fields(kind) if field.init)


def from_json(kind: type[T], data: Any, load_trigger: TriggerLoader) -> T:
    """Return the value of that type whose to_json() is `data`."""
    value: T = _decode(kind, data, load_trigger)
    return value


def timestamp_to_json(moment: datetime) -> str:
    return f"{moment.isoformat()[:-6]}Z" if moment.tzinfo is UTC else moment.isoformat().replace("+00:00", "Z")


def _decode(kind: Any, data: Any, load_trigger: TriggerLoader) -> Any:
    if data is None or kind in (Any, object):
        return data
    decoder = _DECODERS.get(kind)
    if decoder is not None:
        return decoder(data)
    if kind is Trigger:
        options = dict(data)
        return load_trigger(TriggerKind(options.pop("kind")), options)
    origin, type_args = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        # `X | None`, the only union that domain values use. None itself was handled above.
        (member,) = [type_arg for type_arg in type_args if type_arg is not type(None)]
        return _decode(member, data, load_trigger)
    if origin is tuple:
        return tuple(_decode(type_args[0], item, load_trigger) for item in data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(type_args[1], item, load_trigger) for key, item in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    hints = _type_hints(kind)
    return kind(**{name: _decode(hints[name], item, load_trigger) for name, item in data.items()})


_type_hints = lru_cache(get_type_hints)
_DECODERS: dict[Any, Callable[[Any], Any]] = {
    **{kind: kind for kind in (str, bool, int, float, ZoneInfo)},
    datetime: lambda text: clamp_to_calendar(datetime.fromisoformat(text)),
    time: time.fromisoformat,
    timedelta: lambda microseconds: timedelta(microseconds=microseconds),
}
