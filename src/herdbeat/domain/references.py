"""References to variables of the environment, `${NAME}`, which stay in a stored text and are resolved where it is used.

A target may need a token, and the ledger must not have it. So the free texts of a fleet file are stored as they are
written, beside the names of the variables in them, and the node that runs the target puts in its own values. Texts
without such names are plain: nothing in them is ever replaced.

`${NAME:-default}` has a default, and `$${NAME}` is the text `${NAME}`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Self, TypeVar

from herdbeat.errors import HerdbeatError

REFERENCE = re.compile(
    r"(?P<escaped>\$\$\{(?=[A-Za-z_]))|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>[^}]*))?\}"
)
_REFERENCE_START_PATTERN = re.compile(r"\$\{(?=[A-Za-z_])")

VARIABLES_KEY = "variables"
"""The key with the names of the variables, in data that has no class of its own: a hook, a work source."""

FIXED_FIELDS = frozenset(
    {
        *("runtime", "model", "method", "permission_mode", "account", "repo", "metadata_file", "chat", "resources"),
        *("working_directory", "program", "extra_dirs", "workspace", "work_source", "variables"),
    }
)
"""Fields of a spec that others than its runner read: they have their values when a fleet is loaded."""

FIXED_KEYS = frozenset(
    {
        *("type", "name", "notify", "on_events", "when", "timeout", "working_directory"),
        *("attempts", "repo", "path", "item", "state", "cleanup_on_failure", "check_author"),
    }
)
"""The same of hooks and work sources."""

T = TypeVar("T")


class ExpandedText(str):
    """A text of a file with its variables filled in. `written` is the same as the file has it."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, value: str, written: str) -> Self:
        text = super().__new__(cls, value)
        text.written = written
        return text

    def __str__(self) -> str:
        """Return itself: str() of a value of a file must not lose what is written there."""
        return self

    def strip(self, chars: str | None = None, /) -> str:
        return ExpandedText(super().strip(chars), self.written.strip(chars))


class MissingVariable(HerdbeatError):
    """This machine has no value for a reference."""

    def __init__(self, name: str) -> None:
        hint = f"Set {name} in the environment of herdbeat there, or in .env beside its fleet file."
        super().__init__(f"The environment variable {name} is not set on this node.", hint=hint)
        self.name = name


def escape_references(text: str) -> str:
    """Return the text as a file has it, so that a `${NAME}` in it is not filled in: a shell has the same notation."""
    return _REFERENCE_START_PATTERN.sub("$${", text) if "${" in text else text


def unescape_references(text: str) -> str:
    return REFERENCE.sub(lambda match: "${" if match["escaped"] else match[0], text)


def escape_data(value: T) -> T:
    """Return data from outside, in which nothing is a reference, for a text that is resolved later."""
    escaped: T = _map_texts(value, escape_references)
    return escaped


def list_variables(text: str) -> Iterator[str]:
    """Yield the names of the variables that a text refers to."""
    return (match["name"] for match in REFERENCE.finditer(text) if match["name"])


def keep_references(value: T) -> tuple[T, tuple[str, ...]]:
    """Return a value with its texts as they are written, and the names of their variables.

    If there are none, all texts are plain. If there are any, a text that only looks like a reference is escaped.
    """
    names = {
        name for text in _iter_texts(value) if isinstance(text, ExpandedText) for name in list_variables(text.written)
    }
    if not names:
        return _map_texts(value, _to_plain), ()
    return _map_texts(value, _to_written), tuple(sorted(names))


def keep_spec_references(spec: T) -> T:
    """Return a spec with its texts as they are written, and their variables in its field `variables`."""
    if not any(isinstance(text, ExpandedText) for text in _iter_texts(spec)):
        return spec
    free = {name: value for name, value in _iter_fields(spec) if name not in FIXED_FIELDS}
    fixed = {name: _map_texts(value, _to_plain) for name, value in _iter_fields(spec) if name in FIXED_FIELDS}
    kept, names = keep_references(free)
    return replace(spec, **{**fixed, **kept, "variables": names})  # type: ignore[type-var]


def keep_data_references(data: Mapping[str, object]) -> dict[str, object]:
    """Return a hook or a work source in the same way. The names are under `variables`, if there are any."""
    kept, names = keep_references({key: value for key, value in data.items() if key not in FIXED_KEYS})
    plain = {key: _map_texts(value, _to_plain) for key, value in data.items() if key in FIXED_KEYS}
    complete = {key: plain.get(key, kept.get(key)) for key in data}
    return {**complete, VARIABLES_KEY: list(names)} if names else complete


def resolve_spec(spec: T, names: Collection[str], environ: Mapping[str, str]) -> T:
    """Return a spec with the values of its variables. Raises MissingVariable."""
    changed = {
        name: resolve_references(value, names, environ)
        for name, value in _iter_fields(spec)
        if name not in FIXED_FIELDS
    }
    return replace(spec, **changed, variables=())  # type: ignore[type-var]


def resolve_data(data: Mapping[str, object], environ: Mapping[str, str]) -> Mapping[str, object]:
    """Return plain data with the values of the variables that it names. Raises MissingVariable."""
    names = data.get(VARIABLES_KEY)
    if not isinstance(names, list | tuple):
        return data
    free = {key: value for key, value in data.items() if key not in FIXED_KEYS and key != VARIABLES_KEY}
    fixed = {key: value for key, value in data.items() if key in FIXED_KEYS}
    return {**fixed, **resolve_references(free, [str(name) for name in names], environ)}


def resolve_references(value: T, names: Collection[str], environ: Mapping[str, str]) -> T:
    """Return a value with each of these variables filled in; any other name stays a text. Raises MissingVariable."""

    def substitute(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        if match["name"] not in names:
            return match[0]
        found: str | None = environ.get(match["name"], match["default"])
        if found is None:
            raise MissingVariable(match["name"])
        return found

    return _map_texts(value, lambda text: REFERENCE.sub(substitute, text) if "${" in text else text) if names else value


def find_missing(value: object, names: Collection[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield each of these variables that a value needs and the environment lacks."""
    for text in _iter_texts(value) if names else ():
        for match in REFERENCE.finditer(text):
            name = match["name"]
            if name in names and match["default"] is None and name not in environ:
                yield name


def _to_plain(text: str) -> str:
    return text[:]  # of a subclass, a slice is an ordinary string


def _to_written(text: str) -> str:
    return text.written if isinstance(text, ExpandedText) else escape_references(text)


def _iter_fields(spec: object) -> Iterator[tuple[str, Any]]:
    return ((each.name, getattr(spec, each.name)) for each in fields(spec) if each.init)  # type: ignore[arg-type]


def _iter_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _iter_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iter_texts(item)
    elif is_dataclass(value):
        for _, item in _iter_fields(value):
            yield from _iter_texts(item)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of the same form with every text in it changed. Keys and words of closed lists stay."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        changed = [_map_texts(item, change) for item in value]
        return changed if isinstance(value, list) else tuple(changed)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{name: _map_texts(item, change) for name, item in _iter_fields(value)})
    return value
