"""Keys and tables of keys: the one source of validation, domain values, JSON Schema and reference."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from herdbeat.config.diagnostics import Diagnostics, ValidationError, find_closest_match, key_name, wrong_type_error
from herdbeat.config.nodes import ConfigNode, PlainData
from herdbeat.config.schema.types import FieldType, JsonSchema
from herdbeat.error_codes import Code
from herdbeat.errors import did_you_mean_suffix, truncate_for_message

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MAX_LISTED_KEYS = 15
_NONE: Mapping[str, str] = {}


class SpecialDefault(NamedTuple):
    """Another default for some kinds of trigger or target; the reference calls them by the label.

    It is for any of these kinds, or with `needs_all` for a trigger and a target that are both among them.
    """

    label: str
    kinds: frozenset[str]
    default: str
    needs_all: bool = False

    def covers(self, kinds: Collection[str]) -> bool:
        return self.kinds.issubset(kinds) if self.needs_all else not self.kinds.isdisjoint(kinds)


@dataclass(frozen=True, slots=True)
class Field(Generic[T_co]):
    """One key, declared once: its check, its JSON Schema, its reference and its domain value follow from this.

    - `default` is written as in a file, and `field_type` parses it. `special_default` replaces it for some kinds.
    - `unset` is what the reference says about a missing key that has no value then.
    - `domain_field` is the field of the domain value that the key fills, `name` if not given. `limits.at_least` is a
      field of the dataclass in `limits`. For a block it is the prefix of its keys' fields, `backoff.` for `backoff`.
    - A `nullable` key may be written empty, which undoes an inherited value.
    - `aliases` are other accepted names. `unsupported_reason` says why a key of another tool has no effect here.
    """

    name: str
    field_type: FieldType[T_co]
    meaning: str
    default: str = ""
    special_default: SpecialDefault | None = None
    required: bool = False
    nullable: bool = False
    aliases: tuple[str, ...] = ()
    unsupported_reason: str = ""
    unset: str = ""
    domain_field: str | None = None
    _default_value: T_co | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Parsed here, once: a default that its own type refuses fails the import, and a fleet of 8,000 schedules
        # does not parse "30s" for each of them.
        value = self.field_type.read_text(self.default) if self.default else None
        object.__setattr__(self, "_default_value", value)

    @property
    def domain_path(self) -> str:
        return self.name if self.domain_field is None else self.domain_field

    @property
    def default_text(self) -> str:
        """The default in the words of the reference: "once; cron: skip"."""
        special = self.special_default
        usual = self.default or self.unset
        return f"{usual}; {special.label}: {special.default}" if special else usual

    def default_value(self, kinds: Collection[str] = ()) -> T_co | None:
        """Return the parsed default for these kinds of trigger and target; None if there is none."""
        special = self.special_default
        if special is not None and special.covers(kinds):
            return self.field_type.read_text(special.default)
        return self._default_value

    def get(self, node: ConfigNode | None) -> T_co | None:
        """Return the value this key has in a mapping; None if it is missing or empty. Its default does not count."""
        child = node.child(self.name) if node is not None else None
        return None if child is None or (child.value is None and self.nullable) else self.field_type.read(child)

    def to_json_schema(self) -> JsonSchema:
        inner = self.field_type.to_json_schema()
        if self.nullable:
            inner = {"anyOf": [inner, {"type": "null"}]}
        description = f"No effect: {self.unsupported_reason}." if self.unsupported_reason else self.meaning
        default = f" Default: {self.default_text}." if self.default_text else ""
        return {"description": description + default, **inner}


def optional_field(
    name: str,
    field_type: FieldType[T],
    meaning: str,
    unset: str = "none",
    *,
    aliases: tuple[str, ...] = (),
    domain_field: str | None = None,
) -> Field[T]:
    """Return a key without a default, which may also be written empty."""
    return Field(name, field_type, meaning, unset=unset, nullable=True, aliases=aliases, domain_field=domain_field)


_MAX_NAMED_KEYS = 5


class Table(FieldType[PlainData]):
    """A mapping with known keys. Those that begin with `x-` are ignored: a place for anchors.

    `ignores_unknown` tables belong to tools that ignore unknown keys. `suggestions` are names that other tools use,
    with ours.
    """

    description = "a mapping of keys"

    def __init__(
        self, title: str, *keys: Field[object], ignores_unknown: bool = False, suggestions: Mapping[str, str] = _NONE
    ) -> None:
        self.title, self.keys = title, keys
        self.ignores_unknown, self.suggestions = ignores_unknown, suggestions
        aliases = {alias: key for key in keys for alias in key.aliases}
        self.by_name = aliases | {key.name: key for key in keys}
        # All others can neither be missing nor be written twice.
        self._required_or_aliased = tuple(key for key in keys if key.required or key.aliases)

    def inner_types(self) -> Iterable[FieldType[object]]:
        return (key.field_type for key in self.keys)

    def read(self, node: ConfigNode) -> PlainData:
        """Return the mapping as plain data. Blocks with a domain value of their own are read key by key instead."""
        if not isinstance(node.value, dict):
            raise wrong_type_error(node, self.describe())
        return node.to_data()

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        if not isinstance(node.value, dict):
            diagnostics.add(wrong_type_error(node, self.describe(), self._describe_keys()), node)
            return
        known = self.by_name
        for name, child in node.value.items():
            if name in known:
                self._check_known(known[name], child, diagnostics)
            elif not name.startswith("x-"):
                self._report_unknown(name, child, diagnostics)
        for key in self._required_or_aliased:
            written = [name for name in (key.name, *key.aliases) if name in node.value]
            if key.required and not written:
                self._report_missing(key, node, diagnostics)
            for name in written[1:]:
                message = f'"{name}" is another name for "{key.name}", which is also set.'
                hint = "Remove one of them."
                diagnostics.error(Code.CONFLICTING_KEYS, message, node.value[name].report_location, hint)

    def to_json_schema(self) -> JsonSchema:
        properties = {name: key.to_json_schema() for name, key in self.by_name.items()}
        required = [key.name for key in self.keys if key.required]
        schema: JsonSchema = {"title": self.title, "type": "object", "properties": properties}
        schema |= {"patternProperties": {"^x-": {}}, "additionalProperties": False}
        return schema | ({"required": required} if required else {})

    def _describe_keys(self) -> str:
        names = [key.name for key in self.keys if not key.unsupported_reason]
        shown = ", ".join(names[:_MAX_NAMED_KEYS])
        return f"a mapping with {'keys such as' if len(names) > _MAX_NAMED_KEYS else 'the keys'} {shown}"

    def _check_known(self, key: Field[object], node: ConfigNode, diagnostics: Diagnostics) -> None:
        if key.unsupported_reason:
            if not node.value:
                return  # switched off or empty: nothing is lost
            message = f'"{key.name}" has no effect: {key.unsupported_reason}.'
            diagnostics.warning(Code.NOT_SERVED, message, node.report_location)
        elif not (node.value is None and key.nullable):
            key.field_type.validate(node, diagnostics)

    def _report_missing(self, key: Field[object], node: ConfigNode, diagnostics: Diagnostics) -> None:
        message = f'{self.title} needs "{key.name}".'
        hint = f"Add {key.name}. {key.meaning}" if key.meaning else f"Add {key.name}."
        diagnostics.error(Code.MISSING_KEY, message, node.report_location, hint)

    def _report_unknown(self, name: str, node: ConfigNode, diagnostics: Diagnostics) -> None:
        where = None if name in self.suggestions else diagnostics.key_locations.get(name)
        guess = self.suggestions.get(name) or (None if where else find_closest_match(name, self.by_name))
        # The keys are normalized by now; the message repeats the name in the file.
        written = truncate_for_message(name if node.report_location.path.endswith(name) else key_name(node))
        hint = f'"{written}" belongs {where}.' if where else self._unknown_key_hint(guess)
        message = f'Unknown key "{written}"{did_you_mean_suffix(guess)}'
        # What herdctl and agentd ignore silently must not keep an unchanged file from loading.
        is_ignored = self.ignores_unknown or ".overrides." in node.report_location.path
        is_warning = is_ignored and diagnostics.is_foreign(node.report_location)
        report = diagnostics.warning if is_warning else diagnostics.error
        report(Code.UNKNOWN_KEY, message, node.report_location, hint)

    def _unknown_key_hint(self, guess: str | None) -> str:
        """Return what to do about an unknown key: the guess, or the known keys if they are few enough to read."""
        names = [key.name for key in self.keys if not key.unsupported_reason]
        if guess:
            return f'Write "{guess}", or remove the key.'
        if len(names) > _MAX_LISTED_KEYS:
            return f"The configuration reference lists the keys of {self.title[0].lower()}{self.title[1:]}."
        return f"Valid keys: {', '.join(names)}."


@dataclass(frozen=True, slots=True)
class ListOf(FieldType[tuple[T_co, ...]]):
    """A list of values of one type."""

    description = "a list"
    item: FieldType[T_co]
    at_least: int = 0
    hint: str = ""

    def inner_types(self) -> Iterable[FieldType[object]]:
        return (self.item,)

    def read(self, node: ConfigNode) -> tuple[T_co, ...]:
        self._require_list(node)
        return tuple(self.item.read(child) for child in node.elements())

    def read_text(self, text: str) -> tuple[T_co, ...]:
        return tuple(self.item.read_text(part) for part in text.split(", "))

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        try:
            self._require_list(node)
        except ValidationError as error:
            diagnostics.add(error, node)
            return
        for child in node.elements():
            self.item.validate(child, diagnostics)

    def to_json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "array", "items": self.item.to_json_schema()}
        return schema | ({"minItems": self.at_least} if self.at_least else {})

    def _require_list(self, node: ConfigNode) -> None:
        if not isinstance(node.value, list):
            error = wrong_type_error(node, self.describe())
            error.hint = self.hint or error.hint
            raise error
        if len(node.value) < self.at_least:
            raise ValidationError(Code.INVALID_VALUE, "The list is empty.", self.hint or "Add at least one entry.")


@dataclass(frozen=True, slots=True)
class MapOf(FieldType[Mapping[str, T_co]]):
    """A mapping from free names to values of one type."""

    description = "a mapping of names"
    item: FieldType[T_co]
    key: FieldType[object] | None = None

    def inner_types(self) -> Iterable[FieldType[object]]:
        return (self.item,)

    def read(self, node: ConfigNode) -> Mapping[str, T_co]:
        if not isinstance(node.value, dict):
            raise wrong_type_error(node, self.describe())
        return {name: self.item.read(child) for name, child in node.value.items()}

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        if not isinstance(node.value, dict):
            diagnostics.add(wrong_type_error(node, self.describe()), node)
            return
        for name, child in node.value.items():
            if self.key is not None:
                self.key.validate(ConfigNode(name, child.report_location, raw=name), diagnostics)
            self.item.validate(child, diagnostics)

    def to_json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": self.item.to_json_schema()}
        return schema | ({"propertyNames": self.key.to_json_schema()} if self.key else {})


@dataclass(frozen=True, slots=True)
class AnyOf(FieldType[object]):
    """A value of one of several types, selected by its form in YAML: scalar, list or mapping."""

    scalar: FieldType[object] | None = None
    sequence: FieldType[object] | None = None
    mapping: FieldType[object] | None = None

    def describe(self) -> str:
        return " or ".join(field_type.describe() for field_type in self._alternatives())

    def inner_types(self) -> Iterable[FieldType[object]]:
        return self._alternatives()

    def read(self, node: ConfigNode) -> object:
        return self._select(node).read(node)

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        try:
            self._select(node).validate(node, diagnostics)
        except ValidationError as error:
            diagnostics.add(error, node)

    def to_json_schema(self) -> JsonSchema:
        return {"anyOf": [field_type.to_json_schema() for field_type in self._alternatives()]}

    def _alternatives(self) -> Iterator[FieldType[object]]:
        yield from (field_type for field_type in (self.scalar, self.sequence, self.mapping) if field_type is not None)

    def _select(self, node: ConfigNode) -> FieldType[object]:
        is_mapping, is_list = isinstance(node.value, dict), isinstance(node.value, list)
        by_type = self.mapping if is_mapping else self.sequence if is_list else self.scalar
        if by_type is None:
            raise wrong_type_error(node, self.describe())
        return by_type
