"""Evaluates expressions over data, with bounded effort, and reports what was read. Pure.

Numbers are one type, as in JSON: `5 / 2` is 2.5. Otherwise an expression means what it means in CEL. Missing data is an
error, never false: `&&` and `||` ignore it if the other operand decides, and else it is the result.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from herdbeat.durations import UNIT_SECONDS
from herdbeat.errors import TimeParseError, TimezoneError, truncate_for_message
from herdbeat.rules.expression import (
    MAX_INTEGER,
    MIN_INTEGER,
    Call,
    Conditional,
    Element,
    Expression,
    Index,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    Negation,
    Node,
    Operation,
    Read,
    Select,
)
from herdbeat.timestamps import parse_timestamp, parse_zone

MAX_FUEL = 10_000
"""Steps of one evaluation. An expression with twenty parts takes about as many."""
MAX_TEXT_CHARS = 10_000
"""Characters of a text that an expression builds. Texts in the data may be longer: they are only looked at."""
MAX_DEPTH = 60
"""Nesting of two values that are compared."""

_CHARS_PER_STEP = 100
_MAX_SHOWN_CHARS = 80

Value = Any
"""JSON data, and the times that a run has: None, bool, int, float, str, list, mapping, datetime, timedelta."""


class Evaluated(NamedTuple):
    """The value of an expression, or the error instead; and every place that was read, with what was there.

    `missing` are the places that were read and that the data does not have.
    """

    value: Value
    error: str
    reads: Mapping[str, Value]
    missing: tuple[str, ...]

    @property
    def is_true(self) -> bool:
        return not self.error and self.value is True

    @property
    def is_false(self) -> bool:
        return not self.error and self.value is False

    @property
    def is_undecidable(self) -> bool:
        """True if the data does not say: the rule neither matches nor fails to match."""
        return not self.is_true and not self.is_false


class _EvaluationError(Exception):
    """No value: something is missing, or has the wrong type."""


class _OutOfFuel(Exception):
    """The effort is used up."""


def evaluate(expression: Expression, environment: Mapping[str, Value], fuel: int = MAX_FUEL) -> Evaluated:
    """Evaluate an expression. Always returns; whatever is wrong is the `error` of the result."""
    evaluation = _Evaluation(environment, fuel)
    value: Value = None
    error = ""
    try:
        value = evaluation.evaluate(expression.root)
    except _EvaluationError as caught:
        error = str(caught)
    except _OutOfFuel:
        error = f"it takes more than {fuel:,} steps"
    return Evaluated(value, error, evaluation.reads, tuple(evaluation.missing))


class _Evaluation:
    """One walk over the tree."""

    def __init__(self, environment: Mapping[str, Value], fuel: int) -> None:
        self.reads: dict[str, Value] = {}
        self.missing: dict[str, None] = {}
        self._environment = environment
        self._fuel = fuel
        self._elements: dict[str, Value] = {}

    def evaluate(self, node: Node) -> Value:
        """Return the value of a part: a number that is no integer of 64 bits is a floating-point number everywhere."""
        self._fuel -= 1  # as `_spend` does, for every part of every expression
        if self._fuel < 0:
            raise _OutOfFuel
        return _EVALUATORS[type(node)](self, node)

    def _spend(self, steps: int) -> None:
        self._fuel -= steps
        if self._fuel < 0:
            raise _OutOfFuel

    def _literal(self, node: Literal) -> Value:
        return node.value

    def _read(self, node: Read) -> Value:
        value: Value = self._environment.get(node.root, _MISSING)
        for key in node.keys:
            self._spend(1)
            value = _look_up(value, key)
        if value is _MISSING:
            self.missing[node.path] = None
            raise _EvaluationError(f"{node.path} is missing")
        value = _normalize(value)
        self.reads[node.path] = _show(value)
        return value

    def _element(self, node: Element) -> Value:
        return self._elements[node.name]

    def _select(self, node: Select) -> Value:
        value = _look_up(self.evaluate(node.operand), node.field)
        if value is _MISSING:
            raise _EvaluationError(f"the field {truncate_for_message(node.field)} is missing")
        return _normalize(value)

    def _index(self, node: Index) -> Value:
        operand, index = self.evaluate(node.operand), self.evaluate(node.index)
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        value = _look_up(operand, index)
        if value is _MISSING:
            raise _EvaluationError(f"there is no element {truncate_for_message(str(index))}")
        return _normalize(value)

    def _list(self, node: ListLiteral) -> Value:
        return [self.evaluate(item) for item in node.items]

    def _negation(self, node: Negation) -> Value:
        operand = self.evaluate(node.operand)
        if node.operator == "!":
            if isinstance(operand, bool):
                return not operand
            raise _EvaluationError(f"! needs true or false, not {_name_type(operand)}")
        if isinstance(operand, timedelta):
            return -operand
        return _in_range(-_require_number(operand, "-"))

    def _logic(self, node: Logic) -> Value:
        """The operand that decides wins, whatever is wrong with the other: as in CEL, in either order."""
        decides = node.operator == "||"
        error: _EvaluationError | None = None
        for operand in (node.left, node.right):
            try:
                value = self.evaluate(operand)
            except _EvaluationError as caught:
                error = error or caught
                continue
            if value is decides:
                return decides
            if not isinstance(value, bool):
                error = error or _EvaluationError(f"{node.operator} needs true or false, not {_name_type(value)}")
        if error is not None:
            raise error
        return not decides

    def _conditional(self, node: Conditional) -> Value:
        condition = self.evaluate(node.condition)
        if not isinstance(condition, bool):
            raise _EvaluationError(f"the condition before ? is {_name_type(condition)}, not true or false")
        return self.evaluate(node.then if condition else node.otherwise)

    def _operation(self, node: Operation) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        operator = node.operator
        if operator in _ORDER:
            return self._compare(operator, left, right)
        match operator:
            case "==":
                return self._equal(left, right)
            case "!=":
                return not self._equal(left, right)
            case "in":
                return self._contains(left, right)
            case "+":
                return self._plus(left, right)
            case _:
                return _ARITHMETIC[operator](left, right)

    def _equal(self, left: Value, right: Value, depth: int = 0) -> bool:
        self._spend(1)
        if depth > MAX_DEPTH:
            raise _EvaluationError("the compared values are nested too deep")
        if _is_number(left) and _is_number(right):
            return bool(_normalize(left) == _normalize(right))
        if isinstance(left, str) and isinstance(right, str):
            self._spend(min(len(left), len(right)) // _CHARS_PER_STEP)
            return left == right
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            return len(left) == len(right) and all(
                key in right and self._equal(value, right[key], depth + 1) for key, value in left.items()
            )
        if _is_list(left) and _is_list(right):
            return len(left) == len(right) and all(
                self._equal(one, other, depth + 1) for one, other in zip(left, right, strict=True)
            )
        return type(left) is type(right) and bool(left == right)

    def _contains(self, needle: Value, container: Value) -> bool:
        if isinstance(container, Mapping):
            return isinstance(needle, str) and needle in container
        if not _is_list(container):
            raise _EvaluationError(f"in needs a list or a map, not {_name_type(container)}")
        return any(self._equal(needle, each) for each in container)

    def _compare(self, operator: str, left: Value, right: Value) -> bool:
        if _is_number(left) and _is_number(right):
            return _ORDER[operator](left, right)
        if isinstance(left, str) and isinstance(right, str):
            self._spend(min(len(left), len(right)) // _CHARS_PER_STEP)
            return _ORDER[operator](left, right)
        if any(isinstance(left, kind) and isinstance(right, kind) for kind in (bool, datetime, timedelta)):
            return _ORDER[operator](left, right)
        raise _EvaluationError(f"{_name_type(left)} cannot be compared with {_name_type(right)}")

    def _plus(self, left: Value, right: Value) -> Value:
        if isinstance(left, str) and isinstance(right, str):
            self._spend((len(left) + len(right)) // _CHARS_PER_STEP)
            if len(left) + len(right) > MAX_TEXT_CHARS:
                raise _EvaluationError(f"the text is longer than {MAX_TEXT_CHARS:,} characters")
            return left + right
        if _is_list(left) and _is_list(right):
            self._spend(len(left) + len(right))
            return [*left, *right]
        return _add(left, right)

    def _call(self, node: Call) -> Value:
        if node.name == "has":
            return self._has(node.arguments[0])
        arguments = [self.evaluate(argument) for argument in node.arguments]
        if node.name in ("min", "max", "sum", "avg"):
            return self._aggregate(node.name, arguments)
        if node.name in _TEXT_METHODS:
            return self._search(node.name, *arguments)
        return _CALLS[node.name](*arguments)

    def _has(self, place: Node) -> bool:
        try:
            self.evaluate(place)
        except _EvaluationError:
            return False
        return True

    def _aggregate(self, name: str, arguments: list[Value]) -> Value:
        numbers = arguments[0] if len(arguments) == 1 and _is_list(arguments[0]) else arguments
        self._spend(len(numbers))
        values = [_require_number(_normalize(number), f"{name}()") for number in numbers]
        if name == "sum":
            return _in_range(sum(values))
        if not values:
            raise _EvaluationError(f"{name}() of nothing")
        if name == "avg":
            return math.fsum(values) / len(values)
        return min(values) if name == "min" else max(values)

    def _search(self, name: str, subject: Value, part: Value) -> bool:
        if not isinstance(subject, str) or not isinstance(part, str):
            raise _EvaluationError(f"{name[1:]}() needs two texts")
        self._spend(len(subject) // _CHARS_PER_STEP)
        return _TEXT_METHODS[name](subject, part)

    def _macro(self, node: Macro) -> Value:
        subject = self.evaluate(node.subject)
        if isinstance(subject, Mapping):
            subject = list(subject)
        if not _is_list(subject):
            raise _EvaluationError(f"{node.name}() needs a list, not {_name_type(subject)}")
        outer = self._elements.get(node.variable, _MISSING)
        try:
            return self._search_list(node, subject) if node.name in ("exists", "all") else self._build(node, subject)
        finally:
            if outer is _MISSING:
                self._elements.pop(node.variable, None)
            else:
                self._elements[node.variable] = outer

    def _search_list(self, node: Macro, subject: Sequence[Value]) -> Value:
        """Like a chain of `||` or `&&`: an element that decides makes errors in others irrelevant."""
        decides = node.name == "exists"
        error: _EvaluationError | None = None
        for element in subject:
            self._elements[node.variable] = _normalize(element)
            try:
                value = self.evaluate(node.body)
            except _EvaluationError as caught:
                error = error or caught
                continue
            if value is decides:
                return decides
            if not isinstance(value, bool):
                error = error or _EvaluationError(f"{node.name}() needs true or false, not {_name_type(value)}")
        if error is not None:
            raise error
        return not decides

    def _build(self, node: Macro, subject: Sequence[Value]) -> list[Value]:
        results: list[Value] = []
        for element in subject:
            self._elements[node.variable] = _normalize(element)
            value = self.evaluate(node.body)
            if node.name == "map":
                results.append(value)
            elif not isinstance(value, bool):
                raise _EvaluationError(f"filter() needs true or false, not {_name_type(value)}")
            elif value:
                results.append(element)
        return results


_MISSING = object()
_NUMBERS = (int, float)
_LISTS = (list, tuple)
_MAPS = (dict, Mapping)
"""As tuples: a union takes twice as long to look at, and every part of an expression is looked at. A dictionary first:
to find out that it is a mapping takes longer than all the rest, and JSON has no other mappings."""


def _look_up(value: Value, key: Value) -> Value:
    """Return what is there, or _MISSING. Only maps have fields and only lists have numbered elements."""
    if isinstance(key, str) and isinstance(value, _MAPS):
        return value.get(key, _MISSING)
    if _is_list(value) and isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(value):
        return value[key]
    return _MISSING


def _normalize(value: Value) -> Value:
    """Return integers beyond 64 bits as floating-point numbers, which is what other readers of JSON make of them."""
    if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value


def _is_number(value: Value) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _is_list(value: Value) -> bool:
    return isinstance(value, _LISTS)


def _require_number(value: Value, what: str) -> int | float:
    if isinstance(value, _NUMBERS) and not isinstance(value, bool):
        return value
    raise _EvaluationError(f"{what} needs numbers, not {_name_type(value)}")


def _in_range(number: float) -> int | float:
    if isinstance(number, int) and not MIN_INTEGER <= number <= MAX_INTEGER:
        raise _EvaluationError("the number is too large")
    return number


def _add(left: Value, right: Value) -> Value:
    if isinstance(left, datetime | timedelta) or isinstance(right, datetime | timedelta):
        return _shift(left, right, 1)
    return _in_range(_require_number(left, "+") + _require_number(right, "+"))


def _subtract(left: Value, right: Value) -> Value:
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left - right
    if isinstance(left, datetime | timedelta) or isinstance(right, datetime | timedelta):
        return _shift(left, right, -1)
    return _in_range(_require_number(left, "-") - _require_number(right, "-"))


def _shift(left: Value, right: Value, sign: int) -> Value:
    """Add durations, or move a time by one."""
    if isinstance(left, timedelta) and isinstance(right, datetime) and sign == 1:
        left, right = right, left
    if not isinstance(left, datetime | timedelta) or not isinstance(right, timedelta):
        raise _EvaluationError(f"{_name_type(left)} and {_name_type(right)} cannot be added or subtracted")
    try:
        return left + sign * right
    except OverflowError:
        raise _EvaluationError("the time is out of range") from None


def _multiply(left: Value, right: Value) -> Value:
    return _in_range(_require_number(left, "*") * _require_number(right, "*"))


def _divide(left: Value, right: Value) -> Value:
    """Two whole numbers divide as in JSON's one type of numbers; only whole by whole zero is an error, as in CEL."""
    dividend, divisor = _require_number(left, "/"), _require_number(right, "/")
    if divisor != 0:
        quotient = dividend / divisor
        is_whole = isinstance(dividend, int) and isinstance(divisor, int) and dividend % divisor == 0
        return _in_range(dividend // divisor) if is_whole else quotient
    if isinstance(dividend, int) and isinstance(divisor, int):
        raise _EvaluationError("a division by zero")
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1, divisor)


def _remainder(left: Value, right: Value) -> Value:
    """The remainder has the sign of the dividend, as in CEL."""
    numbers = [_require_number(left, "%"), _require_number(right, "%")]
    if not all(isinstance(number, int) or number.is_integer() for number in numbers):
        raise _EvaluationError("% needs whole numbers")
    dividend, divisor = (int(number) for number in numbers)
    if divisor == 0:
        raise _EvaluationError("a division by zero")
    return int(math.copysign(1, dividend)) * (abs(dividend) % abs(divisor))


def _size(value: Value) -> int:
    if isinstance(value, str | Mapping) or _is_list(value):
        return len(value)
    raise _EvaluationError(f"{_name_type(value)} has no size")


def _absolute(value: Value) -> Value:
    return abs(value) if isinstance(value, timedelta) else _in_range(abs(_require_number(value, "abs()")))


def _duration(value: Value) -> timedelta:
    """Parse "90s", "1h30m" or "1.5h": numbers with units, as in CEL, and days."""
    if not isinstance(value, str):
        raise _EvaluationError(f"duration() needs a text, not {_name_type(value)}")
    seconds = _parse_seconds(value)
    if seconds is None:
        raise _EvaluationError(f'"{truncate_for_message(value)}" is not a duration')
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise _EvaluationError("the duration is out of range") from None


def _parse_seconds(text: str) -> float | None:
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text)
    total, number = 0.0, ""
    position = 0
    if not rest or len(rest) > 40:
        return None
    while position < len(rest):
        char = rest[position]
        if char.isascii() and (char.isdigit() or char == "."):
            number += char
            position += 1
            continue
        unit = "ms" if rest.startswith("ms", position) else char
        size = 0.001 if unit == "ms" else UNIT_SECONDS.get(unit)
        if size is None or number.strip(".") == "" or number.count(".") > 1:
            return None
        total, number = total + float(number) * size, ""
        position += len(unit)
    return None if number else sign * total


def _timestamp(value: Value) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise _EvaluationError(f"timestamp() needs a text, not {_name_type(value)}")
    try:
        return parse_timestamp(value)
    except TimeParseError as error:
        raise _EvaluationError(f'"{truncate_for_message(value)}" is not a time') from error


def _clock_part(name: str) -> Callable[..., int]:
    def read(value: Value, zone: Value = "UTC") -> int:
        if isinstance(value, timedelta) and name != "getDayOfWeek":
            unit = timedelta(hours=1) if name == "getHours" else timedelta(minutes=1)
            return math.trunc(value / unit)
        if isinstance(value, str):
            value = _timestamp(value)
        if not isinstance(value, datetime) or not isinstance(zone, str):
            raise _EvaluationError(f"{name}() needs a time, and the name of a zone")
        local = value.astimezone(_zone(zone))
        # CEL counts the days of a week from Sunday.
        return {"getHours": local.hour, "getMinutes": local.minute, "getDayOfWeek": local.isoweekday() % 7}[name]

    return read


def _zone(name: str) -> ZoneInfo | Any:
    if name == "UTC":
        return UTC
    try:
        return parse_zone(name)
    except TimezoneError as error:
        raise _EvaluationError(f'there is no time zone "{truncate_for_message(name)}"') from error


def _name_type(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case datetime():
            return "a time"
        case timedelta():
            return "a duration"
        case Mapping():
            return "a map"
        case _:
            return "a list"


def _show(value: Value) -> Value:
    """Return what is kept of a value that was read: scalars as they are, texts cut off, the size of lists and maps."""
    if isinstance(value, _NUMBERS):
        return value if isinstance(value, int) or math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN_CHARS else value[: _MAX_SHOWN_CHARS - 1] + "…"
    if isinstance(value, Mapping):
        return f"{{{len(value)} fields}}"
    if _is_list(value):
        return f"[{len(value)} elements]"
    return value


_ORDER: Mapping[str, Callable[[Value, Value], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_ARITHMETIC: Mapping[str, Callable[[Value, Value], Value]] = {
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
}
_TEXT_METHODS: Mapping[str, Callable[[str, str], bool]] = {
    ".contains": lambda subject, part: part in subject,
    ".startsWith": str.startswith,
    ".endsWith": str.endswith,
}
_CALLS: Mapping[str, Callable[..., Value]] = {
    "size": _size,
    ".size": _size,
    "abs": _absolute,
    "duration": _duration,
    "timestamp": _timestamp,
    ".getHours": _clock_part("getHours"),
    ".getMinutes": _clock_part("getMinutes"),
    ".getDayOfWeek": _clock_part("getDayOfWeek"),
}
_EVALUATORS: Mapping[type[Any], Callable[[_Evaluation, Any], Value]] = {
    Literal: _Evaluation._literal,  # noqa: SLF001 - the table of this class
    Read: _Evaluation._read,  # noqa: SLF001
    Element: _Evaluation._element,  # noqa: SLF001
    Select: _Evaluation._select,  # noqa: SLF001
    Index: _Evaluation._index,  # noqa: SLF001
    ListLiteral: _Evaluation._list,  # noqa: SLF001
    Negation: _Evaluation._negation,  # noqa: SLF001
    Operation: _Evaluation._operation,  # noqa: SLF001
    Logic: _Evaluation._logic,  # noqa: SLF001
    Conditional: _Evaluation._conditional,  # noqa: SLF001
    Call: _Evaluation._call,  # noqa: SLF001
    Macro: _Evaluation._macro,  # noqa: SLF001
}
