"""Values of a validated section: each typed, with its default resolved and its origin recorded for `config show`.

Secrets stay hidden there, their origin does not.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar, cast, get_args

from herdbeat.config.nodes import PUBLIC_KEYS, ConfigNode, PlainData, Scalar
from herdbeat.config.schema.formats import HoursWindow
from herdbeat.config.schema.table import AnyOf, Field, Table
from herdbeat.domain.references import REFERENCE
from herdbeat.durations import format_duration
from herdbeat.errors import SourceLocation
from herdbeat.redaction import MASK, is_secret_name, is_secret_value, redact, redact_arguments
from herdbeat.timestamps import format_timestamp

T = TypeVar("T")

DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedValue:
    """One value as it applies. `origin` is the location that sets it, or words that name the default."""

    path: str
    value: PlainData
    origin: SourceLocation | str


def resolve_origin(node: ConfigNode) -> SourceLocation | str:
    if node.location.path.startswith("defaults."):
        return f"defaults at {node.location.file}:{node.location.line}"
    return node.location


def iter_explicit_values(node: ConfigNode, path: str) -> Iterator[ResolvedValue]:
    """Yield every value that is written below a node. A list is one value."""
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield from iter_explicit_values(child, f"{path}.{name}" if path else name)
        return
    yield ResolvedValue(path=path, value=mask_secrets(node, path), origin=resolve_origin(node))


def iter_default_values(
    table: Table, node: ConfigNode, path: str, exclude: Collection[str] = frozenset()
) -> Iterator[ResolvedValue]:
    """Yield the defaults of a table's keys that are not written."""
    for key in table.keys:
        if key.name in exclude:
            continue
        child_path = f"{path}.{key.name}" if path else key.name
        child = node.child(key.name)
        block = key.field_type
        if isinstance(block, AnyOf) and child is not None and isinstance(child.value, dict):
            block = block.mapping or block
        if isinstance(block, Table) and (child is not None or not key.default_text):
            yield from iter_default_values(block, child or ConfigNode({}, node.location), child_path)
        elif child is None and key.default_text and not key.unsupported_reason:
            # A default has the type that it has in a file; what happens without a value is a sentence.
            value = to_config_value(key.default_value()) if key.default else key.unset
            yield ResolvedValue(path=child_path, value=value, origin=DEFAULT_ORIGIN)


def mask_secrets(node: ConfigNode, path: str) -> PlainData:
    """Return the data of a node with everything hidden that may be a secret."""
    if isinstance(node.value, list):
        children = [mask_secrets(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
        return redact_arguments(children)
    if isinstance(node.value, dict):
        return {name: mask_secrets(child, f"{path}.{name}") for name, child in node.value.items()}
    key = path.rpartition(".")[2].partition("[")[0]
    if not isinstance(node.value, str) or key in PUBLIC_KEYS:
        return redact(node.value) if isinstance(node.value, str) else node.value
    text = REFERENCE.sub(_mask_default, node.written) if node.secret_parts else node.value
    return MASK if text and is_secret_value(key, text) else redact(text)


def _mask_default(match: re.Match[str]) -> str:
    is_hidden = match["default"] and is_secret_name(match["name"])
    return f"${{{match['name']}:-{MASK}}}" if is_hidden else match[0]


_SCALARS = frozenset({bool, int, float, str})


def to_config_value(value: object) -> PlainData:
    """Return a typed value as one writes it in a file."""
    if value is None or type(value) in _SCALARS:
        return cast("PlainData", value)
    if isinstance(value, tuple | list) and not isinstance(value, HoursWindow):
        return [to_config_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): to_config_value(item) for name, item in value.items()}
    return to_config_scalar(value)


def to_config_scalar(value: object) -> Scalar:
    """Return a value as a file would have it."""
    match value:
        case Enum():
            return str(value.value)
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


@dataclass(slots=True)
class SectionReader:
    """Reads a validated mapping key by key. `values` gets each value with its origin, in the order of reading.

    `kinds` are the kinds of trigger and target that a default may depend on.
    """

    node: ConfigNode
    path: str
    kinds: Collection[str] = ()
    values: list[ResolvedValue] = field(default_factory=list)

    def get(self, key: Field[T], default: T | None = None, origin: SourceLocation | str = DEFAULT_ORIGIN) -> T:
        """Return the value of a key that always has one: written, given as `default`, or declared."""
        value = self.get_optional(key, default, origin)
        assert value is not None, f"{self._child_path(key.name)} has no default"
        return value

    def get_optional(
        self, key: Field[T], default: T | None = None, origin: SourceLocation | str = DEFAULT_ORIGIN
    ) -> T | None:
        """Return the value of a key, or its default; None if it has neither."""
        child = self.node.child(key.name)
        # Nearly all keys are not written: a schedule reads some sixty, and has three.
        value = None if child is None else key.get(self.node)
        if value is None or child is None:
            value = default if default is not None else key.default_value(self.kinds)
            # A key written empty undoes the inherited value, and that has a location.
            self._record(key, to_config_value(value), origin if child is None else resolve_origin(child))
            return value
        masked_value = mask_secrets(child, key.name)
        # A number, a time or a word of a closed list is no secret, also if a variable gives it.
        is_text = isinstance(value, str) and masked_value != child.value
        keeps_written_form = isinstance(child.value, dict | list) or is_text
        self._record(key, masked_value if keeps_written_form else to_config_value(value), resolve_origin(child))
        return value

    def section(self, key: Field[object]) -> "SectionReader":
        """Return the reader of a block below; an empty one if the block is not written."""
        child = self.node.child(key.name)
        if child is None or not isinstance(child.value, dict):
            child = ConfigNode({}, self.node.location)
        return SectionReader(child, self._child_path(key.name), self.kinds, self.values)

    def read(self, keys: Iterable[Field[object]]) -> dict[str, object]:
        """Return the value of each key, and of each key of its blocks, by domain field. See `build_value`."""
        values: dict[str, object] = {}
        for key in keys:
            if isinstance(key.field_type, Table):
                prefix = f"{key.name}." if key.domain_field is None else key.domain_field
                block = self.section(key).read(key.field_type.keys)
                values |= {f"{prefix}{name}": value for name, value in block.items()}
            elif not key.unsupported_reason:
                values[key.domain_path] = self.get_optional(key)
        return values

    def _record(self, key: Field[object], value: PlainData, origin: SourceLocation | str) -> None:
        self.values.append(ResolvedValue(path=self._child_path(key.name), value=value, origin=origin))

    def _child_path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def build_value(cls: type[T], values: Mapping[str, object]) -> T:
    """Return a dataclass from values by field. `limits.at_least` is a field of the dataclass in `limits`.

    A field whose values are all None keeps the default of the dataclass: nothing was written, nothing declared.
    """
    arguments: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        name, _, inner = path.partition(".")
        if value is None:
            continue
        if inner:
            parts.setdefault(name, {})[inner] = value
        else:
            arguments[name] = value
    return cls(**arguments, **{name: build_value(_find_field_class(cls, name), part) for name, part in parts.items()})


def _find_field_class(cls: type, name: str) -> type[object]:
    """Return the class of a field, also of one that may be None."""
    hint: type[object] = cls.__annotations__[name]
    return next(iter(get_args(hint)), hint)
