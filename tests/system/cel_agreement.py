"""Random expressions, evaluated by ours and by Google's CEL: `python -m tests.system.cel_agreement SEED N`.

It prints one JSON object. A process of its own, because the other implementation is C++ and may crash.
"""

import json
import math
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

from herdbeat.errors import HerdbeatError
from herdbeat.rules.evaluate import evaluate
from herdbeat.rules.expression import parse_expression

DATA: dict[str, Any] = {
    "response": {
        "n": 5,
        "f": 2.5,
        "neg": -3,
        "s": "abc",
        "t": True,
        "z": None,
        "l": [1, 2, 3],
        "m": {"a": 1, "b": "x"},
        "e": [],
        "big": 2**40,
        "ls": ["a", "b"],
    },
    "run": {"ok": True, "code": 200, "d": 0.25},
    "runs": [{"ok": True, "n": 1}, {"ok": False, "n": 2, "why": "x"}],
    "previous": {"response": {"n": 4}},
}
PATHS = (
    *("response.n", "response.f", "response.neg", "response.s", "response.t", "response.z", "response.l"),
    *("response.m", "response.e", "response.big", "response.missing", "response.m.a", "response.m.q", "run.ok"),
    *("run.code", "run.d", "runs", "runs[0].ok", "runs[1].n", "runs[5].n", "previous.response.n", 'response["s"]'),
    "response.ls",
)
LITERALS = (
    *("1", "0", "2", "-1", "3.0", "0.5", "1e3", "true", "false", "null"),
    *('"abc"', "'a'", '""', "[1, 2]", "[]", '["a"]'),
)
PRESENCE = ("response.n", "response.missing", "response.m.a", "response.q.r", "run.ok")
MAX_CHARS = 900
MAX_SHOWN = 20


class ExpressionSource:
    """Random texts of the language, as deep as asked for."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next_text(self) -> str:
        return self._build(self._random.randrange(1, 5))

    def _build(self, depth: int, bound: tuple[str, ...] = ()) -> str:
        if depth <= 0 or self._random.random() < 0.28:
            return self._leaf(bound)
        return self._random.choice(self._FORMS)(self, depth - 1, bound)

    def _leaf(self, bound: tuple[str, ...]) -> str:
        chance = self._random.random()
        if bound and chance < 0.35:
            return self._random.choice(bound) + self._random.choice(("", ".ok", ".n", ".why"))
        return self._random.choice(PATHS if chance < 0.7 else LITERALS)

    def _pick(self, *words: str) -> str:
        return self._random.choice(words)

    def _compare(self, depth: int, bound: tuple[str, ...]) -> str:
        operator = self._pick("==", "!=", "<", "<=", ">", ">=")
        return f"({self._build(depth, bound)} {operator} {self._build(depth, bound)})"

    def _combine(self, depth: int, bound: tuple[str, ...]) -> str:
        return f"({self._build(depth, bound)} {self._pick('&&', '||')} {self._build(depth, bound)})"

    def _calculate(self, depth: int, bound: tuple[str, ...]) -> str:
        return f"({self._build(depth, bound)} {self._pick('+', '-', '*')} {self._build(depth, bound)})"

    def _divide(self, depth: int, bound: tuple[str, ...]) -> str:
        """By numbers that are no integers: theirs divides integers, ours knows only one kind of number."""
        by = self._pick("/ 2.0", "/ 0.5", "/ 0.0", "/ run.d", "% 2", "% -2", "% 0", "% 3")
        return f"({self._build(depth, bound)} {by})"

    def _prefix(self, depth: int, bound: tuple[str, ...]) -> str:
        """In brackets: theirs reads `!!x` as x, whatever x is."""
        return f"{self._pick('!', '-')}({self._build(depth, bound)})"

    def _choose(self, depth: int, bound: tuple[str, ...]) -> str:
        return f"({self._build(depth, bound)} ? {self._build(depth, bound)} : {self._build(depth, bound)})"

    def _contain(self, depth: int, bound: tuple[str, ...]) -> str:
        left, right = self._build(depth, bound), self._build(depth, bound)
        return self._pick(f"({left} in {right})", f"{left}.contains({right})", f"{left}.startsWith('a')")

    def _measure(self, depth: int, bound: tuple[str, ...]) -> str:
        return self._pick(f"size({self._build(depth, bound)})", f"has({self._pick(*PRESENCE)})")

    def _macro(self, depth: int, bound: tuple[str, ...]) -> str:
        over = self._pick("runs", "response.l", "response.e", "[1, 2]", self._build(depth, bound))
        name, macro = self._pick("x", "y"), self._pick("exists", "all", "filter", "map")
        return f"{over}.{macro}({name}, {self._build(depth, (*bound, name))})"

    _FORMS = (
        *(_compare, _compare, _compare, _combine, _combine, _calculate, _divide, _prefix),
        *(_choose, _contain, _measure, _macro),
    )


def compare(seed: int, count: int) -> dict[str, Any]:
    """Evaluate so many expressions twice. `disagreements` are texts for which theirs has a value and ours another."""
    from cel_expr_python import cel

    environment = cel.NewEnv(variables=dict.fromkeys(DATA, cel.Type.DYN))
    source, values, shown = ExpressionSource(seed), 0, list[str]()
    for text in _take(source, count):
        theirs = _ask_theirs(cel, environment, text)
        if theirs is None:
            continue
        values += 1
        ours = evaluate(parse_expression(text), DATA)
        if ours.error or _normalize(ours.value) != _normalize(theirs[0]):
            shown.append(f"{text} | ours {ours.error or ours.value!r} | theirs {theirs[0]!r}")
    return {"expressions": count, "values": values, "disagreements": len(shown), "shown": shown[:MAX_SHOWN]}


def _take(source: ExpressionSource, count: int) -> Iterator[str]:
    """Yield so many expressions that our language has: it is a subset."""
    while count:
        text = source.next_text()
        if len(text) > MAX_CHARS:
            continue
        try:
            parse_expression(text)
        except HerdbeatError:
            continue
        count -= 1
        yield text


def _ask_theirs(cel: Any, environment: Any, text: str) -> tuple[object] | None:
    """Return its value in a tuple; None if it has none. Its errors are values too, or exceptions of every kind."""
    try:
        result = environment.compile(text, disable_check=True).eval(data=DATA)
    except (RuntimeError, ValueError, TypeError):
        return None
    if result.type() in (cel.Type.ERROR, cel.Type.UNKNOWN):
        return None
    return ((result.plain_value if hasattr(result, "plain_value") else result.value)(),)


def _normalize(value: object) -> object:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return "nan" if math.isnan(value) else float(value)
    if isinstance(value, list | tuple):
        return [_normalize(each) for each in value]
    return {key: _normalize(each) for key, each in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    print(json.dumps(compare(int(sys.argv[1]), int(sys.argv[2]))), flush=True)
    os._exit(0)  # it counts the references to None wrongly, and Python aborts when it notices at its end
