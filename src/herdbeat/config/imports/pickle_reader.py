"""Reads pickles of other programs without running any of their code.

A pickle names classes and functions, and calls them. Here every name stands for an inert record of what was called
with what; only dates and time zones become values. So a manipulated database can do nothing but be wrong.
"""

import io
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.errors import HerdbeatError, TimezoneError
from herdbeat.timestamps import parse_zone

MAX_PICKLE_BYTES = 1024 * 1024
_DAMAGE = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What damaged bytes lead to in the standard library."""


class UnreadablePickle(HerdbeatError):
    """The bytes are not a pickle, or a damaged one."""


@dataclass(slots=True)
class PickledObject:
    """An object that a pickle describes: the name of its class, how it was made, and its state."""

    name: str
    args: tuple[Any, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)

    def __setstate__(self, state: object) -> None:
        """Take the state as it is; a pair is a dictionary and the slots."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.state |= part

    def append(self, item: object) -> None:
        self.items.append(item)

    def extend(self, items: "list[object]") -> None:
        self.items.extend(items)

    def __setitem__(self, key: object, value: object) -> None:
        self.state[str(key)] = value

    def __call__(self, *args: object) -> "PickledObject":
        """Return the record of a call: what was found by name may be called in turn."""
        return PickledObject(self.name, args)

    def __hash__(self) -> int:
        return id(self)


def load_pickle(data: bytes) -> object:
    """Return what a pickle describes. Raises UnreadablePickle."""
    if len(data) > MAX_PICKLE_BYTES:
        raise UnreadablePickle("The stored job is larger than 1 MiB.")
    try:
        return _InertUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, HerdbeatError) as error:
        raise UnreadablePickle(f"The stored job cannot be read: {error}.") from error
    except _DAMAGE as error:
        raise UnreadablePickle(f"The stored job cannot be read: {type(error).__name__}.") from error


class _InertUnpickler(pickle.Unpickler):
    """Finds no class and no function but those of dates, and never imports a module."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _VALUES:
            return _VALUES[full]
        if full == "builtins.getattr":
            return _find_attribute
        return _make_class(full)

    def persistent_load(self, pid: object) -> object:
        return PickledObject("persistent", (pid,))


def _make_class(full: str) -> type[PickledObject]:
    """Return a class of records that know this name: NEWOBJ needs a class, not a function."""

    def make(cls: type[PickledObject], *args: object, **_: object) -> PickledObject:
        made = object.__new__(cls)
        PickledObject.__init__(made, full, args)
        return made

    def skip(self: PickledObject, *args: object, **keywords: object) -> None:
        """`__new__` has set everything."""

    return type("PickledRecord", (PickledObject,), {"__new__": make, "__init__": skip, "pickled_name": full})


def _find_attribute(owner: object, name: object) -> object:
    """Stand in for getattr: ZoneInfo._unpickle is stored as an attribute of a class."""
    full = f"{getattr(owner, 'pickled_name', '')}.{name}"
    return _VALUES.get(full) or _make_class(full)


def _make_zone(key: object = "UTC", *_: object) -> tzinfo:
    """Return the zone that pytz, zoneinfo or dateutil has stored. One that is not known is UTC."""
    try:
        return parse_zone(str(key))
    except TimezoneError:
        return UTC


def _make_offset_zone(*args: object) -> tzinfo:
    """Return a fixed offset in minutes, as pytz has it."""
    minutes = args[0] if args and isinstance(args[0], int) else 0
    return timezone(timedelta(minutes=minutes))


def _make_utc(*_: object) -> tzinfo:
    return ZoneInfo("UTC")


_VALUES: dict[str, Any] = {
    "datetime.datetime": datetime,
    "datetime.date": date,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "zoneinfo.ZoneInfo._unpickle": _make_zone,
    "backports.zoneinfo.ZoneInfo._unpickle": _make_zone,
    "pytz._p": _make_zone,
    "pytz._UTC": _make_utc,
    "pytz._FixedOffset": _make_offset_zone,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
}
