"""Rules after a run: their conditions are evaluated before its result is written, their effects in that transaction.

The conditions read stored data, which takes time, so they are evaluated outside of the transaction. What follows from
them depends on what is remembered of the rules and on the pace in force, so it is decided inside, on locked rows, in
the order in which results are committed.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, assert_never

from herdbeat.clock import Clock
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.rule_state import RuleState, RuleTruth
from herdbeat.domain.run import Claim
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.events import RuleEffectKind, RuleFired
from herdbeat.governor import Pause
from herdbeat.governor.candidates import rank_hints
from herdbeat.governor.hints import HintRequest, accept_hint, can_replace_pause
from herdbeat.rules.advance import (
    EndRuleHints,
    Pace,
    RuleEffect,
    SetRuleHint,
    SetRulePause,
    StartOther,
    advance_rules,
    evaluate_rules,
    undecidable_truths,
)
from herdbeat.rules.environment import MAX_PAST_RUNS, build_environment, is_evaluated
from herdbeat.rules.rule import RuleSet, load_rule_set, load_rules
from herdbeat.scheduler.control import give_hint, pause, reschedule
from herdbeat.scheduler.evaluate import build_beat
from herdbeat.scheduler.instants import InstantRange
from herdbeat.store.base import FinishedRun, OpenRun, RuleEntry, ScheduleSnapshot, Transaction
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

MAX_CHAIN_DEPTH = 3
"""Schedules that rules start one after the other, each by the result of the one before."""

TOO_LARGE = "too_large"
Truths = tuple[RuleTruth, ...]
"""The conditions of the rules of a schedule, in their order."""
_CHAIN_KEY = "chain"


class RunHistory(Protocol):
    """Where the conditions of rules read what they compare with. Reads beside the writer."""

    def past_runs_by_run(self, run_ids: Sequence[int], limit: int) -> Mapping[int, Sequence[PastRun]]:
        """Return for each of these runs the ended runs of its schedule before it, the newest first."""
        ...

    def sibling_runs(self, schedule_id: int, names: Sequence[str]) -> Mapping[str, PastRun]:
        """Return the newest run of each of these schedules that is in the same group."""
        ...

    def failures(self, schedule_id: int) -> int: ...

    def work_items_left(self, run_id: int) -> int | None:
        """Return how many other items were offered when a run took its own; None without a work source."""
        ...


@dataclass(slots=True)
class RuleEffects:
    """The ids of the schedules on which rules have acted, and what they have changed there."""

    acted_on: set[int] = field(default_factory=set)
    fired: list[RuleFired] = field(default_factory=list)


class _RunWithRules(NamedTuple):
    """A finished run with rules."""

    claim: Claim
    finished: FinishedRun
    rule_set: RuleSet


class RuleEvaluator:
    """Adds to a finished run what the conditions of the rules of its schedule say about it.

    `is_remote` says that the history is behind a network, which must not block the heartbeat of the node.
    """

    def __init__(self, history: RunHistory, clock: Clock, *, is_remote: bool = False) -> None:
        self._history = history
        self._clock = clock
        self._is_remote = is_remote
        self._waiting: list[tuple[_RunWithRules, asyncio.Future[Truths]]] = []

    async def __call__(self, claim: Claim, finished: FinishedRun) -> FinishedRun:
        """A schedule whose rules cannot be read or evaluated runs on without them, and `explain` says why."""
        if not is_evaluated(finished.outcome.status, finished.outcome.skip):
            return finished
        try:
            rule_set = load_rule_set(claim.plan.policies.adapt)
        except HerdbeatError as error:
            log.warning("rules not loaded schedule=%s error=%s", claim.label, error)
            return finished
        if finished.outcome.is_response_too_large:
            return finished._replace(truths=undecidable_truths(rule_set.rules, TOO_LARGE))
        run = _RunWithRules(claim, finished, rule_set)
        if self._is_remote:
            (truths,) = await call_in_thread(self._evaluate_runs, [run])
        else:
            truths = await self._evaluate_together(run)
        return finished._replace(truths=truths)

    async def _evaluate_together(self, run: _RunWithRules) -> Truths:
        """Read the history of all runs that end in one turn of the loop with one query.

        A query for each of them took 40 % of what three rules cost.
        """
        truths: asyncio.Future[Truths] = asyncio.get_running_loop().create_future()
        self._waiting.append((run, truths))
        if len(self._waiting) == 1:
            try:
                await asyncio.sleep(0)
            finally:  # also if this run is cancelled: the others wait for it
                self._evaluate_waiting()
        return await truths

    def _evaluate_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for (_, future), truths in zip(waiting, self._evaluate_runs([run for run, _ in waiting]), strict=True):
            if not future.done():  # else its run was cancelled
                future.set_result(truths)

    def _evaluate_runs(self, runs: Sequence[_RunWithRules]) -> list[Truths]:
        try:
            needed = [run.claim.run_id for run in runs if run.rule_set.reads_past]
            past = self._history.past_runs_by_run(needed, MAX_PAST_RUNS - 1) if needed else {}
        except HerdbeatError as error:
            return [_undecidable_history(run, error) for run in runs]
        return [self._evaluate_run(run, past.get(run.claim.run_id, ())) for run in runs]

    def _evaluate_run(self, run: _RunWithRules, past: Sequence[PastRun]) -> Truths:
        try:
            return evaluate_rules(run.rule_set.rules, self._build_environment(run, past))
        except HerdbeatError as error:
            return _undecidable_history(run, error)

    def _build_environment(self, run_with_rules: _RunWithRules, past: Sequence[PastRun]) -> dict[str, object]:
        claim, finished, rule_set = run_with_rules
        outcome, now = finished.outcome, self._clock.now()
        run = PastRun(
            id=claim.run_id,
            status=outcome.status,
            code=outcome.code,
            attempt=claim.attempt,
            started_at=finished.started_at or now,
            finished_at=now,
            response=outcome.response,
            skip_reason=outcome.skip,
            cost_usd=outcome.usage.get("usd"),
            work_items_left=self._history.work_items_left(claim.run_id) if rule_set.reads_items_left else None,
        )
        policies, trigger, names = claim.plan.policies, claim.plan.trigger, rule_set.siblings
        return build_environment(
            run,
            past,
            failures=self._history.failures(claim.schedule_id) if rule_set.reads_schedule else 0,
            interval=trigger.interval,
            tags=policies.tags,
            siblings=self._history.sibling_runs(claim.schedule_id, names) if names else {},
        )


def _undecidable_history(run: _RunWithRules, error: HerdbeatError) -> Truths:
    return undecidable_truths(run.rule_set.rules, f"the history cannot be read: {error.message}")


def apply_rules(
    tx: Transaction,
    now: datetime,
    runs: Sequence[FinishedRun],
    open_runs: Mapping[int, OpenRun],
    snapshots: Mapping[int, ScheduleSnapshot],
) -> RuleEffects:
    """Advance the rules of the schedules of runs that have just been completed, and do what they say.

    `snapshots` are the schedules as this transaction has read them.
    """
    effects = RuleEffects()
    known, remaining = snapshots, list(runs)
    while remaining:
        # Of several runs of one schedule, each continues from what the one before it has left.
        first_runs: dict[int, FinishedRun] = {}
        for run in remaining:
            first_runs.setdefault(open_runs[run.run_id].schedule_id, run)
        found = _apply_first(tx, now, first_runs, open_runs, known)
        done = {run.run_id for run in first_runs.values()}
        remaining = [run for run in remaining if run.run_id not in done]
        effects.acted_on |= found.acted_on
        effects.fired += found.fired
        if remaining and found.acted_on:
            known = {**known, **tx.schedules(found.acted_on)}
    return effects


def _apply_first(
    tx: Transaction,
    now: datetime,
    runs: Mapping[int, FinishedRun],
    open_runs: Mapping[int, OpenRun],
    snapshots: Mapping[int, ScheduleSnapshot],
) -> RuleEffects:
    """Advance the rules of one run for each of these schedules."""
    states = tx.rule_states(runs)
    entries: list[RuleEntry] = []
    effects: list[tuple[int, OpenRun, RuleEffect]] = []
    for schedule_id, run in runs.items():
        snapshot = snapshots[schedule_id]
        rules = () if snapshot.unreadable is not None else load_rules(snapshot.plan.policies.adapt)
        if [rule.conditions for rule in rules] != [truth.rule for truth in run.truths]:
            continue  # its rules were edited while it ran; the next run has theirs
        known, pace = states.get(schedule_id, {}), _current_pace(now, snapshot)
        advanced = advance_rules(rules, run.truths, known, pace, now)
        entries += [
            RuleEntry(schedule_id, run.run_id, advanced.states.get(step.rule, RuleState()), step)
            for step in advanced.steps
        ]
        effects += [(schedule_id, open_runs[run.run_id], effect) for effect in advanced.effects]
    tx.rule_replace_states(entries, now)
    # Mostly no rule acts. A schedule on which one does is read again: its completion may have paused it.
    acted_on = {schedule_id for schedule_id, _, _ in effects}
    current = tx.schedules(acted_on) if acted_on else {}
    fired: list[RuleFired] = []
    for schedule_id, open_run, effect in effects:
        try:
            change = _apply_effect(tx, now, current[schedule_id], open_run, effect)
        except UsageError as error:
            log.warning("rule had no effect schedule=%s error=%s", current[schedule_id].label, error)
            continue
        if change is not None:
            fired.append(change)
    return RuleEffects(acted_on, fired)


def _current_pace(now: datetime, snapshot: ScheduleSnapshot) -> Pace:
    """Return the interval that is in force: that of the strongest hint, else the schedule's own."""
    hint, limits = rank_hints(now, snapshot.hints).interval, snapshot.plan.policies.limits
    interval = hint.every if hint is not None else snapshot.plan.trigger.interval
    hinted = {each.origin: each.every for each in snapshot.hints if each.every is not None and each.is_active(now)}
    # Within the limits: doubling 5 s under a min_interval of 1 m would change nothing for three runs.
    interval = interval and limits.clamp(interval)
    return Pace(interval=interval, max_interval=limits.at_most, hinted=hinted)


def _apply_effect(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, open_run: OpenRun, effect: RuleEffect
) -> RuleFired | None:
    """Return what has changed; None if the rule only renewed what it had done before, or if nothing was possible."""
    match effect:
        case SetRuleHint():
            return _set_hint(tx, now, snapshot, effect)
        case EndRuleHints():
            return _end_hints(tx, now, snapshot, effect)
        case SetRulePause():
            return _set_pause(tx, now, snapshot, effect)
        case StartOther():
            return _start_other(tx, now, snapshot, open_run, effect)
        case _:
            assert_never(effect)


def _set_hint(tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, effect: SetRuleHint) -> RuleFired | None:
    current = _find_renewed(now, snapshot, effect)
    hint = accept_hint(now, _build_request(now, effect, current)).hint
    give_hint(tx, now, snapshot.id, hint)
    if current is not None:
        return None
    rule = _rule_name(effect.origin)
    if hint.every is None:
        return RuleFired(now, snapshot.label, rule, RuleEffectKind.RUN_IN, effect.reason, until=hint.at)
    every, until = hint.every, hint.expires_at
    return RuleFired(now, snapshot.label, rule, RuleEffectKind.EVERY, effect.reason, every=every, until=until)


def _end_hints(tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, effect: EndRuleHints) -> RuleFired | None:
    ended = [hint.origin for hint in snapshot.hints if hint.origin in effect.origins and hint.is_active(now)]
    tx.hint_end_by_rank(snapshot.id, effect.origins, now, f"rule:{snapshot.label}")
    reschedule(tx, now, snapshot.id)
    return RuleFired(now, snapshot.label, _rule_name(ended[0]), RuleEffectKind.END, "") if ended else None


def _rule_name(origin: str) -> str:
    return origin.partition(":")[2]


def _find_renewed(now: datetime, snapshot: ScheduleSnapshot, effect: SetRuleHint) -> Hint | None:
    """Return the active hint with the interval that this rule sets again, if there is one."""
    same = (hint for hint in snapshot.hints if hint.origin == effect.origin and hint.every == effect.every)
    return next((hint for hint in same if hint.every is not None and hint.is_active(now)), None)


def _build_request(now: datetime, effect: SetRuleHint, current: Hint | None) -> HintRequest:
    """A hint that is renewed keeps its reason, so that its end moves: another reason would be another hint.

    The hint for one more instant lives until after that instant.
    """
    lasts = effect.lasts if effect.at is None else max(effect.lasts, effect.at - now + timedelta(minutes=1))
    reason = effect.reason if current is None else current.reason
    return HintRequest(origin=effect.origin, every=effect.every, at=effect.at, lasts=lasts, reason=reason)


def _set_pause(tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, effect: SetRulePause) -> RuleFired | None:
    """Pause, unless somebody else's pause is longer, or is a person's."""
    current, wanted = snapshot.pause, Pause(until=effect.until, by=effect.origin, reason=effect.reason)
    if current is not None and current.is_active(now) and not can_replace_pause(current, wanted):
        return None
    pause(tx, now, snapshot.id, wanted)
    rule = _rule_name(effect.origin)
    return RuleFired(now, snapshot.label, rule, RuleEffectKind.PAUSE, effect.reason, until=effect.until)


def _start_other(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, open_run: OpenRun, effect: StartOther
) -> RuleFired | None:
    """Write a beat of the other schedule. It waits there for capacity like any other beat of an event.

    One that is paused, disabled or unreadable skips it, with that reason.
    """
    depth = _chain_depth(tx, open_run) + 1
    if depth > MAX_CHAIN_DEPTH:
        log.warning("rule trigger dropped schedule=%s rule=%s chain=%s", snapshot.label, effect.rule, depth)
        return None
    other_id = _find_other(tx, snapshot.label, effect.schedule)
    if other_id is None:
        log.warning("rule trigger has no schedule schedule=%s rule=%s", snapshot.label, effect.rule)
        return None
    other = tx.schedules([other_id])[other_id]
    if _is_queue_full(tx, other):
        log.warning("rule trigger dropped schedule=%s rule=%s queue full=%s", snapshot.label, effect.rule, other.label)
        return None
    beat = build_beat(
        now,
        other,
        InstantRange.single(now),
        BeatOutcome.PENDING,
        "",
        Source.RULE_TRIGGER,
        dedup_id=f"rule:{effect.rule}:{open_run.id}",
        origin=f"rule:{effect.rule}",
        wake_at=now,
    )
    tx.add_beats([beat._replace(payload=json.dumps({_CHAIN_KEY: depth, "reason": effect.reason}))])
    return RuleFired(now, snapshot.label, effect.rule, RuleEffectKind.TRIGGER, effect.reason, triggers=other.label)


def _is_queue_full(tx: Transaction, other: ScheduleSnapshot) -> bool:
    """True if as many beats of events wait as `max_queued` allows."""
    if other.unreadable is not None or (most := other.plan.policies.max_queued) is None:
        return False
    return tx.beat_count_queued_events([other.id]).get(other.id, 0) >= most


def _chain_depth(tx: Transaction, open_run: OpenRun) -> int:
    depth = tx.beat_payload(open_run.beat_id).get(_CHAIN_KEY) if open_run.source is Source.RULE_TRIGGER else 0
    return depth if isinstance(depth, int) else 0


def _find_other(tx: Transaction, label: str, name: str) -> int | None:
    """Find a schedule by name. One of the same sub-fleet needs no prefix."""
    target, _, schedule = name.partition("/")
    prefix = label.partition("/")[0].rpartition(".")[0]
    found = tx.schedule_find(f"{prefix}.{target}", schedule) if prefix else None
    return found if found is not None else tx.schedule_find(target, schedule)
