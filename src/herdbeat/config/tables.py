"""Tables of keys: the one source of what may be written, from which checks, JSON Schema and reference come."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from herdbeat.codes import Code
from herdbeat.config.guess import did_you_mean
from herdbeat.config.report import Misfit, Report
from herdbeat.config.shapes import JsonSchema, Shape
from herdbeat.config.wording import key_name, wrong_type
from herdbeat.errors import Severity, ending, shown
from herdbeat.located import Located

T_co = TypeVar("T_co", covariant=True)

_MANY_KEYS = 15


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """One key: its name, its shape, what it means, and the default as a reader should know it.

    `may_be_null` keys can be written empty: it undoes what the defaults say. `aliases` are other
    accepted names. `not_served` says why a key of another tool has no effect here.
    """

    name: str
    shape: Shape[T_co]
    meaning: str
    default: str = ""
    required: bool = False
    may_be_null: bool = False
    aliases: tuple[str, ...] = ()
    not_served: str = ""

    def of(self, node: Located | None) -> T_co | None:
        """The value this key has in a mapping; None if it is not there, or empty."""
        child = node.child(self.name) if node is not None else None
        if child is None or (child.value is None and self.may_be_null):
            return None
        return self.shape.read(child)

    def schema(self) -> JsonSchema:
        inner = self.shape.schema()
        if self.may_be_null:
            inner = {"anyOf": [inner, {"type": "null"}]}
        said = f"No effect: {self.not_served}." if self.not_served else self.meaning
        default = f" Default: {self.default}." if self.default else ""
        return {"description": said + default, **inner}


@dataclass(frozen=True, slots=True)
class Table(Shape[Mapping[str, object]]):
    """A mapping with known keys. Those that begin with `x-` are passed over: a place for anchors.

    `drops_unknown` tables belong to tools that pass over all they do not know; `others` are words
    of other tools, with ours.
    """

    title: str
    keys: tuple[Key[object], ...]
    drops_unknown: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, Key[object]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        aliases = {alias: key for key in self.keys for alias in key.aliases}
        object.__setattr__(self, "by_name", aliases | {key.name: key for key in self.keys})

    def expected(self) -> str:
        return "a mapping of keys"

    def inner(self) -> Iterable[Shape[object]]:
        return (key.shape for key in self.keys)

    def read(self, node: Located) -> Mapping[str, object]:
        if not isinstance(node.value, dict):
            raise wrong_type(node, self.expected())
        found = {key.name: key.of(node) for key in self.keys if not key.not_served}
        return {name: value for name, value in found.items() if value is not None}

    def check(self, node: Located, report: Report) -> None:
        if not isinstance(node.value, dict):
            report.misfit(wrong_type(node, self.expected()), node)
            return
        known = self.by_name
        for name, child in node.value.items():
            if name in known:
                self._check_known(known[name], child, report)
            elif not name.startswith("x-"):
                report.misfit(self._unknown(name, child, report), child, self._severity(child, report))
        for key in self.keys:
            written = [name for name in (key.name, *key.aliases) if name in node.value]
            if key.required and not written:
                self._refuse_missing(key, node, report)
            for name in written[1:]:
                message = f'"{name}" is another name of "{key.name}", which is also there.'
                report.error(Code.CONFLICTING_KEYS, message, node.value[name].label, "Keep one of the two.")

    def schema(self) -> JsonSchema:
        properties = {name: key.schema() for name, key in self.by_name.items()}
        required = [key.name for key in self.keys if key.required]
        schema: JsonSchema = {"title": self.title, "type": "object", "properties": properties}
        schema |= {"patternProperties": {"^x-": {}}, "additionalProperties": False}
        return schema | ({"required": required} if required else {})

    def _check_known(self, key: Key[object], node: Located, report: Report) -> None:
        if key.not_served:
            if not node.value:
                return  # switched off, or empty: whoever wrote it misses nothing
            report.warning(Code.NOT_SERVED, f'"{key.name}" has no effect: {key.not_served}.', node.label)
        elif not (node.value is None and key.may_be_null):
            key.shape.check(node, report)

    def _refuse_missing(self, key: Key[object], node: Located, report: Report) -> None:
        report.error(
            Code.MISSING_KEY,
            f'{self.title} needs "{key.name}".',
            node.label,
            f"Add {key.name}: {key.meaning[0].lower()}{key.meaning[1:]}" if key.meaning else f"Add {key.name}.",
        )

    def _unknown(self, name: str, node: Located, report: Report) -> Misfit:
        where = None if name in self.others else report.homes.get(name)
        guess = self.others.get(name) or (None if where else did_you_mean(name, self.by_name))
        # The names are settled by now; people look for the word that they wrote.
        written = shown(name if node.label.path.endswith(name) else key_name(node))
        hint = f'"{written}" belongs {where}.' if where else self._advice(guess)
        return Misfit(Code.UNKNOWN_KEY, f'Unknown key "{written}"{ending(guess)}', hint=hint, where=node.label)

    def _severity(self, node: Located, report: Report) -> Severity:
        # What herdctl and agentd pass over silently must not keep an unchanged file from loading.
        is_dropped = self.drops_unknown or ".overrides." in node.label.path
        return Severity.WARNING if is_dropped and report.is_foreign(node.label) else Severity.ERROR

    def _advice(self, guess: str | None) -> str:
        """The known keys, where they are few enough to read."""
        names = [key.name for key in self.keys if not key.not_served]
        if guess:
            return f'Write "{guess}", or remove the key.'
        if len(names) > _MANY_KEYS:
            return f"The configuration reference lists the keys of {self.title[0].lower()}{self.title[1:]}."
        return f"Known here are {', '.join(names)}."


@dataclass(frozen=True, slots=True)
class ListOf(Shape[tuple[T_co, ...]]):
    item: Shape[T_co]
    at_least: int = 0
    advice: str = ""

    def expected(self) -> str:
        return "a list"

    def inner(self) -> Iterable[Shape[object]]:
        return (self.item,)

    def read(self, node: Located) -> tuple[T_co, ...]:
        self._refuse_other(node)
        return tuple(self.item.read(child) for child in node.elements())

    def check(self, node: Located, report: Report) -> None:
        try:
            self._refuse_other(node)
        except Misfit as error:
            report.misfit(error, node)
            return
        for child in node.elements():
            self.item.check(child, report)

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "array", "items": self.item.schema()}
        return schema | ({"minItems": self.at_least} if self.at_least else {})

    def _refuse_other(self, node: Located) -> None:
        if not isinstance(node.value, list):
            error = wrong_type(node, self.expected())
            error.hint = self.advice or error.hint
            raise error
        if len(node.value) < self.at_least:
            raise Misfit(Code.INVALID_VALUE, "The list is empty.", hint=self.advice or "Add an element.")


@dataclass(frozen=True, slots=True)
class MapOf(Shape[Mapping[str, T_co]]):
    """A mapping from free names to values of one shape."""

    item: Shape[T_co]
    key: Shape[object] | None = None

    def expected(self) -> str:
        return "a mapping of names"

    def inner(self) -> Iterable[Shape[object]]:
        return (self.item,)

    def read(self, node: Located) -> Mapping[str, T_co]:
        if not isinstance(node.value, dict):
            raise wrong_type(node, self.expected())
        return {name: self.item.read(child) for name, child in node.value.items()}

    def check(self, node: Located, report: Report) -> None:
        if not isinstance(node.value, dict):
            report.misfit(wrong_type(node, self.expected()), node)
            return
        for name, child in node.value.items():
            if self.key is not None:
                self.key.check(Located(name, child.label, written=name), report)
            self.item.check(child, report)

    def schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": self.item.schema()}
        return schema | ({"propertyNames": self.key.schema()} if self.key else {})


@dataclass(frozen=True, slots=True)
class Either(Shape[object]):
    """A value of one shape or another, told apart by what it is in YAML: scalar, list or mapping."""

    scalar: Shape[object] | None = None
    sequence: Shape[object] | None = None
    mapping: Shape[object] | None = None

    def expected(self) -> str:
        return " or ".join(shape.expected() for shape in self._shapes())

    def inner(self) -> Iterable[Shape[object]]:
        return self._shapes()

    def read(self, node: Located) -> object:
        return self._chosen(node).read(node)

    def check(self, node: Located, report: Report) -> None:
        try:
            self._chosen(node).check(node, report)
        except Misfit as error:
            report.misfit(error, node)

    def schema(self) -> JsonSchema:
        return {"anyOf": [shape.schema() for shape in self._shapes()]}

    def _shapes(self) -> Iterator[Shape[object]]:
        yield from (shape for shape in (self.scalar, self.sequence, self.mapping) if shape is not None)

    def _chosen(self, node: Located) -> Shape[object]:
        by_type = self.scalar
        if isinstance(node.value, list):
            by_type = self.sequence
        elif isinstance(node.value, dict):
            by_type = self.mapping
        if by_type is None:
            raise wrong_type(node, self.expected())
        return by_type
