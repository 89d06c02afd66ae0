"""Any value of ours as JSON and back, by its type hints: for specs in the store and stored decisions.

Moments are RFC 3339 in UTC, durations whole microseconds, zones their IANA names. A trigger is its kind and options;
since the kinds live a floor above, reading one takes the function that knows them.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from herdbeat.domain.trigger import Trigger, TriggerKind

T = TypeVar("T")
TriggerLoader = Callable[[TriggerKind, Mapping[str, str]], Trigger]
"""How a stored trigger becomes a value again: `herdbeat.triggers.load_trigger`."""

_MICROSECOND = timedelta(microseconds=1)


def to_json(value: Any) -> Any:
    """Plain JSON data. What a field leaves at its default is left out: a spec is stored with every revision."""
    if value is None or isinstance(value, (bool, int, float, str)):
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
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    return _object_to_json(value)


def _object_to_json(value: Any) -> Any:
    if hasattr(value, "next_time"):
        return {"kind": value.kind, **value.options()}
    assert is_dataclass(value), f"{type(value).__name__} has no JSON form"
    return {
        each.name: to_json(getattr(value, each.name))
        for each in fields(value)
        if each.init and getattr(value, each.name) != each.default
    }


def from_json(kind: type[T], data: Any, load_trigger: TriggerLoader) -> T:
    """The value of that type whose to_json() is `data`."""
    found: T = _decode(kind, data, load_trigger)
    return found


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
        return _decode_union(type_args, data, load_trigger)
    if origin is tuple:
        return tuple(_decode(type_args[0], item, load_trigger) for item in data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(type_args[1], item, load_trigger) for key, item in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    hints = _type_hints(kind)
    return kind(**{name: _decode(hints[name], item, load_trigger) for name, item in data.items()})


def _decode_union(type_args: tuple[Any, ...], data: Any, load_trigger: TriggerLoader) -> Any:
    """`X | None`, or plain scalars that need no reading."""
    (only,) = [each for each in type_args if each is not type(None)]
    return _decode(only, data, load_trigger)


@lru_cache
def _type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


_DECODERS: dict[Any, Callable[[Any], Any]] = {
    str: str,
    bool: bool,
    int: int,
    float: float,
    datetime: datetime.fromisoformat,
    time: time.fromisoformat,
    timedelta: lambda microseconds: timedelta(microseconds=microseconds),
    ZoneInfo: ZoneInfo,
}
