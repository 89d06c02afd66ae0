"""Backtest: what rules would have done, by the same two steps as after a run, over stored runs. Pure.

The runs themselves are those that happened: a faster pace would have seen more of them. The answer is the shape of what
a rule does, with the data that there is.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.rule_state import RuleOutcome, RuleState, RuleStep
from herdbeat.domain.run import RunStatus
from herdbeat.rules.advance import (
    EndRuleHints,
    Pace,
    RuleEffect,
    SetRuleHint,
    SetRulePause,
    StartOther,
    advance_rules,
    evaluate_rules,
)
from herdbeat.rules.environment import MAX_PAST_RUNS, build_environment, is_evaluated
from herdbeat.rules.rule import Rule

MAX_FLAPPING_GAP = timedelta(minutes=10)
"""Two changes of the pace that follow each other faster than this are flapping."""
MAX_SHOWN_FIRINGS = 20


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule began to act, and what it had read."""

    at: datetime
    rule: str
    reads: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTally:
    """How often each outcome of one rule came, and what was missing when it was undecidable."""

    rule: str
    outcomes: Mapping[RuleOutcome, int]
    errors: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The result. `calls_per_day` are estimates from the pace in force: without the rules, and with them."""

    runs: int
    start: datetime | None
    end: datetime | None
    rules: tuple[RuleTally, ...]
    firings: tuple[Firing, ...]
    firings_left_out: int
    pace_changes: int
    flapping: int
    triggered: Mapping[str, int]
    paused: timedelta
    calls_per_day_before: float | None
    calls_per_day_after: float | None


@dataclass(slots=True)
class _Replay:
    """The state of a schedule as its rules would have left it."""

    baseline: timedelta | None
    max_interval: timedelta | None
    min_interval: timedelta | None
    failures: int = 0
    states: Mapping[str, RuleState] = field(default_factory=dict)
    hint: SetRuleHint | None = None
    hint_ends_at: datetime | None = None
    paused_until: datetime | None = None
    paused: timedelta = timedelta(0)
    triggered: Counter[str] = field(default_factory=Counter)
    changes: list[tuple[datetime, bool]] = field(default_factory=list)
    """When the pace changed, and whether it became faster."""

    def hinted(self, now: datetime) -> dict[str, timedelta]:
        """Return the interval that a rule has set and that is still in force, by the origin of its hint."""
        hint, ends_at = self.hint, self.hint_ends_at
        if hint is None or hint.every is None or ends_at is None or ends_at <= now:
            return {}
        return {hint.origin: hint.every}

    def interval(self, now: datetime) -> timedelta | None:
        return self.clamp(next(iter(self.hinted(now).values()), self.baseline))

    def clamp(self, every: timedelta | None) -> timedelta | None:
        if every is None:
            return None
        every = max(every, self.min_interval or every)
        return min(every, self.max_interval or every)

    def count_calls(self, start: datetime, end: datetime) -> float | None:
        """Return how often the schedule would run in this time, by the intervals in force and without the pause."""
        hinted, baseline = self.interval(start), self.clamp(self.baseline)
        if hinted is None or baseline is None:
            return None
        begin = min(max(start, self.paused_until or start), end)
        change = min(max(begin, self.hint_ends_at or begin), end)
        return (change - begin) / hinted + (end - change) / baseline

    def step(
        self, rules: Sequence[Rule], runs: Sequence[PastRun], index: int, tags: Sequence[str]
    ) -> tuple[RuleStep, ...]:
        """Advance the rules after one of the runs, do what they say, and return their outcomes."""
        run, past = runs[index], runs[max(0, index - MAX_PAST_RUNS + 1) : index][::-1]
        failures = self.failures
        self.failures = _count_failures(failures, run, runs[index + 1 : index + 2])
        if not is_evaluated(run.status, run.skip_reason):
            return ()
        environment = build_environment(run, past, failures=failures, interval=self.baseline, tags=tags, siblings={})
        now = run.finished_at or run.started_at
        pace = Pace(interval=self.interval(now), max_interval=self.max_interval, hinted=self.hinted(now))
        advanced = advance_rules(rules, evaluate_rules(rules, environment), self.states, pace, now)
        self.states = advanced.states
        for effect in advanced.effects:
            self.apply(effect, now)
        before, after = pace.interval, self.interval(now)
        if before is not None and after is not None and before != after:
            self.changes.append((now, after < before))
        return advanced.steps

    def apply(self, effect: RuleEffect, now: datetime) -> None:
        match effect:
            case SetRuleHint(every=every) if every is not None:
                self.hint, self.hint_ends_at = effect, now + effect.lasts
            case EndRuleHints(origins=origins) if self.hint is not None and self.hint.origin in origins:
                self.hint = None
            case SetRulePause(until=until) if self.paused_until is None or until > self.paused_until:
                self.paused += until - max(now, self.paused_until or now)
                self.paused_until = until
            case StartOther(schedule=schedule):
                self.triggered[schedule] += 1
            case _:
                pass


def backtest_rules(
    rules: Sequence[Rule],
    runs: Sequence[PastRun],
    *,
    interval: timedelta | None,
    min_interval: timedelta | None = None,
    max_interval: timedelta | None = None,
    tags: Sequence[str] = (),
) -> Backtest:
    """Replay the rules over these runs, the oldest first."""
    replay = _Replay(baseline=interval, max_interval=max_interval, min_interval=min_interval)
    outcomes: dict[str, Counter[RuleOutcome]] = {rule.name: Counter() for rule in rules}
    errors: dict[str, Counter[str]] = {rule.name: Counter() for rule in rules}
    firings: list[Firing] = []
    spans: list[tuple[timedelta, float]] = []
    for index, run in enumerate(runs):
        now = run.finished_at or run.started_at
        for step in replay.step(rules, runs, index, tags):
            outcomes[step.rule][step.outcome] += 1
            if step.outcome is RuleOutcome.FIRED:
                firings.append(Firing(now, step.rule, step.reads))
            if step.error:
                errors[step.rule][step.error] += 1
        if index + 1 < len(runs):
            until = runs[index + 1].started_at
            calls = replay.count_calls(now, until)
            if calls is not None:
                spans.append((until - now, calls))
    baseline = replay.clamp(interval)
    return Backtest(
        runs=len(runs),
        start=runs[0].started_at if runs else None,
        end=runs[-1].started_at if runs else None,
        rules=tuple(
            RuleTally(rule=rule.name, outcomes=outcomes[rule.name], errors=errors[rule.name]) for rule in rules
        ),
        firings=tuple(firings[-MAX_SHOWN_FIRINGS:]),
        firings_left_out=max(0, len(firings) - MAX_SHOWN_FIRINGS),
        pace_changes=len(replay.changes),
        flapping=_count_flapping(replay.changes),
        triggered=dict(replay.triggered),
        paused=replay.paused,
        calls_per_day_before=None if baseline is None else timedelta(days=1) / baseline,
        calls_per_day_after=_calls_per_day(spans),
    )


def _count_failures(failures: int, run: PastRun, following: Sequence[PastRun]) -> int:
    """Return the failures in a row after a run. An attempt that is followed by another one at the same beat is none."""
    if run.status is RunStatus.SUCCEEDED:
        return 0
    is_retried = any(each.attempt > run.attempt for each in following)
    return failures + int(run.status.is_failure and not is_retried)


def _count_flapping(changes: Sequence[tuple[datetime, bool]]) -> int:
    """Return how often the pace was changed back soon. A back-off that grows step by step does not flap."""
    return sum(
        later - earlier < MAX_FLAPPING_GAP and was_faster != is_faster
        for (earlier, was_faster), (later, is_faster) in pairwise(changes)
    )


def _calls_per_day(spans: Sequence[tuple[timedelta, float]]) -> float | None:
    """Return how often the schedule would have run, from the length of each stretch of time and the runs in it."""
    total = sum((length for length, _ in spans), timedelta(0))
    if total <= timedelta(0):
        return None
    return sum(calls for _, calls in spans) / (total / timedelta(days=1))
