"""The expression language of rules: a strict subset of CEL, parsed into a small tree. Pure.

    expr    = or [ "?" expr ":" expr ]        or  = and { "||" and }        and = compare { "&&" compare }
    compare = sum [ ( "<" "<=" ">" ">=" "==" "!=" "in" ) sum ]              it does not chain
    sum     = product { ( "+" "-" ) product } product = unary { ( "*" "/" "%" ) unary }
    unary   = { "!" "-" } member
    member  = primary { "." NAME [ "(" args ")" ] | "[" expr "]" }
    primary = number | text | true | false | null | NAME [ "(" args ")" ] | "(" expr ")" | "[" exprs "]"

What a text means is decided here, once; what it evaluates to, in `evaluate`. Length, nesting and number of nodes are
bounded, so that no rule can exhaust the parser or the interpreter's stack.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from herdbeat.errors import ExpressionError, did_you_mean_suffix, truncate_for_message

MAX_CHARS = 1_000
MAX_NESTING = 24
"""Brackets, calls, conditionals and signs within each other."""
MAX_NODES = 200
MAX_HEIGHT = 60
"""Nodes from the root to a leaf. A long chain of `+` is high although nothing in it is nested."""

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1

MACROS = frozenset({"exists", "all", "filter", "map"})
METHODS = frozenset({"contains", "startsWith", "endsWith", "size", "getHours", "getMinutes", "getDayOfWeek"})
FUNCTIONS = frozenset({"has", "size", "min", "max", "sum", "avg", "abs", "duration", "timestamp"})
_VALUE_FUNCTIONS = (FUNCTIONS - {"has"}) | {"getHours", "getMinutes", "getDayOfWeek"}
ROOTS = ("response", "run", "previous", "runs", "schedule", "siblings")
"""What a rule may read."""
RUN_FIELDS = (
    *("ok", "status", "status_code", "duration_ms", "attempt", "cost_usd", "response", "skip_reason"),
    *("work_items_left", "started_at", "finished_at"),
)
"""What `run`, `previous`, each of `runs` and each of `siblings` can have."""
SCHEDULE_FIELDS = ("failures", "interval_s", "tags")

_ARGUMENT_COUNTS = {
    "has": (1, 1),
    "size": (1, 1),
    "min": (1, 20),
    "max": (1, 20),
    "sum": (1, 1),
    "avg": (1, 1),
    "abs": (1, 1),
    "duration": (1, 1),
    "timestamp": (1, 1),
    ".size": (0, 0),
    ".contains": (1, 1),
    ".startsWith": (1, 1),
    ".endsWith": (1, 1),
    ".getHours": (0, 1),
    ".getMinutes": (0, 1),
    ".getDayOfWeek": (0, 1),
}
_OTHER_LANGUAGES = {"and": "&&", "or": "||", "not": "!", "True": "true", "False": "false", "None": "null", "is": "=="}
_OTHER_OPERATORS = {
    "=": "Compare with ==.",
    "===": "Compare with ==.",
    "&": "Write && for and.",
    "|": "Write || for or.",
    "<>": "Write != for not equal.",
    "=>": "Write >= for greater or equal.",
    "=<": "Write <= for less or equal.",
}
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})
_KEYWORDS = frozenset({"true", "false", "null", "in"})
_TOKEN_PATTERN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+\.[0-9]+|[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<operator>===|=>|=<|<>|&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]=&|])"
)
_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPE_PATTERN = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "`": "`", "?": "?"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, true, false or null."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Read:
    """A place that rules may read: a root and the constant keys that lead on from it, as in `runs[0].ok`."""

    root: str
    keys: tuple[str | int, ...] = ()
    ends_in_field: bool = False
    path: str = field(init=False, repr=False, compare=False)
    """Its name, such as `response.queue_depth`: computed once, because every evaluation reports it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.root + "".join(map(_format_key, self.keys)))


def _format_key(key: str | int) -> str:
    if isinstance(key, str) and _NAME_PATTERN.fullmatch(key):
        return f".{key}"
    return f"[{json.dumps(key, ensure_ascii=False)}]"


@dataclass(frozen=True, slots=True)
class Element:
    """The element that a macro is looking at, by the name that the macro gives it."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`. Fields exist only in maps, so that nothing of the interpreter can be reached."""

    operand: "Node"
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    operand: "Node"
    index: "Node"


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """`!operand`, or `-operand`."""

    operator: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Operation:
    """Two operands and an arithmetic operator or a comparison."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Logic:
    """`&&` or `||`: an operand that decides makes an error in the other one irrelevant."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Conditional:
    condition: "Node"
    then: "Node"
    otherwise: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or a method if its name begins with a dot; the first argument of a method is its subject."""

    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """`subject.exists(variable, body)`, or `all`, `filter`, `map`."""

    name: str
    subject: "Node"
    variable: str
    body: "Node"


Node = (
    Literal | Read | Element | Select | Index | ListLiteral | Negation | Operation | Logic | Conditional | Call | Macro
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. `places` are what it can read, `paths` their names, such as `response.queue_depth`."""

    text: str
    root: Node
    paths: tuple[str, ...]
    places: tuple[Read, ...] = ()


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


@lru_cache(maxsize=2_000)
def parse_expression(text: str, roots: tuple[str, ...] = ROOTS) -> Expression:
    """Parse an expression that reads from `roots`. Raises ExpressionError, which locates the fault in the text."""
    if len(text) > MAX_CHARS:
        raise ExpressionError(
            f"The expression has {len(text):,} characters.",
            offset=MAX_CHARS,
            hint=f"Use at most {MAX_CHARS:,}, or several rules.",
        )
    parser = _Parser(text, list(_tokenize(text)), roots)
    root = parser.parse()
    places = tuple(find_reads(root))
    return Expression(text, root, tuple(dict.fromkeys(read.path for read in places)), places)


def find_other_type(node: Node) -> str:
    """Return what an expression is if it can never be true or false, such as "a number"; else an empty text."""
    match node:
        case Literal(value=bool()):
            return ""
        case Literal(value=value):
            return "null" if value is None else "a text" if isinstance(value, str) else "a number"
        case ListLiteral() | Macro(name="filter" | "map"):
            return "a list"
        case Negation(operator="-") | Operation(operator="+" | "-" | "*" | "/" | "%"):
            return "the result of a calculation"
        case Call(name=name) if name.removeprefix(".") in _VALUE_FUNCTIONS:
            return f"the result of {name.removeprefix('.')}()"
        case Conditional(then=then, otherwise=otherwise):
            return find_other_type(then) and find_other_type(otherwise)
    return ""


def find_unknown_field(read: Read, run_fields: Sequence[str] = RUN_FIELDS) -> tuple[str, Sequence[str]] | None:
    """Return the field of a run or a schedule that can never be there, and those that can; None if it may be there.

    What a response has is not known here.
    """
    if read.root not in ("run", "previous", "runs", "schedule", "siblings"):
        return None
    known = SCHEDULE_FIELDS if read.root == "schedule" else run_fields
    position = 1 if read.root in ("runs", "siblings") else 0  # after the number or the name of the run
    key = read.keys[position] if len(read.keys) > position else None
    return (key, known) if isinstance(key, str) and key not in known else None


def find_reads(node: Node) -> Iterator[Read]:
    if isinstance(node, Read):
        yield node
    for child in children(node):
        yield from find_reads(child)


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(operand=operand) | Negation(operand=operand):
            return (operand,)
        case Index(operand=operand, index=index):
            return (operand, index)
        case ListLiteral(items=items):
            return items
        case Operation(left=left, right=right) | Logic(left=left, right=right):
            return (left, right)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Call(arguments=arguments):
            return arguments
        case Macro(subject=subject, body=body):
            return (subject, body)
        case _:
            return ()


def _tokenize(text: str) -> Iterator[_Token]:
    offset = 0
    while offset < len(text):
        match = _TOKEN_PATTERN.match(text, offset)
        if match is None:
            raise _lexical_error(text, offset)
        kind = match.lastgroup or ""
        if kind != "space":
            yield _Token(kind, match[0], offset)
        offset = match.end()
    yield _Token("end", "", len(text))


def _lexical_error(text: str, offset: int) -> ExpressionError:
    if text[offset] in "\"'":
        return ExpressionError("The text has no closing quote.", offset=offset, hint=f"Add {text[offset]} at its end.")
    shown = truncate_for_message(text[offset]) or f"U+{ord(text[offset]):04X}"
    return ExpressionError(f'"{shown}" has no meaning here.', offset=offset)


class _Parser:
    """Recursive descent, one method per line of the grammar."""

    def __init__(self, text: str, tokens: list[_Token], roots: tuple[str, ...]) -> None:
        self._text = text
        self._tokens = tokens
        self._position = 0
        self._roots = roots
        self._bound: list[str] = []
        self._nesting = 0
        self._nodes = 0
        self._heights: dict[int, int] = {}

    def parse(self) -> Node:
        if self._peek().kind == "end":
            raise ExpressionError("The expression is empty.", offset=0, hint="Write, for example, run.ok == false.")
        node = self._expression()
        token = self._peek()
        if token.kind != "end":
            raise self._unexpected(token)
        return node

    def _expression(self) -> Node:
        self._enter()
        condition = self._chain(("||",), lambda: self._chain(("&&",), self._comparison, Logic), Logic)
        if self._accept("?"):
            then = self._expression()
            self._expect(":", "A conditional needs both branches: condition ? value : other value.")
            condition = self._add(Conditional(condition, then, self._expression()))
        self._nesting -= 1
        return condition

    def _chain(
        self, operators: tuple[str, ...], operand: Callable[[], Node], kind: type[Logic] | type[Operation]
    ) -> Node:
        left = operand()
        while self._peek().text in operators and self._peek().kind == "operator":
            operator = self._next().text
            left = self._add(kind(operator, left, operand()))
        return left

    def _comparison(self) -> Node:
        left = self._sum()
        if self._peek().text not in _COMPARISONS or self._peek().kind == "text":
            return left
        node = self._add(Operation(self._next().text, left, self._sum()))
        token = self._peek()
        if token.text in _COMPARISONS and token.kind != "text":
            raise ExpressionError(
                "Comparisons cannot be chained.",
                offset=token.offset,
                width=len(token.text),
                hint="Write a < b && b < c.",
            )
        return node

    def _sum(self) -> Node:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/", "%"), self._unary, Operation), Operation)

    def _unary(self) -> Node:
        token = self._peek()
        if token.kind != "operator" or token.text not in ("!", "-"):
            return self._member()
        self._next()
        following = self._peek()
        if token.text == "-" and following.kind == "number":
            # One literal, as in CEL: the smallest integer has no positive counterpart.
            self._next()
            return self._member_of(self._add(Literal(_read_number(following, sign=-1))))
        self._enter()
        node = self._add(Negation(token.text, self._unary()))
        self._nesting -= 1
        return node

    def _member(self) -> Node:
        return self._member_of(self._primary())

    def _member_of(self, node: Node) -> Node:
        while True:
            if self._accept("."):
                node = self._field_or_method(node)
            elif self._accept("["):
                index = self._expression()
                self._expect("]", "An index ends with ].")
                node = self._add(_index(node, index))
            else:
                return node

    def _field_or_method(self, subject: Node) -> Node:
        token = self._next()
        if token.kind != "name":
            raise ExpressionError(
                "A name has to follow the dot.",
                offset=token.offset,
                width=max(1, len(token.text)),
                hint='A field with another spelling is read as response["other spelling"].',
            )
        if self._peek().text != "(" or self._peek().kind != "operator":
            return self._add(_select(subject, token.text))
        if token.text in MACROS:
            return self._macro(token, subject)
        if token.text not in METHODS:
            raise self._unknown("method", token, METHODS | MACROS)
        return self._call(f".{token.text}", token, subject)

    def _macro(self, token: _Token, subject: Node) -> Node:
        self._next()
        variable = self._next()
        example = f"runs.{token.text}(each, each.ok)"
        if variable.kind != "name" or variable.text in _KEYWORDS:
            raise ExpressionError(
                f"{token.text}() needs a name for the element.",
                offset=variable.offset,
                width=max(1, len(variable.text)),
                hint=f"Write, for example, {example}.",
            )
        self._expect(",", f"Write, for example, {example}.")
        self._bound.append(variable.text)
        body = self._expression()
        self._bound.pop()
        self._expect(")", f"{token.text}() takes a name and one expression, for example {example}.")
        return self._add(Macro(token.text, subject, variable.text, body))

    def _call(self, name: str, token: _Token, *subject: Node) -> Node:
        self._next()
        arguments = self._items(")", "A call ends with ).")
        least, most = _ARGUMENT_COUNTS[name]
        if not least <= len(arguments) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise ExpressionError(
                f"{token.text}() takes {count} argument{'' if count == '1' else 's'}, not {len(arguments)}.",
                offset=token.offset,
                width=len(token.text),
            )
        if name == "has" and not _is_field(arguments[0]):
            raise ExpressionError(
                "has() asks for a field of something.",
                offset=token.offset,
                width=len(token.text),
                hint="Write, for example, has(response.errors).",
            )
        return self._add(Call(name, (*subject, *arguments)))

    def _primary(self) -> Node:
        token = self._next()
        match token.kind:
            case "number":
                return self._add(Literal(_read_number(token)))
            case "text":
                return self._add(Literal(_read_text(token)))
            case "name":
                return self._name(token)
            case _ if token.text == "(":
                node = self._expression()
                self._expect(")", "Each ( needs its ).")
                return node
            case _ if token.text == "[":
                return self._add(ListLiteral(self._items("]", "A list ends with ].")))
            case _:
                raise self._unexpected(token)

    def _name(self, token: _Token) -> Node:
        constants: dict[str, bool | None] = {"true": True, "false": False, "null": None}
        if token.text in constants:
            return self._add(Literal(constants[token.text]))
        if self._peek().text == "(" and self._peek().kind == "operator":
            if token.text not in FUNCTIONS:
                raise self._unknown("function", token, FUNCTIONS)
            return self._call(token.text, token)
        if token.text in self._bound:
            return self._add(Element(token.text))
        if token.text in self._roots:
            return self._add(Read(token.text))
        if token.text in _OTHER_LANGUAGES:
            raise self._unexpected(token)
        raise self._unknown("name", token, (*self._bound, *self._roots))

    def _items(self, end: str, hint: str) -> tuple[Node, ...]:
        items: list[Node] = []
        if self._accept(end):
            return ()
        while True:
            items.append(self._expression())
            if self._accept(end):
                return tuple(items)
            self._expect(",", hint)

    def _peek(self) -> _Token:
        return self._tokens[self._position]

    def _next(self) -> _Token:
        token = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return token

    def _accept(self, text: str) -> bool:
        token = self._peek()
        if token.kind != "operator" or token.text != text:
            return False
        self._next()
        return True

    def _expect(self, text: str, hint: str) -> None:
        if not self._accept(text):
            raise self._unexpected(self._peek(), hint)

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._too_complex(f"It is nested more than {MAX_NESTING} deep.")

    def _add(self, node: Node) -> Node:
        self._nodes += 1
        height = 1 + max((self._heights.get(id(child), 1) for child in children(node)), default=0)
        self._heights[id(node)] = height
        if self._nodes > MAX_NODES:
            raise self._too_complex(f"It has more than {MAX_NODES} parts.")
        if height > MAX_HEIGHT:
            raise self._too_complex(f"It has a chain of more than {MAX_HEIGHT} operations.")
        return node

    def _too_complex(self, reason: str) -> ExpressionError:
        return ExpressionError(
            f"The expression is too complex. {reason}", offset=self._peek().offset, hint="Split it into several rules."
        )

    def _unexpected(self, token: _Token, hint: str = "") -> ExpressionError:
        width = max(1, len(token.text))
        if token.kind == "end":
            return ExpressionError("The expression ends too early.", offset=len(self._text), hint=hint)
        if token.kind == "name" and token.text in _OTHER_LANGUAGES:
            other = _OTHER_LANGUAGES[token.text]
            return ExpressionError(
                f'"{token.text}" is not an operator here.', offset=token.offset, width=width, hint=f"Write {other}."
            )
        hint = _OTHER_OPERATORS.get(token.text, hint)
        shown = truncate_for_message(token.text)
        return ExpressionError(f'"{shown}" is not expected here.', offset=token.offset, width=width, hint=hint)

    def _unknown(self, what: str, token: _Token, known: Iterable[str]) -> ExpressionError:
        names = sorted(known) if what != "name" else list(dict.fromkeys(known))
        close = get_close_matches(token.text, names, n=1, cutoff=0.6)
        shown = truncate_for_message(token.text)
        return ExpressionError(
            f'There is no {what} "{shown}"{did_you_mean_suffix(close[0] if close else None)}',
            offset=token.offset,
            width=len(token.text),
            hint=f"There are {', '.join(names)}.",
        )


def _select(subject: Node, field: str) -> Node:
    if isinstance(subject, Read):
        return Read(subject.root, (*subject.keys, field), ends_in_field=True)
    return Select(subject, field)


def _index(subject: Node, index: Node) -> Node:
    key = index.value if isinstance(index, Literal) else None
    if isinstance(subject, Read) and isinstance(key, str | int) and not isinstance(key, bool):
        return Read(subject.root, (*subject.keys, key))
    return Index(subject, index)


def _is_field(node: Node) -> bool:
    return isinstance(node, Select) or (isinstance(node, Read) and node.ends_in_field)


def _read_number(token: _Token, sign: int = 1) -> int | float:
    if token.text.isdigit():
        value = sign * int(token.text[:40])
        if MIN_INTEGER <= value <= MAX_INTEGER:
            return value
        raise ExpressionError(
            "The number is too large.", offset=token.offset, width=len(token.text), hint="Write it as 1e30."
        )
    return sign * float(token.text)


def _read_text(token: _Token) -> str:
    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPES:
            return _ESCAPES[code]
        number = int(code[1:], 16) if len(code) > 1 else -1
        if number < 0 or number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise ExpressionError(
                f'"{truncate_for_message(match[0])}" is not an escape.',
                offset=token.offset + 1 + match.start(),
                width=len(match[0]),
                hint=r"Write \\ for a backslash.",
            )
        return chr(number)

    return _ESCAPE_PATTERN.sub(unescape, token.text[1:-1])
