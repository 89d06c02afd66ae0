"""The numbers in the responses of a schedule, over time, and the values that its rules compare them with."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import HerdbeatError
from herdbeat.rules.expression import Expression, Literal, Node, Operation, Read, children
from herdbeat.rules.rule import Rule, load_rules

MAX_FIELDS = 40
MAX_DEPTH = 6
_ROOT = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldValue:
    """What a run answered in one field."""

    run: int
    at: datetime
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleThreshold:
    """A number that a rule compares a field with. `label` names the rule, and whether it is its `until`."""

    path: str
    value: float
    label: str


ABSENT = object()
"""In the place of a value that is not there; null is a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRow:
    """A line of a response as a tree. A branch has `parts`; a leaf has a value, and the one that was there before."""

    key: str
    depth: int
    value: object
    before: object
    parts: int = 0
    is_new: bool = False
    is_gone: bool = False

    @property
    def differs(self) -> bool:
        return self.is_new or self.is_gone or self.value != self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleView:
    """A rule as its file has it."""

    name: str
    when: str
    until: str


def list_rules(record: ScheduleRecord) -> tuple[RuleView, ...]:
    return tuple(
        RuleView(name=rule.name, when=rule.when.text, until="" if rule.until is None else rule.until.text)
        for rule in _load_rules(record)
    )


def find_thresholds(record: ScheduleRecord) -> tuple[RuleThreshold, ...]:
    """Return every comparison of a field of the response with a number, in the order of the rules."""
    found: list[RuleThreshold] = []
    for rule in _load_rules(record):
        found += _iter_thresholds(rule.when, rule.name)
        if rule.until is not None:
            found += _iter_thresholds(rule.until, f"{rule.name} until")
    return tuple(found)


def _load_rules(record: ScheduleRecord) -> tuple[Rule, ...]:
    """A ledger that a newer version has written may have rules that this one does not understand: it shows none."""
    try:
        return load_rules(record.plan.policies.adapt)
    except HerdbeatError:
        return ()


def _iter_thresholds(expression: Expression, label: str) -> Iterator[RuleThreshold]:
    for operation in _iter_comparisons(expression.root):
        sides = (operation.left, operation.right)
        read = next((each for each in sides if isinstance(each, Read) and each.root == _ROOT), None)
        literal = next((each for each in sides if isinstance(each, Literal)), None)
        if read is not None and literal is not None and _is_number(literal.value):
            assert isinstance(literal.value, int | float)
            yield RuleThreshold(path=read.path, value=float(literal.value), label=label)


def _iter_comparisons(node: Node) -> Iterator[Operation]:
    if isinstance(node, Operation):
        yield node
    for child in children(node):
        yield from _iter_comparisons(child)


def list_number_fields(runs: Sequence[PastRun]) -> tuple[str, ...]:
    """Return the paths that have a number in any of these responses, such as `response.queue_depth`."""
    paths: dict[str, None] = {}
    for run in runs:
        for path, value in iter_leaves(run.response):
            if _is_number(value) and len(paths) < MAX_FIELDS:
                paths.setdefault(path)
    return tuple(paths)


def read_field_series(runs: Sequence[PastRun], path: str) -> tuple[FieldValue, ...]:
    """Return the values of a field, the oldest first. Runs that do not have it are left out."""
    series = []
    for run in reversed(runs):
        value = dict(iter_leaves(run.response)).get(path)
        if _is_number(value):
            assert isinstance(value, int | float)
            series.append(FieldValue(run=run.id, at=run.started_at, value=float(value)))
    return tuple(series)


def iter_leaves(value: object, path: str = _ROOT, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield the path and the value of everything in a response that has no parts. Deep parts are one value."""
    if isinstance(value, Mapping) and value and depth < MAX_DEPTH:
        for key, part in value.items():
            yield from iter_leaves(part, f"{path}.{key}", depth + 1)
    elif isinstance(value, list) and value and depth < MAX_DEPTH:
        for index, part in enumerate(value):
            yield from iter_leaves(part, f"{path}[{index}]", depth + 1)
    else:
        yield path, value


def iter_tree(value: object, before: object, key: str = _ROOT, depth: int = 0) -> Iterator[ResponseRow]:
    """Yield a response as the rows of a tree, with what differs from another one. Deep parts are one value."""
    parts, others = _find_parts(value, depth), _find_parts(before, depth)
    if not parts:
        yield ResponseRow(key=key, depth=depth, value=value, before=before, is_new=before is ABSENT)
        return
    yield ResponseRow(key=key, depth=depth, value=value, before=value, parts=len(parts))
    for name, part in parts.items():
        yield from iter_tree(part, others.get(name, ABSENT) if before is not ABSENT else ABSENT, name, depth + 1)
    for name, part in others.items():
        if name not in parts:
            yield ResponseRow(key=name, depth=depth + 1, value=ABSENT, before=part, is_gone=True)


def _find_parts(value: object, depth: int) -> dict[str, object]:
    if depth >= MAX_DEPTH:
        return {}
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    return {f"[{index}]": part for index, part in enumerate(value)} if isinstance(value, list) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
