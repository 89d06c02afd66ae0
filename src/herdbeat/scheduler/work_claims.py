"""Claims of work items in the ledger: the outcome of an item when its run ends, and one more run for one more item."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.agent_run import FinishReason
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.work_claim import AttemptUse, NewWorkClaim, WorkClaimRecord, WorkClaimState
from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.redaction import redact
from herdbeat.scheduler.budgets import reserve_budgets
from herdbeat.scheduler.claim import ClaimContext, load_capacity
from herdbeat.store.base import CounterDelta, NewRun, Transaction
from herdbeat.work.base import WorkClaim

DEFAULT_MAX_ATTEMPTS = 3
MAX_SUMMARY_LENGTH = 20_000
MAX_ERROR_LENGTH = 4_000


def read_max_attempts(spec: Mapping[str, object]) -> int:
    attempts = spec.get("attempts")
    return attempts if isinstance(attempts, int) else DEFAULT_MAX_ATTEMPTS


def to_work_claim(record: WorkClaimRecord) -> WorkClaim:
    """Return the claim as its source knows it."""
    is_confirmed = record.state is not WorkClaimState.CLAIMING
    return WorkClaim(
        item=record.kept, run_marker=record.marker, claimed_at=record.claimed_at, is_confirmed=is_confirmed
    )


# ── when a run ends ──


def end_claims(tx: Transaction, now: datetime, outcomes: Mapping[int, Outcome]) -> None:
    """Write what these runs leave of their items: a report, or an item to be offered again."""
    open_claims = [claim for claim in tx.work_list_by_run(outcomes) if claim.state.is_open]
    tx.work_change([end_claim(now, claim, outcomes[claim.run_id]) for claim in open_claims])


def end_claim(now: datetime, claim: WorkClaimRecord, outcome: Outcome) -> WorkClaimRecord:
    """Return the claim after its run. Pure.

    A claim that stays `claiming` or `claimed` is released: its run never began, reached a usage limit, or was
    interrupted. An interruption uses up an attempt, so that an item that ends its node is not tried for ever.
    """
    due = replace(claim, next_at=now)
    if claim.state is not WorkClaimState.CLAIMED:
        return due
    match outcome.status:
        case RunStatus.SKIPPED:
            return due
        case RunStatus.INTERRUPTED if claim.attempt < claim.max_attempts:
            return replace(due, used=AttemptUse.USED, reason=RunStatus.INTERRUPTED.value)
        case _ if is_rate_limited(outcome):
            return replace(due, reason=FinishReason.RATE_LIMITED.value)
    return report_claim(
        due, succeeded=outcome.status is RunStatus.SUCCEEDED, summary=_summary(outcome), error=_error(outcome)
    )


def report_claim(claim: WorkClaimRecord, *, succeeded: bool, summary: str = "", error: str = "") -> WorkClaimRecord:
    """Return the claim with its report to the source."""
    attempt = min(claim.attempt, claim.max_attempts)
    is_final = succeeded or attempt >= claim.max_attempts or claim.spec.get("cleanup_on_failure") is False
    report = Report(succeeded=succeeded, summary=summary, error=error, attempt=attempt, max_attempts=claim.max_attempts)
    used = AttemptUse.FINAL if is_final else AttemptUse.USED
    return replace(claim, state=WorkClaimState.RAN, used=used, report=report, reason="")


def is_rate_limited(outcome: Outcome) -> bool:
    return outcome.agent is not None and outcome.agent.error_code == FinishReason.RATE_LIMITED


def _summary(outcome: Outcome) -> str:
    """Return what the run says, and what it waits for a person to decide: readers of the item need both."""
    if outcome.agent is None:
        return redact(outcome.summary)[:MAX_SUMMARY_LENGTH]
    needs = "\n".join(f"- {need}" for need in outcome.agent.needs_you)
    text = outcome.summary or outcome.agent.answer
    return redact(f"{text}\n\nNeeds you:\n{needs}" if needs else text)[:MAX_SUMMARY_LENGTH]


def _error(outcome: Outcome) -> str:
    if outcome.status is RunStatus.SUCCEEDED:
        return ""
    return (outcome.error or outcome.status.value)[:MAX_ERROR_LENGTH]


# ── one more run for one more item ──


class StartedItem(NamedTuple):
    """A further run of a beat, and the claim that it begins with; None if another node has just taken the item."""

    claim: Claim
    record: WorkClaimRecord | None
    item: WorkItem


def start_more_runs(
    tx: Transaction,
    now: datetime,
    context: ClaimContext,
    first: Claim,
    offered: Sequence[tuple[WorkItem, NewWorkClaim]],
    make_marker: Callable[[int], str],
) -> list[StartedItem]:
    """Start a run for each of these items, as far as the target, the node, the fleet and the budgets have room."""
    if context.fleet_limit is not None:
        context = replace(context, free_slots=min(context.free_slots, context.fleet_limit - tx.run_count_active()))
    snapshot = tx.schedules([first.schedule_id]).get(first.schedule_id)
    is_held = snapshot is None or not snapshot.enabled or snapshot.quarantine is not None
    if snapshot is None or is_held or snapshot.revision != first.revision or snapshot.pause_at(now) is not None:
        return []
    capacity = load_capacity(tx, now, context, [snapshot])
    budgets = capacity.budgets_by_schedule.get(snapshot.id)
    taken = tx.work_list_taken(offered[0][1].source, [new.item for _, new in offered]) if offered else frozenset()
    chosen: list[tuple[WorkItem, NewWorkClaim]] = []
    for item, new in offered:
        if new.item in taken:
            continue
        if (budgets is not None and budgets.is_exhausted) or not capacity.reserve(snapshot.target_id):
            break
        capacity.reserve_budget(snapshot.id)
        chosen.append((item, new))
    if not chosen:
        return []
    run_ids = tx.add_runs([NewRun(first.beat_id, snapshot.id, first.attempt)] * len(chosen), context.node_id, now)
    claims = [first._replace(run_id=run_id) for run_id in run_ids]
    if capacity.budgets_by_schedule:
        reserve_budgets(tx, capacity.budgets_by_schedule, claims)
    tx.schedule_adjust_counters([CounterDelta(snapshot.id, running=len(claims))], now)
    tx.target_adjust_running(capacity.taken_by_target)
    started: list[StartedItem] = []
    for claim, (item, new) in zip(claims, chosen, strict=True):
        number = tx.work_add(replace(new, run_id=claim.run_id, marker=make_marker(claim.run_id)), now)
        started.append(StartedItem(claim, None if number is None else tx.work_get([number])[number], item))
    return started


def confirm_claim(
    tx: Transaction, claim_id: int, item: WorkItem, offered_at: datetime | None
) -> WorkClaimRecord | None:
    """Return the claim that the source has confirmed, with the number of this attempt; None if it is no longer ours.

    An item without attempts left is reported as failed at once: `state` is then `ran`.
    """
    record = tx.work_get([claim_id]).get(claim_id)
    if record is None or record.state is not WorkClaimState.CLAIMING:
        return None
    attempt = tx.work_count_attempts(record, offered_at) + 1
    tx.work_confirm(claim_id, attempt=attempt, item=item, offered_at=offered_at)
    confirmed = replace(record, state=WorkClaimState.CLAIMED, attempt=attempt, offered_at=offered_at)
    if attempt <= record.max_attempts:
        return confirmed
    used_up = report_claim(confirmed, succeeded=False, error="all attempts are used up")
    tx.work_change([used_up])
    return used_up
