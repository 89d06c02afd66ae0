"""Rules after a run: their conditions are evaluated before its result is written, their effects in that transaction.

The conditions read stored data, which takes time, so they are evaluated outside of the transaction. What follows from
them depends on what is remembered of the rules and on the pace in force, so it is decided inside, on locked rows, in
the order in which results are committed.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, assert_never

from herdbeat.clock import Clock
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.rule_state import RuleState, RuleTruth
from herdbeat.domain.run import Claim
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.governor import Pause
from herdbeat.governor.candidates import rank_hints
from herdbeat.governor.hints import HintRequest, accept_hint, can_override
from herdbeat.rules.advance import (
    EndRuleHints,
    Pace,
    RuleEffect,
    SetRuleHint,
    SetRulePause,
    StartOther,
    advance_rules,
    judge_rules,
    undecidable,
)
from herdbeat.rules.environment import MAX_PAST_RUNS, build_environment
from herdbeat.rules.rule import Rule, load_rules
from herdbeat.scheduler.control import give_hint, pause, reschedule
from herdbeat.scheduler.evaluate import build_beat
from herdbeat.scheduler.instants import InstantRange
from herdbeat.store.base import FinishedRun, OpenRun, ScheduleSnapshot, Transaction

log = logging.getLogger(__name__)

MAX_CHAIN_DEPTH = 3
"""Schedules that rules start one after the other, each by the result of the one before."""

TOO_LARGE = "too_large"
_CHAIN_KEY = "chain"


class RunHistory(Protocol):
    """Where the conditions of rules read what they compare with. Reads beside the writer."""

    def past_runs(self, schedule_id: int, before: int, limit: int) -> list[PastRun]:
        """Return the ended runs of a schedule before that run, the newest first."""
        ...

    def sibling_runs(self, schedule_id: int, names: Sequence[str]) -> Mapping[str, PastRun]:
        """Return the newest run of each of these schedules that is in the same group."""
        ...

    def failures(self, schedule_id: int) -> int: ...

    def work_items_left(self, run_id: int) -> int | None:
        """Return how many other items were offered when a run took its own; None without a work source."""
        ...


@dataclass(frozen=True, slots=True)
class RuleJudge:
    """Adds to a finished run what the conditions of the rules of its schedule say about it."""

    history: RunHistory
    clock: Clock
    is_remote: bool = False
    """Whether the history is behind a network, which must not block the heartbeat of the node."""

    async def __call__(self, claim: Claim, finished: FinishedRun) -> FinishedRun:
        if self.is_remote:
            return finished._replace(truths=await asyncio.to_thread(self._judge, claim, finished))
        return finished._replace(truths=self._judge(claim, finished))

    def _judge(self, claim: Claim, finished: FinishedRun) -> tuple[RuleTruth, ...]:
        """A schedule whose rules cannot be read or evaluated runs on without them, and `explain` says why."""
        try:
            rules = load_rules(claim.plan.policies.adapt)
        except HerdbeatError as error:
            log.warning("rules not loaded schedule=%s error=%s", claim.label, error)
            return ()
        if finished.outcome.is_response_too_large:
            return undecidable(rules, TOO_LARGE)
        try:
            return judge_rules(rules, self._build_environment(claim, finished, rules))
        except HerdbeatError as error:
            return undecidable(rules, f"the history cannot be read: {error.message}")

    def _build_environment(self, claim: Claim, finished: FinishedRun, rules: Sequence[Rule]) -> dict[str, object]:
        outcome, now = finished.outcome, self.clock.now()
        reads = [read for rule in rules for each in (rule.when, rule.until) if each for read in each.places]
        needs_left = any("work_items_left" in read.keys for read in reads)
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
            work_items_left=self.history.work_items_left(claim.run_id) if needs_left else None,
        )
        names = [str(read.keys[0]) for read in reads if read.root == "siblings" and read.keys]
        roots = {read.root for read in reads}
        needs_past = roots & {"runs", "previous"}
        policies, trigger = claim.plan.policies, claim.plan.trigger
        return build_environment(
            run,
            self.history.past_runs(claim.schedule_id, claim.run_id, MAX_PAST_RUNS - 1) if needs_past else (),
            failures=self.history.failures(claim.schedule_id) if "schedule" in roots else 0,
            interval=trigger.interval,
            tags=policies.tags,
            siblings=self.history.sibling_runs(claim.schedule_id, names) if names else {},
        )


def apply_rules(tx: Transaction, now: datetime, run: FinishedRun, open_run: OpenRun) -> None:
    """Advance the rules of the schedule of a run that has just been completed, and do what they say."""
    snapshot = tx.schedules([open_run.schedule_id])[open_run.schedule_id]
    rules = () if snapshot.unreadable is not None else load_rules(snapshot.plan.policies.adapt)
    if len(rules) != len(run.truths):
        return  # its rules were edited while it ran; the next run has theirs
    states = tx.rule_states(snapshot.id)
    advanced = advance_rules(rules, run.truths, states, _current_pace(now, snapshot), now)
    entries = [(advanced.states.get(step.rule, RuleState()), step) for step in advanced.steps]
    tx.rule_replace_states(snapshot.id, run.run_id, entries, now)
    for effect in advanced.effects:
        try:
            _apply_effect(tx, now, snapshot, open_run, effect)
        except UsageError as error:
            log.warning("rule had no effect schedule=%s error=%s", snapshot.label, error)


def _current_pace(now: datetime, snapshot: ScheduleSnapshot) -> Pace:
    """Return the interval that is in force: that of the strongest hint, else the schedule's own."""
    hint = rank_hints(now, snapshot.hints).interval
    interval = hint.every if hint is not None else snapshot.plan.trigger.interval
    return Pace(interval=interval, max_interval=snapshot.plan.policies.limits.at_most)


def _apply_effect(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, open_run: OpenRun, effect: RuleEffect
) -> None:
    match effect:
        case SetRuleHint():
            give_hint(tx, now, snapshot.id, accept_hint(now, _build_request(now, snapshot, effect)).hint)
        case EndRuleHints():
            tx.hint_end_by_rank(snapshot.id, effect.origins, now, f"rule:{snapshot.label}")
            reschedule(tx, now, snapshot.id)
        case SetRulePause():
            _set_pause(tx, now, snapshot, effect)
        case StartOther():
            _start_other(tx, now, snapshot, open_run, effect)
        case _:
            assert_never(effect)


def _build_request(now: datetime, snapshot: ScheduleSnapshot, effect: SetRuleHint) -> HintRequest:
    """A hint that is renewed keeps its reason, so that its end moves: another reason would be another hint.

    The hint for one more instant lives until after that instant.
    """
    same = (hint for hint in snapshot.hints if hint.origin == effect.origin and hint.every == effect.every)
    current = next((hint for hint in same if hint.every is not None and hint.is_active(now)), None)
    lasts = effect.lasts if effect.at is None else max(effect.lasts, effect.at - now + timedelta(minutes=1))
    reason = effect.reason if current is None else current.reason
    return HintRequest(origin=effect.origin, every=effect.every, at=effect.at, lasts=lasts, reason=reason)


def _set_pause(tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, effect: SetRulePause) -> None:
    """Pause, unless somebody else's pause is longer, or is a person's."""
    current = snapshot.pause
    if current is not None and current.is_active(now):
        is_longer = current.until is None or current.until >= effect.until
        if is_longer or not can_override(current.by, effect.origin):
            return
    pause(tx, now, snapshot.id, Pause(until=effect.until, by=effect.origin, reason=effect.reason))


def _start_other(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, open_run: OpenRun, effect: StartOther
) -> None:
    """Write a beat of the other schedule. It waits there for capacity like any other beat of an event."""
    depth = _chain_depth(tx, open_run) + 1
    if depth > MAX_CHAIN_DEPTH:
        log.warning("rule trigger dropped schedule=%s rule=%s chain=%s", snapshot.label, effect.rule, depth)
        return
    other_id = _find_other(tx, snapshot.label, effect.schedule)
    if other_id is None:
        log.warning("rule trigger has no schedule schedule=%s rule=%s", snapshot.label, effect.rule)
        return
    other = tx.schedules([other_id])[other_id]
    if not other.enabled or other.unreadable is not None:
        log.warning("rule trigger refused schedule=%s rule=%s other=%s", snapshot.label, effect.rule, other.label)
        return
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


def _chain_depth(tx: Transaction, open_run: OpenRun) -> int:
    depth = tx.beat_payload(open_run.beat_id).get(_CHAIN_KEY) if open_run.source is Source.RULE_TRIGGER else 0
    return depth if isinstance(depth, int) else 0


def _find_other(tx: Transaction, label: str, name: str) -> int | None:
    """Find a schedule by name. One of the same sub-fleet needs no prefix."""
    target, _, schedule = name.partition("/")
    prefix = label.partition("/")[0].rpartition(".")[0]
    found = tx.schedule_find(f"{prefix}.{target}", schedule) if prefix else None
    return found if found is not None else tx.schedule_find(target, schedule)
