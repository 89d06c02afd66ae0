"""Resolved values with their origin, for `config show`. Secrets stay hidden, their origin does not."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar
from urllib.parse import urlsplit

from herdbeat.config.nodes import ConfigNode, PlainData
from herdbeat.config.schema.formats import HoursWindow
from herdbeat.config.schema.table import Field, Table
from herdbeat.durations import format_duration
from herdbeat.errors import SourceLocation
from herdbeat.timestamps import format_timestamp

MASK = "***"
DEFAULT_ORIGIN = "default"

_SECRET_KEY_PATTERN = re.compile(r"token|secret|passw|authorization|api_?key|cookie|credential", re.IGNORECASE)
_SECRET_SECTION_PATTERN = re.compile(r"(^|\.)(headers|env)(\.|\[|$)", re.IGNORECASE)
_VARIABLE_NAME_KEY_PATTERN = re.compile(r"_env$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedValue:
    """One resolved value. `origin` is the place that says so, or the words that name the default."""

    path: str
    value: PlainData
    origin: SourceLocation | str


def resolve_origin(node: ConfigNode) -> SourceLocation | str:
    if node.location.path.startswith("defaults."):
        return f"defaults at {node.location.file}:{node.location.line}"
    return node.location


def iter_explicit_values(node: ConfigNode, path: str) -> Iterator[ResolvedValue]:
    """Every value that is written below a node. Lists are one value."""
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield from iter_explicit_values(child, f"{path}.{name}" if path else name)
        return
    yield ResolvedValue(path=path, value=mask_secrets(node, path), origin=resolve_origin(node))


def iter_default_values(
    table: Table, node: ConfigNode, path: str, exclude: Collection[str] = frozenset()
) -> Iterator[ResolvedValue]:
    """The defaults of a table's keys that are not written, in the words of the table."""
    for key in table.keys:
        if key.name in exclude:
            continue
        child_path = f"{path}.{key.name}" if path else key.name
        child = node.child(key.name)
        if isinstance(key.field_type, Table) and (child is not None or not key.default):
            yield from iter_default_values(key.field_type, child or ConfigNode({}, node.location), child_path)
        elif child is None and _has_default(key):
            yield ResolvedValue(path=child_path, value=key.default, origin=DEFAULT_ORIGIN)


def _has_default(key: Field[object]) -> bool:
    return bool(key.default) and not key.unsupported_reason


def mask_secrets(node: ConfigNode, path: str) -> PlainData:
    """The bare data, with what may be a secret hidden."""
    if isinstance(node.value, list):
        return [mask_secrets(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
    if isinstance(node.value, dict):
        return {name: mask_secrets(child, f"{path}.{name}") for name, child in node.value.items()}
    return MASK if _is_secret(node, path) else mask_password(node.value)


def _is_secret(node: ConfigNode, path: str) -> bool:
    name = path.rpartition(".")[2]
    if _VARIABLE_NAME_KEY_PATTERN.search(name) or not isinstance(node.value, str):
        return False
    if _SECRET_KEY_PATTERN.search(name) or _SECRET_KEY_PATTERN.search(node.variable_names):
        return True
    # An address from a variable may carry its secret in the path, as chat webhooks do.
    return bool(node.variable_names) and bool(_SECRET_SECTION_PATTERN.search(path) or name in ("url", "store"))


def mask_password(value: PlainData) -> PlainData:
    """An address without the password that may stand in it."""
    if not isinstance(value, str) or "@" not in value or "://" not in value:
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        return MASK
    if parts.password is None:
        return value
    _, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{parts.username}:{MASK}@{host}").geturl()


def to_config_value(value: object) -> PlainData:
    """A typed value as it is written in a file."""
    if isinstance(value, tuple | list) and not isinstance(value, HoursWindow):
        return [to_config_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): to_config_value(item) for name, item in value.items()}
    return _to_config_scalar(value)


def _to_config_scalar(value: object) -> PlainData:
    match value:
        case Enum():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_timestamp(value)
        case HoursWindow():
            return f"{value.opens:%H:%M}-{value.closes:%H:%M}"
        case _:
            return str(value)  # a zone is its name, a jitter its share


# One mapping, read key by key: each value typed, with its default, and noted for `config show`.


T = TypeVar("T")


@dataclass(slots=True)
class SectionReader:
    """Takes values out of a checked mapping. `values` has each of them with its origin, in order of asking."""

    node: ConfigNode
    path: str
    values: list[ResolvedValue] = field(default_factory=list)

    def get(self, key: Field[T], default: T, origin: SourceLocation | str = DEFAULT_ORIGIN) -> T:
        found = key.get(self.node)
        if found is None:
            return self._record(key.name, default, self._default_origin(key, origin))
        child = self.node.child(key.name)
        assert child is not None
        masked_value = mask_secrets(child, key.name)
        keeps_written_form = isinstance(child.value, dict | list) or masked_value != child.value
        value = masked_value if keeps_written_form else to_config_value(found)
        self.values.append(ResolvedValue(path=self._child_path(key.name), value=value, origin=resolve_origin(child)))
        return found

    def get_optional(self, key: Field[T]) -> T | None:
        """A value that may be missing altogether."""
        found = key.get(self.node)
        if found is None:
            self._record(key.name, None, self._default_origin(key, DEFAULT_ORIGIN))
            return None
        return self.get(key, found)

    def section(self, key: Field[object]) -> "SectionReader":
        """The settings of a block below; an empty one if it is not written."""
        child = self.node.child(key.name)
        if child is None or not isinstance(child.value, dict):
            child = ConfigNode({}, self.node.location)
        return SectionReader(child, self._child_path(key.name), self.values)

    def _default_origin(self, key: Field[object], origin: SourceLocation | str) -> SourceLocation | str:
        """A key written empty undoes the defaults, and that has a place."""
        child = self.node.child(key.name)
        return origin if child is None else resolve_origin(child)

    def _record(self, name: str, value: T, origin: SourceLocation | str) -> T:
        self.values.append(ResolvedValue(path=self._child_path(name), value=to_config_value(value), origin=origin))
        return value

    def _child_path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
