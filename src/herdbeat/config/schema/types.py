"""Types of single values. Each one reads a value, describes itself in messages, and gives its JSON Schema.

Unquoted scalars have the meaning of the YAML 1.2 core schema. YAML 1.1, PyYAML's own, reads `12:30` as 750, `on` as
true and `010` as 8: `active_hours: 07:00-22:00` and `cron: on` must never become that.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from herdbeat.config.diagnostics import (
    Diagnostics,
    ValidationError,
    describe_range,
    describe_value,
    find_closest_match,
    key_name,
    out_of_range_error,
    redact_value,
    require_defined,
    require_text,
    wrong_type_error,
)
from herdbeat.config.nodes import ConfigNode, PlainData, Scalar
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, Severity, SourceLocation, did_you_mean_suffix

_KEYWORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER_PATTERN = re.compile(r"[-+]?[0-9]+")
_OCTAL_PATTERN = re.compile(r"0o[0-7]+")
_HEX_PATTERN = re.compile(r"0x[0-9a-fA-F]+")
_DECIMAL_PATTERN = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY_OR_NAN_PATTERN = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_MAX_NUMBER_DIGITS = 18
"""Longer numbers stay text: int() raises for thousands of digits, and no setting needs them."""


def is_long_number(value: object) -> bool:
    """Return whether a value is text only because it has too many digits."""
    return isinstance(value, str) and len(value) > _MAX_NUMBER_DIGITS and _INTEGER_PATTERN.fullmatch(value) is not None


def resolve_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar: null, a bool, a number, or else the text itself."""
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if len(text) > _MAX_NUMBER_DIGITS:
        return text
    if _INTEGER_PATTERN.fullmatch(text):
        return int(text)
    if _OCTAL_PATTERN.fullmatch(text) or _HEX_PATTERN.fullmatch(text):
        return int(text, 0)
    if _DECIMAL_PATTERN.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _INFINITY_OR_NAN_PATTERN.fullmatch(text) else text


T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)
JsonSchema = dict[str, object]

_VARIABLE_PATTERN = r"\$\{"
"""What an editor accepts in place of any value: `${NAME}`, filled in before validation."""


_NO_LOCATION = SourceLocation(file="", line=0, column=0)


class FieldType(ABC, Generic[T_co]):
    """The type of a value in a file."""

    description: str

    def describe(self) -> str:
        """Return its name in messages and in the reference: "a duration"."""
        return self.description

    @abstractmethod
    def read(self, node: ConfigNode) -> T_co:
        """Return the value. Raises HerdbeatError for the first thing that does not fit."""

    def read_text(self, text: str) -> T_co:
        """Return the value that a text has where it stands unquoted in a file. Raises HerdbeatError."""
        return self.read(ConfigNode(resolve_scalar(text), _NO_LOCATION, raw=text))

    @abstractmethod
    def to_json_schema(self) -> JsonSchema:
        """Return the JSON Schema of the value, for editors."""

    def inner_types(self) -> "Iterable[FieldType[object]]":
        """Return the types of the values inside."""
        return ()

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        """Report everything that does not fit."""
        try:
            self.read(node)
        except HerdbeatError as error:
            diagnostics.add(error, node)

    def is_valid(self, node: ConfigNode, diagnostics: Diagnostics) -> bool:
        """Report everything that does not fit, and return whether none of it was an error."""
        errors_before = diagnostics.error_count
        self.validate(node, diagnostics)
        return diagnostics.error_count == errors_before


@dataclass(frozen=True, slots=True)
class Text(FieldType[str]):
    """A string that is not blank, unless `allows_empty` is set."""

    description: str = "a string"
    allows_empty: bool = False

    def read(self, node: ConfigNode) -> str:
        text = require_text(node, self.description)
        if not text.strip() and not self.allows_empty:
            message = f"{key_name(node)} is empty."
            raise ValidationError(Code.INVALID_VALUE, message, "Set a value or remove the key.")
        return text

    def to_json_schema(self) -> JsonSchema:
        return {"type": "string"} if self.allows_empty else {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class ParsedText(FieldType[T_co]):
    """A text with a format of its own. `parse` raises HerdbeatError.

    With `accepts_numbers` a bare number is parsed as it was written: "the unit is missing" says more than "not a text".
    """

    description: str
    parse: Callable[[str], T_co]
    pattern: str = ""
    examples: tuple[str, ...] = ()
    accepts_numbers: bool = False

    def read(self, node: ConfigNode) -> T_co:
        if self.accepts_numbers and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return self.parse(node.raw)
        text = require_text(node, self.description)
        try:
            return self.parse(text)
        except HerdbeatError as error:
            raise redact_value(error, node, self.description) from error

    def to_json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "string"}
        if self.pattern:
            schema["pattern"] = rf"{self.pattern}|{_VARIABLE_PATTERN}"
        elif self.accepts_numbers:
            schema["type"] = ["string", "number"]
        if self.examples:
            schema["examples"] = list(self.examples)
        return schema


@dataclass(frozen=True, slots=True)
class Integer(FieldType[int]):
    """A whole number within limits."""

    at_least: int = 0
    at_most: int = 1_000_000_000
    description: str = "a whole number"

    def read(self, node: ConfigNode) -> int:
        value = _coerce_value(node)
        if is_long_number(value):
            raise out_of_range_error(node, describe_range(self.at_least, self.at_most))
        # In Python True is also 1; in a file it is a mistake.
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type_error(node, self.description)
        if not self.at_least <= value <= self.at_most:
            raise out_of_range_error(node, describe_range(self.at_least, self.at_most))
        return value

    def to_json_schema(self) -> JsonSchema:
        return _allow_variable({"type": "integer", "minimum": self.at_least, "maximum": self.at_most})


@dataclass(frozen=True, slots=True)
class Number(FieldType[float]):
    """A finite number within limits."""

    at_least: float = 0
    at_most: float = 1_000_000_000
    description: str = "a number"

    def read(self, node: ConfigNode) -> float:
        value = _coerce_value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type_error(node, self.description)
        if not math.isfinite(value) or not self.at_least <= value <= self.at_most:
            raise out_of_range_error(node, f"a number from {self.at_least:.0f} to {self.at_most:.0f}")
        return float(value)

    def to_json_schema(self) -> JsonSchema:
        return _allow_variable({"type": "number", "minimum": self.at_least, "maximum": self.at_most})


@dataclass(frozen=True, slots=True)
class Boolean(FieldType[bool]):
    """True or false."""

    description: str = "true or false"

    def read(self, node: ConfigNode) -> bool:
        value = _coerce_value(node)
        if not isinstance(value, bool):
            raise wrong_type_error(node, self.description)
        return value

    def to_json_schema(self) -> JsonSchema:
        return _allow_variable({"type": "boolean"})


@dataclass(frozen=True, slots=True)
class Choice(FieldType[str]):
    """One word of a closed set. `suggestions` are words of other tools, with ours."""

    options: tuple[str, ...]
    suggestions: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        return "one of " + ", ".join(self.options)

    def read(self, node: ConfigNode) -> str:
        text = require_text(node, self.describe())
        if text in self.options:
            return text
        guess = self.suggestions.get(text) or find_closest_match(text, self.options)
        message = f"{key_name(node)} cannot be {describe_value(node)}{did_you_mean_suffix(guess)}"
        raise ValidationError(Code.INVALID_VALUE, message, f"Write {self.describe()}.")

    def to_json_schema(self) -> JsonSchema:
        return _allow_variable({"enum": [str(option) for option in self.options]})


@dataclass(frozen=True, slots=True)
class EnumValue(FieldType[E]):
    """One member of an enum, written as its value."""

    enum: type[E]

    def describe(self) -> str:
        return self._choice.describe()

    @property
    def _choice(self) -> Choice:
        return Choice(tuple(self.enum))

    def read(self, node: ConfigNode) -> E:
        return self.enum(self._choice.read(node))

    def to_json_schema(self) -> JsonSchema:
        return self._choice.to_json_schema()


@dataclass(frozen=True, slots=True)
class AnyValue(FieldType[PlainData]):
    """Any data, kept as it is: a request body, a block that another program understands.

    In a lenient one an undefined variable is a warning: the block may never be used.
    """

    description: str = "any data"
    lenient: bool = False

    def read(self, node: ConfigNode) -> PlainData:
        return node.to_data()

    def to_json_schema(self) -> JsonSchema:
        return {}

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        severity = Severity.WARNING if self.lenient else Severity.ERROR
        for _, inner in node.walk():
            try:
                require_defined(inner)
            except ValidationError as error:
                diagnostics.add(error, inner, severity)


def _allow_variable(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "string", "pattern": _VARIABLE_PATTERN}]}


def _coerce_value(node: ConfigNode) -> "Scalar | Sequence[ConfigNode] | Mapping[str, ConfigNode]":
    """Return the value. A variable always gives text; here it becomes a number or bool again."""
    require_defined(node)
    return resolve_scalar(node.value.strip()) if node.variable_names and isinstance(node.value, str) else node.value
