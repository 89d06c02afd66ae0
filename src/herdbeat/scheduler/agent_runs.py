"""Complete the runs of agents: charge them, keep their reports, hold accounts at their limit, mark runs that need a
person.

Called in the transaction of the completion, and only if one of its runs has a report.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.account_hold import AccountHold, hold_until
from herdbeat.domain.agent_run import AgentReport, LimitReached, ModelPrice, RunSpend
from herdbeat.domain.decision import Source
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.trigger import TriggerKind
from herdbeat.scheduler.budgets import budget_date
from herdbeat.scheduler.older_nodes import describe_older
from herdbeat.scheduler.spend import Charge, PriceEstimate, charge_run, price_charge
from herdbeat.store.base import (
    AgentRunRow,
    AttentionClearing,
    AttentionMark,
    ClearingScope,
    FinishedRun,
    Gate,
    OpenRun,
    RunCostRow,
    ScheduleSnapshot,
    SessionKey,
    SessionRow,
    Transaction,
)

MAX_LIMITED_RETURNS = 3
"""How often a usage limit sends a beat back to wait. After that its last run is its result."""


class UnheldAccount(NamedTuple):
    """A hold that was not written, because nodes of an older version would not respect it."""

    hold: AccountHold
    older_nodes: str


@dataclass(slots=True)
class AgentCompletions:
    """The results of the runs of agents in one transaction, by run.

    `outcomes` have the usage that was charged. `holds` are those of runs that were refused because of a usage limit;
    `new_holds` the ones that began or moved now, `unheld` those that were not written.
    """

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    holds: dict[int, AccountHold] = field(default_factory=dict)
    new_holds: list[AccountHold] = field(default_factory=list)
    unheld: list[UnheldAccount] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _AgentRun:
    """An agent's run that has ended, with the row that the ledger has of it."""

    finished: FinishedRun
    report: AgentReport
    open: OpenRun
    snapshot: ScheduleSnapshot

    @property
    def session(self) -> SessionKey | None:
        report = self.report
        return SessionKey(report.runtime, report.session_id) if report.session_id else None

    @property
    def row(self) -> AgentRunRow:
        return AgentRunRow(self.finished.run_id, self.report, self.finished.outcome.workspace)

    @property
    def started_at(self) -> datetime | None:
        return self.finished.started_at


def may_wait_for_account(run: OpenRun, *, tool_called: bool) -> bool:
    """True if the beat of a refused run waits for the account and runs again.

    Not after a tool call, whose effect would happen twice, and not after a retry by hand: a person looks at the result.
    """
    return not tool_called and run.limited < MAX_LIMITED_RETURNS and run.source is not Source.RETRY


def complete_agents(
    tx: Transaction,
    now: datetime,
    finished_runs: Iterable[FinishedRun],
    open_runs: Mapping[int, OpenRun],
    snapshots: Mapping[int, ScheduleSnapshot],
    estimate: PriceEstimate | None = None,
) -> AgentCompletions:
    """Write what only agents have. `estimate` prices tokens for which the user has no price."""
    runs = [
        _AgentRun(run, run.outcome.agent, open_run, snapshots[open_run.schedule_id])
        for run in finished_runs
        if run.outcome.agent is not None and (open_run := open_runs[run.run_id])
    ]
    completions = AgentCompletions()
    runs = _name_accounts(tx, runs)
    _charge_runs(tx, now, runs, estimate, completions)
    tx.agent_run_add_many([run.row for run in runs])
    _hold_accounts(tx, now, runs, completions)
    _mark_attention(tx, now, runs)
    return completions


# ── accounts ──


def _name_accounts(tx: Transaction, runs: Sequence[_AgentRun]) -> list[_AgentRun]:
    """Give every refused run an account, so that it can be held, and remember which account each target uses."""
    unnamed = [run.snapshot.id for run in runs if run.report.limit_reached and not run.report.account]
    known = tx.account_get_many(unnamed) if unnamed else {}
    named = []
    for run in runs:
        account = run.report.account
        if not account and run.report.limit_reached:
            account = known[run.snapshot.id].account if run.snapshot.id in known else run.report.runtime or "default"
        named.append(replace(run, report=replace(run.report, account=account)))
    tx.account_set_many({run.open.target_id: run.report.account for run in named if run.report.account})
    return named


def _hold_accounts(tx: Transaction, now: datetime, runs: Sequence[_AgentRun], completions: AgentCompletions) -> None:
    """Write the holds that refused runs begin or move.

    While an older node runs, which would start beats of a held account all the same, no account is held: each beat that
    is refused waits for the end of the limit on its own, by a time that every version goes by.
    """
    successes = [(run.report.account, run.started_at) for run in runs if run.report.ok and run.report.account]
    tx.hold_end_streaks([(account, at) for account, at in successes if at is not None])
    refused = [run for run in runs if run.report.limit_reached]
    older = describe_older(tx.node_list_older(Gate.ACCOUNT_HOLD)) if refused else ""
    for run in refused:
        limit = run.report.limit or LimitReached(text=run.report.message)
        last = tx.hold_get_last(run.report.account, limit.model)
        hold = decide_hold(now, run.report.account, limit, last, run.finished.run_id, run.started_at)
        if older:
            completions.unheld.append(UnheldAccount(hold, older))
        elif last is None or hold.id != last.id:
            tx.hold_add(hold)
            completions.new_holds.append(hold)
        elif hold != last:
            tx.hold_move(hold.id, hold.until, stated=hold.stated)
            completions.new_holds.append(hold)
        completions.holds[run.finished.run_id] = hold


def decide_hold(
    now: datetime,
    account: str,
    limit: LimitReached,
    last: AccountHold | None,
    run_id: int,
    started_at: datetime | None,
) -> AccountHold:
    """Return the hold after a refusal: a new one, or the last one, whose end may have moved. Pure.

    While an account is held, more refusals only move the end to a later stated one: twenty runs that are refused
    together are one limit, and double nothing. The same goes for a run that had started before the last hold began.
    """
    until = hold_until(limit, now, 0 if last is None else last.streak)
    if last is not None:
        is_open = last.released_at is None and last.until > now
        started_before = started_at is not None and started_at < last.began_at
        if is_open:
            later = limit.stated and until > last.until
            return replace(last, until=until, stated=True) if later else last
        if started_before and not limit.stated:
            return last
    streak = 0 if last is None else last.streak
    return AccountHold(
        account=account,
        model=limit.model,
        began_at=now,
        until=until,
        stated=limit.stated,
        streak=streak if limit.stated else streak + 1,
        run_id=run_id,
        text=limit.text,
    )


# ── spend ──


def _charge_runs(
    tx: Transaction,
    now: datetime,
    runs: Sequence[_AgentRun],
    estimate: PriceEstimate | None,
    completions: AgentCompletions,
) -> None:
    """Charge each run what its session has grown by, store the new totals, and put the cost into its outcome."""
    totals = tx.session_get_totals({run.session for run in runs if run.session is not None})
    charges: list[Charge] = []
    sessions: dict[SessionKey, SessionRow] = {}
    for run in runs:
        key = run.session
        charge = charge_run(run.report.counted, totals.get(key) if key is not None else None)
        charges.append(charge)
        if key is not None:
            totals[key] = charge.stored
            sessions[key] = SessionRow(key, run.snapshot.id, run.finished.run_id, charge.stored)
    tx.session_keep_many(list(sessions.values()), now)
    prices = tx.prices() if any(charge.usd is None and charge.usage for charge in charges) else {}
    costs = []
    for run, charge in zip(runs, charges, strict=True):
        spend = _price(charge, run.report, prices, estimate)
        is_charged = _is_charged(spend, run.report)
        outcome = replace(run.finished.outcome, usage=to_usage(spend) if is_charged else {}, agent=run.report)
        completions.outcomes[run.finished.run_id] = outcome
        if is_charged:
            day = budget_date(now, run.snapshot.plan.policies.zone)
            costs.append(RunCostRow(run.finished.run_id, run.snapshot.id, run.open.target_id, day, spend))
    tx.cost_add_many(costs)


def _price(
    charge: Charge, report: AgentReport, prices: Mapping[str, ModelPrice], estimate: PriceEstimate | None
) -> RunSpend:
    return price_charge(charge, report.model, prices, estimate, is_subscription=report.is_subscription)


def to_usage(spend: RunSpend) -> dict[str, float]:
    """Return a cost as the usage of a run. What is unknown is left out."""
    tokens: dict[str, float] = {}
    if spend.usage is not None:
        tokens = {"tokens": spend.usage.total, **asdict(spend.usage)}
    return tokens if spend.usd is None else {**tokens, "usd": spend.usd}


def _is_charged(spend: RunSpend, report: AgentReport) -> bool:
    """A run that reported nothing and did nothing has no cost; one that worked has an unknown cost.

    A refused run used nothing, although most CLIs report zeros for it. As a run of $0.00 it would lower the estimate
    that the next start reserves.
    """
    if report.limit_reached and not (spend.usd or (spend.usage is not None and spend.usage.total)):
        return report.tool_called
    is_known = spend.usd is not None or spend.usage is not None
    return is_known or report.ok or report.tool_called


# ── attention ──


def _find_scope(run: _AgentRun) -> ClearingScope:
    """Return which marks a success clears.

    A success on one issue or call says nothing about another; one of a clock's schedule speaks for all before it,
    also if a person has started it.
    """
    kind = run.snapshot.plan.trigger.kind
    if run.open.has_work:
        return ClearingScope.SAME_ITEM
    if kind is TriggerKind.CHAT:
        return ClearingScope.SAME_THREAD
    return ClearingScope.SAME_BEAT if kind.waits_for_event else ClearingScope.EARLIER_RUNS


def _mark_attention(tx: Transaction, now: datetime, runs: Sequence[_AgentRun]) -> None:
    marked = [run for run in runs if run.report.needs_you]
    tx.attention_add_many(
        [AttentionMark(run.finished.run_id, run.snapshot.id, run.report.needs_you) for run in marked], now
    )
    tx.attention_clear_many(
        [
            AttentionClearing(run.finished.run_id, run.snapshot.id, run.started_at or now, _find_scope(run))
            for run in runs
            if run.finished.outcome.status is RunStatus.SUCCEEDED and not run.report.needs_you
        ],
        now,
    )
