"""The decorator of our values: a dataclass whose methods are made when they are first used.

The library compiles six methods of every class at its import. A command of the terminal imports some two hundred
classes and makes values of a few of them, so this was a third of its processor time. Everything else is the library's:
fields, `replace`, `match`, and what type checkers know.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 -- the same for a type checker
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """Make a class a dataclass. Methods that its own body defines stay."""
        if cls is None:
            return partial(dataclass, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        own_names = {name for name, value in vars(cls).items() if value is not None}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the library inspects the class to write one
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        methods = {"__init__": _make_late_init(made, frozen=frozen), "__repr__": _represent}
        if eq:
            methods |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
            methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
        for name, method in methods.items():
            if name not in own_names:
                setattr(made, name, method)
        return made


_UNSET = object()


def _make_late_init(cls: type, *, frozen: bool) -> Callable[..., None]:
    """Return an `__init__` that compiles the real one for the first value, and takes its place."""

    def __init__(self: object, *args: object, **values: object) -> None:  # noqa: N807 -- its name in error messages
        init = _compile_init(cls, frozen=frozen)
        cls.__init__ = init  # type: ignore[misc]
        init(self, *args, **values)

    return __init__


def _compile_init(cls: type, *, frozen: bool) -> Callable[..., None]:
    """Compile `def __init__(self, …)` from the fields, as the library does."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_UNSET": _UNSET}
    parameters = ["self"]
    keywords: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        default = ""
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            default = value = f"_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            default, value = "_UNSET", f"_make_{name}()"
        if field.init:
            value = f"{value} if {name} is _UNSET else {name}" if default == "_UNSET" else name
            (keywords if field.kw_only else parameters).append(f"{name}={default}" if default else name)
        elif not default:
            continue
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    signature = ", ".join([*parameters, *(["*", *keywords] if keywords else [])])
    lines = "\n    ".join(body or ["pass"])
    exec(f"def __init__({signature}):\n    {lines}", names)  # noqa: S102 -- the names of our own fields
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


_compared_getters: dict[type, Callable[[object], object]] = {}


def _compared_values(value: Any) -> object:
    """Return what equality and hash depend on."""
    cls = type(value)
    if cls not in _compared_getters:
        names = [field.name for field in dataclasses.fields(cls) if field.compare]
        _compared_getters[cls] = attrgetter(*names) if len(names) > 1 else partial(_get_all, names)
    return _compared_getters[cls](value)


def _get_all(names: list[str], value: object) -> tuple[object, ...]:
    return tuple(getattr(value, name) for name in names)


def _represent(self: Any) -> str:
    shown = [field.name for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _equal(self: Any, other: object) -> Any:
    return _compared_values(self) == _compared_values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared_values(self))


def _refuse_change(self: object, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name!r} of a {type(self).__name__}")


def _get_state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
