"""Advances the rules of a schedule after one of its runs: conditions in, actions and explanations out. Pure.

`evaluate_rules` evaluates the conditions, which needs data and takes time; it runs outside of the transaction.
`advance_rules` takes its answers and the stored state of the rules, and decides what happens; it runs inside. A
replay of history calls both, one after the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.domain.rule_state import RuleOutcome, RuleState, RuleStep, RuleTruth
from herdbeat.rules.evaluate import Evaluated, Value, evaluate
from herdbeat.rules.rule import (
    PLACEHOLDER,
    ClearOwnHints,
    PauseFor,
    Rule,
    RuleAction,
    RunEvery,
    RunIn,
    ScalePace,
    TriggerOther,
    scale_interval,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRuleHint:
    """Give the schedule an interval (`every`) or one more instant (`at`)."""

    origin: str
    lasts: timedelta
    reason: str
    every: timedelta | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRuleHints:
    """End the hints of these origins."""

    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRulePause:
    """Pause until then. It never shortens a pause that is there."""

    origin: str
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOther:
    """Start another schedule."""

    rule: str
    schedule: str
    reason: str


RuleEffect = SetRuleHint | EndRuleHints | SetRulePause | StartOther


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The interval in force, with active hints, and the longest that is allowed. A calendar has no interval.

    `hinted` are the intervals that rules have set, by the origin of their hints.
    """

    interval: timedelta | None = None
    max_interval: timedelta | None = None
    hinted: Mapping[str, timedelta] = field(default_factory=dict)


_NEW = RuleState()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceResult:
    """What to do, the new state of every rule, and the outcome of each."""

    effects: tuple[RuleEffect, ...] = ()
    states: Mapping[str, RuleState] = field(default_factory=dict)
    steps: tuple[RuleStep, ...] = ()


def evaluate_rules(rules: Sequence[Rule], environment: Mapping[str, Value]) -> tuple[RuleTruth, ...]:
    """Evaluate the conditions of every rule. All of them, because `explain` shows also those that do not act."""
    return tuple(_evaluate_rule(rule, environment) for rule in rules)


def undecidable_truths(rules: Sequence[Rule], reason: str) -> tuple[RuleTruth, ...]:
    """Return truths for a run whose data cannot be read, for example because it was too large to store."""
    return tuple(RuleTruth(rule=rule.conditions, when=None, error=reason) for rule in rules)


def _evaluate_rule(rule: Rule, environment: Mapping[str, Value]) -> RuleTruth:
    when = evaluate(rule.when, environment)
    until = None if rule.until is None else evaluate(rule.until, environment)
    return RuleTruth(
        rule=rule.conditions,
        when=_truth(when),
        until=None if until is None else _truth(until),
        reads={**(until.reads if until else {}), **when.reads},
        error=_explain_error(when) or (_explain_error(until) if until else ""),
    )


def _truth(result: Evaluated) -> bool | None:
    return result.value if isinstance(result.value, bool) else None  # with an error there is no value


def _explain_error(result: Evaluated) -> str:
    return result.error or ("the condition is neither true nor false" if result.is_undecidable else "")


def advance_rules(
    rules: Sequence[Rule], truths: Sequence[RuleTruth], states: Mapping[str, RuleState], pace: Pace, now: datetime
) -> AdvanceResult:
    """Decide what each rule does now. Of the rules that set a pace, the first that fires is the only one."""
    effects: list[RuleEffect] = []
    steps: list[RuleStep] = []
    new_states: dict[str, RuleState] = {}
    is_pace_taken = False
    for rule, truth in zip(rules, truths, strict=True):
        state = states.get(rule.name, _NEW)
        outcome, state = _advance_rule(rule, truth, state, now, may_act=not (rule.sets_pace and is_pace_taken))
        if outcome in (RuleOutcome.FIRED, RuleOutcome.RENEWED):
            is_pace_taken = is_pace_taken or rule.sets_pace
            effects += _effects_of(rule, truth, rules, pace, now)
        elif outcome is RuleOutcome.ENDED:
            effects.append(EndRuleHints(origins=(rule.origin,)))
        new_states[rule.name] = state
        steps.append(
            RuleStep(
                rule=rule.name,
                outcome=outcome,
                reads=truth.reads,
                error=truth.error,
                matches=state.matches,
                for_runs=rule.for_runs,
            )
        )
    return AdvanceResult(effects=tuple(effects), states=new_states, steps=tuple(steps))


def _advance_rule(
    rule: Rule, truth: RuleTruth, state: RuleState, now: datetime, *, may_act: bool
) -> tuple[RuleOutcome, RuleState]:
    matches = min(state.matches + 1, rule.for_runs) if truth.when else 0
    counted = state if state.matches == matches else state._replace(matches=matches)
    if state.is_active:
        outcome = _advance_active(rule, truth, may_act=may_act)
        return outcome, counted._replace(is_active=False, matches=0) if outcome is RuleOutcome.ENDED else counted
    outcome = _advance_inactive(rule, truth, counted, now, may_act=may_act)
    if outcome is RuleOutcome.FIRED:
        return outcome, counted._replace(is_active=_stays_active(rule), fired_at=now)
    return outcome, counted


def _advance_active(rule: Rule, truth: RuleTruth, *, may_act: bool) -> RuleOutcome:
    """A rule with `until` stays active until then; without, as long as it matches."""
    if _has_ended(rule, truth):
        return RuleOutcome.ENDED
    if (truth.when if rule.until is None else truth.until) is None:
        return RuleOutcome.UNDECIDABLE
    if _acts_once(rule.action):
        return RuleOutcome.ACTIVE
    return RuleOutcome.RENEWED if may_act else RuleOutcome.SHADOWED


def _advance_inactive(rule: Rule, truth: RuleTruth, counted: RuleState, now: datetime, *, may_act: bool) -> RuleOutcome:
    if truth.when is None:
        return RuleOutcome.UNDECIDABLE
    if not truth.when:
        return RuleOutcome.NO_MATCH
    if counted.matches < rule.for_runs:
        return RuleOutcome.WAITING
    if rule.cooldown is not None and counted.fired_at is not None and now < counted.fired_at + rule.cooldown:
        return RuleOutcome.COOLDOWN
    return RuleOutcome.FIRED if may_act else RuleOutcome.SHADOWED


def _has_ended(rule: Rule, truth: RuleTruth) -> bool:
    """`until` ends a rule. Without one the first run that does not match does: of an idle back-off, and of a rule that
    has lost its `until` by an edit.
    """
    return truth.until is True if rule.until is not None else truth.when is False


def _stays_active(rule: Rule) -> bool:
    return rule.until is not None or isinstance(rule.action, ScalePace)


def _acts_once(action: RuleAction) -> bool:
    """True for actions that make no sense as a renewal: each of them is one event."""
    return isinstance(action, TriggerOther | RunIn)


def _effects_of(rule: Rule, truth: RuleTruth, rules: Iterable[Rule], pace: Pace, now: datetime) -> Iterable[RuleEffect]:
    reason = render_reason(rule, truth.reads)
    match rule.action:
        case RunEvery(interval=interval):
            yield SetRuleHint(origin=rule.origin, every=interval, lasts=rule.lasts, reason=reason)
        case ScalePace(factor=factor):
            # Between `when` and `until` it keeps the pace that it has set: only a match makes it slower.
            every = _scale_pace(factor, pace) if truth.when else pace.hinted.get(rule.origin)
            if every is not None:
                # A hint that ended before its own interval would never be used.
                yield SetRuleHint(origin=rule.origin, every=every, lasts=max(rule.lasts, 2 * every), reason=reason)
        case RunIn(delay=delay):
            yield SetRuleHint(origin=rule.origin, at=now + delay, lasts=rule.lasts, reason=reason)
        case PauseFor(duration=duration):
            yield SetRulePause(origin=rule.origin, until=now + duration, reason=reason)
        case ClearOwnHints():
            yield EndRuleHints(origins=tuple(each.origin for each in rules if each.sets_pace))
        case TriggerOther(schedule=schedule):
            yield StartOther(rule=rule.name, schedule=schedule, reason=reason)


def _scale_pace(factor: float, pace: Pace) -> timedelta | None:
    return None if pace.interval is None else scale_interval(pace.interval, factor, pace.max_interval)


def render_reason(rule: Rule, reads: Mapping[str, Value]) -> str:
    """Return the reason with the values that were read in place of `{{ response.queue_depth }}`.

    Values are data: braces in them are not looked at again. Without a reason of its own a rule says what it read.
    """
    if not rule.reason:
        return ", ".join(f"{path} = {value}" for path, value in reads.items()) or rule.when.text
    return PLACEHOLDER.sub(lambda match: str(reads.get(match[1], match[0])), rule.reason)
