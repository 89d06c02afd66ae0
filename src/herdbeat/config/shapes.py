"""What a single value may look like. Each shape reads it, says what it expected, and knows its JSON Schema."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from herdbeat.codes import Code
from herdbeat.config.guess import did_you_mean
from herdbeat.config.report import Misfit, Report
from herdbeat.config.scalars import is_long_number, resolve
from herdbeat.config.wording import (
    as_text,
    key_name,
    number_range,
    out_of_range,
    refuse_undefined,
    shown,
    without_value,
    wrong_type,
)
from herdbeat.errors import HerdbeatError, Severity, ending
from herdbeat.located import Located, Plain, Scalar

T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)
JsonSchema = dict[str, object]

_VARIABLE = r"\$\{"
"""What an editor accepts in place of any value: `${NAME}`, filled in before the value is judged."""


class Shape(ABC, Generic[T_co]):
    """The form of a value."""

    @abstractmethod
    def expected(self) -> str:
        """Its name in messages and in the reference: "a duration"."""

    @abstractmethod
    def read(self, node: Located) -> T_co:
        """The value. Raises HerdbeatError at the first thing that does not fit."""

    @abstractmethod
    def schema(self) -> JsonSchema:
        """The same as JSON Schema, for editors."""

    def inner(self) -> "Iterable[Shape[object]]":
        """The shapes of the values inside."""
        return ()

    def check(self, node: Located, report: Report) -> None:
        """Report everything that does not fit."""
        try:
            self.read(node)
        except HerdbeatError as error:
            report.misfit(error, node)


@dataclass(frozen=True, slots=True)
class Text(Shape[str]):
    words: str = "a text"
    may_be_empty: bool = False

    def expected(self) -> str:
        return self.words

    def read(self, node: Located) -> str:
        text = as_text(node, self.words)
        if not text.strip() and not self.may_be_empty:
            raise Misfit(Code.INVALID_VALUE, f"{key_name(node)} is empty.", hint="Give it a value, or remove the key.")
        return text

    def schema(self) -> JsonSchema:
        return {"type": "string"} if self.may_be_empty else {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class Parsed(Shape[T_co]):
    """A text with a form of its own. `parse` raises HerdbeatError.

    With `takes_numbers` a bare number is parsed as it was written: "the unit is missing" says more
    than "not a text".
    """

    words: str
    parse: Callable[[str], T_co]
    pattern: str = ""
    examples: tuple[str, ...] = ()
    takes_numbers: bool = False

    def expected(self) -> str:
        return self.words

    def read(self, node: Located) -> T_co:
        if self.takes_numbers and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return self.parse(node.written)
        text = as_text(node, self.words)
        try:
            return self.parse(text)
        except HerdbeatError as error:
            raise without_value(error, node, self.words) from error

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "string"}
        if self.pattern:
            schema["pattern"] = rf"{self.pattern}|{_VARIABLE}"
        elif self.takes_numbers:
            schema["type"] = ["string", "number"]
        if self.examples:
            schema["examples"] = list(self.examples)
        return schema


@dataclass(frozen=True, slots=True)
class Whole(Shape[int]):
    at_least: int = 0
    at_most: int = 1_000_000_000
    words: str = "a whole number"

    def expected(self) -> str:
        return self.words

    def read(self, node: Located) -> int:
        value = _typed(node)
        if is_long_number(value):
            raise out_of_range(node, number_range(self.at_least, self.at_most))
        # In Python true is also 1; in a file it is a slip.
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(node, self.words)
        if not self.at_least <= value <= self.at_most:
            raise out_of_range(node, number_range(self.at_least, self.at_most))
        return value

    def schema(self) -> JsonSchema:
        return _or_variable({"type": "integer", "minimum": self.at_least, "maximum": self.at_most})


@dataclass(frozen=True, slots=True)
class Number(Shape[float]):
    at_least: float = 0
    at_most: float = 1_000_000_000
    words: str = "a number"

    def expected(self) -> str:
        return self.words

    def read(self, node: Located) -> float:
        value = _typed(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type(node, self.words)
        if not math.isfinite(value) or not self.at_least <= value <= self.at_most:
            raise out_of_range(node, f"a number from {self.at_least:.0f} to {self.at_most:.0f}")
        return float(value)

    def schema(self) -> JsonSchema:
        return _or_variable({"type": "number", "minimum": self.at_least, "maximum": self.at_most})


@dataclass(frozen=True, slots=True)
class Flag(Shape[bool]):
    words: str = "true or false"

    def expected(self) -> str:
        return self.words

    def read(self, node: Located) -> bool:
        value = _typed(node)
        if not isinstance(value, bool):
            raise wrong_type(node, self.words)
        return value

    def schema(self) -> JsonSchema:
        return _or_variable({"type": "boolean"})


@dataclass(frozen=True, slots=True)
class Choice(Shape[str]):
    """One word out of a closed set. `others` are words of other tools, with what to write instead."""

    options: tuple[str, ...]
    others: Mapping[str, str] = field(default_factory=dict)

    def expected(self) -> str:
        return "one of " + ", ".join(self.options)

    def read(self, node: Located) -> str:
        text = as_text(node, self.expected())
        if text in self.options:
            return text
        guess = self.others.get(text) or did_you_mean(text, self.options)
        raise Misfit(
            Code.INVALID_VALUE,
            f"{key_name(node)} cannot be {shown(node)}{ending(guess)}",
            hint=f"Write {self.expected()}.",
        )

    def schema(self) -> JsonSchema:
        return _or_variable({"enum": [str(option) for option in self.options]})


@dataclass(frozen=True, slots=True)
class OneOf(Shape[E]):
    """One member of an enum, written as its value."""

    enum: type[E]

    def expected(self) -> str:
        return self._choice.expected()

    @property
    def _choice(self) -> Choice:
        return Choice(tuple(self.enum))

    def read(self, node: Located) -> E:
        return self.enum(self._choice.read(node))

    def schema(self) -> JsonSchema:
        return self._choice.schema()


@dataclass(frozen=True, slots=True)
class Free(Shape[Plain]):
    """Any data, handed on as it is: a request body, a block that another program understands.

    In a mild one an undefined variable is a warning: who never uses the block need not set it.
    """

    words: str = "any data"
    is_mild: bool = False

    def expected(self) -> str:
        return self.words

    def read(self, node: Located) -> Plain:
        return node.plain()

    def schema(self) -> JsonSchema:
        return {}

    def check(self, node: Located, report: Report) -> None:
        severity = Severity.WARNING if self.is_mild else Severity.ERROR
        for _, inner in node.walk():
            try:
                refuse_undefined(inner)
            except Misfit as error:
                report.misfit(error, inner, severity)


def _or_variable(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "string", "pattern": _VARIABLE}]}


def _typed(node: Located) -> "Scalar | Sequence[Located] | Mapping[str, Located]":
    """The value; what came from a variable is text, and becomes a number or bool where one is wanted."""
    refuse_undefined(node)
    if node.expanded and isinstance(node.value, str):
        return resolve(node.value.strip())
    return node.value
