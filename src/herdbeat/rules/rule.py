"""Rules: a condition over the results of a schedule, and the one thing to do when it holds. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any

from herdbeat.durations import MAX_DURATION, parse_duration
from herdbeat.rules.expression import Expression, parse_expression

DEFAULT_LIFETIME = timedelta(minutes=15)
"""How long the hint of a rule lasts if the rule does not say. It always ends by itself."""

MAX_FACTOR = 100.0

PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""A value in the reason of a rule: `{{ response.queue_depth }}`."""


@dataclass(frozen=True, slots=True)
class RunEvery:
    """Run at this interval."""

    interval: timedelta


@dataclass(frozen=True, slots=True)
class ScalePace:
    """Multiply the interval in force: `every: 2x` doubles it at each match, up to `max_interval`."""

    factor: float


@dataclass(frozen=True, slots=True)
class RunIn:
    """Run once more, after this time."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class PauseFor:
    duration: timedelta


@dataclass(frozen=True, slots=True)
class ClearOwnHints:
    """End the hints of all rules of this schedule."""


@dataclass(frozen=True, slots=True)
class TriggerOther:
    """Start another schedule, once per match."""

    schedule: str


RuleAction = RunEvery | ScalePace | RunIn | PauseFor | ClearOwnHints | TriggerOther


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of `adapt:`. `until` keeps it active after `when` has become false, so that it does not flap."""

    name: str
    when: Expression
    action: RuleAction
    until: Expression | None = None
    for_runs: int = 1
    cooldown: timedelta | None = None
    lasts: timedelta = DEFAULT_LIFETIME
    reason: str = ""
    conditions: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Its name and its conditions as written: what a `RuleTruth` is about."""

    def __post_init__(self) -> None:
        until = () if self.until is None else (self.until.text,)
        object.__setattr__(self, "conditions", (self.name, self.when.text, *until))

    @property
    def sets_pace(self) -> bool:
        """True for the rules of which only the first that fires acts."""
        return not isinstance(self.action, TriggerOther)

    @property
    def origin(self) -> str:
        return f"rule:{self.name}"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schedule, and what their conditions read."""

    rules: tuple[Rule, ...] = ()
    reads_past: bool = False
    reads_schedule: bool = False
    reads_items_left: bool = False
    siblings: tuple[str, ...] = ()

    @classmethod
    def from_rules(cls, rules: tuple[Rule, ...]) -> "RuleSet":
        reads = [read for rule in rules for each in (rule.when, rule.until) if each for read in each.places]
        roots = {read.root for read in reads}
        return cls(
            rules,
            reads_past=not roots.isdisjoint(("runs", "previous")),
            reads_schedule="schedule" in roots,
            reads_items_left=any("work_items_left" in read.keys for read in reads),
            siblings=tuple(str(read.keys[0]) for read in reads if read.root == "siblings" and read.keys),
        )


MAX_LOADED_SETS = 1_000
_loaded: dict[int, tuple[Sequence[Mapping[str, object]], RuleSet]] = {}
"""The rules of specs in use, by identity: completions ask twice at every run, and JSON as a key took as long as a rule.
Each entry holds its spec, so that no other one can have its identity."""

_NO_RULES = RuleSet()


def load_rules(adapt: Sequence[Mapping[str, object]]) -> tuple[Rule, ...]:
    """Return the rules of a schedule as its policies store them. Loading its file has checked them.

    Raises ExpressionError or IntervalParseError for a ledger that another version wrote.
    """
    return load_rule_set(adapt).rules


def load_rule_set(adapt: Sequence[Mapping[str, object]]) -> RuleSet:
    """Return the same with what they read. Raises the same."""
    if not adapt:
        return _NO_RULES
    known = _loaded.get(id(adapt))
    if known is not None and known[0] is adapt:
        return known[1]
    rule_set = _load_rule_set(json.dumps(list(adapt), sort_keys=True))
    if len(_loaded) >= MAX_LOADED_SETS:
        _loaded.clear()
    _loaded[id(adapt)] = (adapt, rule_set)
    return rule_set


@lru_cache(maxsize=MAX_LOADED_SETS)  # a fleet has few different sets of rules
def _load_rule_set(text: str) -> RuleSet:
    entries = json.loads(text)
    return RuleSet.from_rules(
        tuple(_load_rule(entry, name) for entry, name in zip(entries, name_rules(entries), strict=True))
    )


def name_rules(adapt: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names of the rules of a schedule. One without a name is called by its number."""
    return [str(entry.get("name") or f"rule-{number}") for number, entry in enumerate(adapt, 1)]


def _load_rule(entry: Mapping[str, Any], name: str) -> Rule:
    until, cooldown = entry.get("until"), entry.get("cooldown")
    return Rule(
        name=name,
        when=parse_expression(_to_text(entry["when"])),
        action=_load_action(entry),
        until=None if until is None else parse_expression(_to_text(until)),
        for_runs=int(entry.get("for_runs") or 1),
        cooldown=None if cooldown is None else parse_duration(str(cooldown)),
        lasts=parse_duration(str(entry["for"])) if entry.get("for") else DEFAULT_LIFETIME,
        reason=str(entry.get("reason") or ""),
    )


def _load_action(entry: Mapping[str, Any]) -> RuleAction:
    if (every := entry.get("every")) is not None:
        factor = parse_factor(str(every))
        return RunEvery(parse_duration(str(every))) if factor is None else ScalePace(factor)
    if (delay := entry.get("run_in")) is not None:
        return RunIn(parse_duration(str(delay)))
    if (duration := entry.get("pause")) is not None:
        return PauseFor(parse_duration(str(duration)))
    if (schedule := entry.get("trigger")) is not None:
        return TriggerOther(str(schedule))
    return ClearOwnHints()


def find_placeholders(reason: str) -> list[str]:
    """Return the names of the values that a reason shows."""
    return PLACEHOLDER.findall(reason)


def parse_factor(text: str) -> float | None:
    """Return the factor of "2x" or "1.5x"; None if the text is none, or not between 1 and 100."""
    number = text.strip().removesuffix("x")
    if number == text.strip() or not number.replace(".", "", 1).isdigit() or not number.isascii():
        return None
    factor = float(number)
    return factor if 1 < factor <= MAX_FACTOR else None


def scale_interval(interval: timedelta, factor: float, max_interval: timedelta | None) -> timedelta:
    """Return the interval times the factor, at most `max_interval`, or else a hundred years."""
    limit = max_interval or MAX_DURATION
    return limit if interval >= limit / factor else interval * factor


def _to_text(value: object) -> str:
    """YAML reads `when: true` as a boolean."""
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
