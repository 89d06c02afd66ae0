"""The engine: moves a clock from one event to the next, and lets the real scheduler claim and complete on a ledger.

It sends nothing and starts nothing. The ledger is a temporary file; that of the fleet is not opened here. What nobody
can know beforehand is not simulated: the responses of targets, and so rules, prechecks, work sources and the planner.
"""

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.agent_run import AgentReport, CountedUsage, FinishReason, LimitReached
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, SaturatedTargets, claim_due
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.evaluate import REPLACED_BY_NEXT
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.service.simulation.run_model import RunProfile
from herdbeat.service.simulation.tally import Tally
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.store import SqliteStore

EVENTS_PER_TRANSACTION = 2_000
"""Nobody else reads this ledger, and it may be lost: a commit for every instant would take longer than the rest."""

REFUSED_AFTER = timedelta(seconds=5)
"""How long a run lasts that a usage limit refuses."""

NODE_SLOTS = 100
"""`max_concurrent` of a node that is not configured."""

Progress = Callable[[datetime], None]


@dataclass(frozen=True, slots=True)
class UsageLimit:
    """How many runs an account allows in a window, which begins with its first run: the limits of subscriptions."""

    runs: int
    window: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    start: datetime
    until: datetime
    seed: int = 0
    usage_limit: UsageLimit | None = None
    node_slots: int = NODE_SLOTS


@dataclass(slots=True)
class _AccountWindow:
    ends_at: datetime
    runs: int = 0


@dataclass(slots=True)
class _Simulator:
    """One node on one ledger. Runs are entries of a heap, by the time of their end."""

    settings: SimulationSettings
    schedules: Mapping[int, Schedule]
    profiles: Mapping[str, RunProfile]
    accounts: Mapping[int, str]
    node_id: int
    pacer: CatchupPacer
    node_slots: int
    labels: frozenset[str]
    tally: Tally
    now: datetime
    wake_at: datetime | None
    _active: list[tuple[datetime, int, FinishedRun]] = field(default_factory=list)
    _claims: dict[int, Claim] = field(default_factory=dict)
    _rngs: dict[int, random.Random] = field(default_factory=dict)
    _windows: dict[str, _AccountWindow] = field(default_factory=dict)
    _saturated: SaturatedTargets | None = None

    def advance(self, tx: Transaction) -> bool:
        """Simulate the next events. Return False when the end is reached."""
        for _ in range(EVENTS_PER_TRANSACTION):
            moment = self._find_next_moment()
            if moment is None or moment >= self.settings.until:
                return False
            self.now = max(self.now, moment)
            self._complete_ended(tx)
            self._claim(tx)
        return True

    def _find_next_moment(self) -> datetime | None:
        """Return when something ends or wakes. A full node leaves what is due, and looks again when a run has ended."""
        ends_at = self._active[0][0] if self._active else None
        wake_at = None if len(self._active) >= self.node_slots else self.wake_at
        return min((at for at in (wake_at, ends_at) if at is not None), default=None)

    def _complete_ended(self, tx: Transaction) -> None:
        ended: list[FinishedRun] = []
        while self._active and self._active[0][0] <= self.now:
            ended.append(heapq.heappop(self._active)[2])
        self._complete(tx, ended)

    def _complete(self, tx: Transaction, ended: Sequence[FinishedRun]) -> None:
        if not ended:
            return
        result = complete_runs(tx, self.now, ended)
        self.wake_at = result.wake_at
        for run in ended:
            self.tally.add_finished(self._claims.pop(run.run_id), run, self.now)
        self.tally.add_holds(result.new_holds)

    def _claim(self, tx: Transaction) -> None:
        """Claim until nothing more is due now, or the node is full."""
        while self.wake_at is not None and self.wake_at <= self.now:
            free = self.node_slots - len(self._active)
            if free <= 0:
                return
            context = ClaimContext(self.node_id, free, self.pacer, saturated=self._saturated, labels=self.labels)
            result = claim_due(tx, self.now, context)
            self._saturated, self.wake_at = result.saturated, result.wake_at
            self._cancel_replaced(tx, result.schedules_to_cancel)
            self._start(result)

    def _start(self, result: ClaimResult) -> None:
        for _, beat in result.settled:
            if beat.outcome is BeatOutcome.PENDING:
                self.tally.add_queued(beat.schedule_id, beat.dedup_id, beat.reason, self.now)
        for claim in result.claims:
            self.tally.add_start(claim, self.now)
            finished, ends_at = self._draw(claim)
            self._claims[claim.run_id] = claim
            heapq.heappush(self._active, (ends_at, claim.run_id, finished))

    def _cancel_replaced(self, tx: Transaction, schedule_ids: Iterable[int]) -> None:
        wanted = set(schedule_ids)
        if not wanted:
            return
        replaced = [each for each in self._active if self._claims[each[1]].schedule_id in wanted]
        self._active = [each for each in self._active if each not in replaced]
        heapq.heapify(self._active)
        outcome = Outcome(status=RunStatus.CANCELLED, error=REPLACED_BY_NEXT)
        self._complete(tx, [run._replace(outcome=outcome) for _, _, run in replaced])

    def _draw(self, claim: Claim) -> tuple[FinishedRun, datetime]:
        schedule = self.schedules[claim.schedule_id]
        account = self.accounts.get(claim.target_id)
        reset_at = self._use_account(account) if account is not None else None
        if reset_at is not None and account is not None:
            outcome, ends_at = _build_refusal(account, reset_at), self.now + REFUSED_AFTER
            return FinishedRun(claim.run_id, self.now, outcome), ends_at
        drawn = self.profiles[schedule.id].draw(self._build_random(claim.schedule_id, schedule.id))
        usage = {} if drawn.usd is None else {"usd": drawn.usd}
        timeout = schedule.policies.timeout
        if drawn.duration > timeout:
            outcome = Outcome(status=RunStatus.TIMED_OUT, error="simulated timeout", usage=usage)
        elif drawn.has_failed:
            outcome = Outcome(status=RunStatus.FAILED, error="simulated failure", usage=usage)
        else:
            outcome = Outcome(status=RunStatus.SUCCEEDED, usage=usage)
        return FinishedRun(claim.run_id, self.now, outcome), self.now + min(drawn.duration, timeout)

    def _build_random(self, schedule_id: int, name: str) -> random.Random:
        """Each schedule draws from numbers of its own: adding one to the fleet does not change the others."""
        if schedule_id not in self._rngs:
            self._rngs[schedule_id] = random.Random(f"{self.settings.seed}/{name}")  # noqa: S311 - no secret
        return self._rngs[schedule_id]

    def _use_account(self, account: str) -> datetime | None:
        """Count a run; return when the account opens again if its limit is reached."""
        limit = self.settings.usage_limit
        if limit is None:
            return None
        window = self._windows.get(account)
        if window is None or window.ends_at <= self.now:
            window = self._windows[account] = _AccountWindow(self.now + limit.window)
        if window.runs >= limit.runs:
            return window.ends_at
        window.runs += 1
        return None


def _build_refusal(account: str, reset_at: datetime) -> Outcome:
    text = "simulated usage limit"
    report = AgentReport(
        ok=False,
        reason=FinishReason.RATE_LIMITED,
        message=text,
        answer="",
        quiet=False,
        empty_answer=True,
        needs_you=(),
        session_id="",
        model="",
        counted=CountedUsage(),
        is_subscription=True,
        turns=None,
        steps=(),
        steps_left_out=0,
        tool_called=False,
        limit=LimitReached(reset_at=reset_at, text=text),
        account=account,
    )
    return Outcome(status=RunStatus.FAILED, error=text, agent=report)


@dataclass(frozen=True, slots=True)
class SimulatedLedger:
    """What a simulation leaves: its counts, and what the ledger says of every schedule."""

    tally: Tally
    schedule_ids: Mapping[str, int]
    outcomes: Mapping[tuple[int, str, str], int]
    budget_ranges: Sequence[tuple[int, datetime, datetime]]
    holds: Sequence[AccountHold]


def simulate(
    fleet: Fleet, profiles: Mapping[str, RunProfile], settings: SimulationSettings, progress: Progress | None = None
) -> SimulatedLedger:
    """Run the fleet from `start` to `until` on a temporary ledger, which is deleted afterwards."""
    with TemporaryDirectory(prefix="herdbeat-simulate-") as folder:
        store = SqliteStore(Path(folder) / "herdbeat.db", synchronous="OFF")
        store.open()
        try:
            simulator = store.write_now(lambda tx: _prepare(tx, fleet, profiles, settings))
            while store.write_now(simulator.advance):
                if progress is not None:
                    progress(simulator.now)
        finally:
            store.close()
        with closing(SqliteReader(store.path)) as reader:
            return SimulatedLedger(
                tally=simulator.tally,
                schedule_ids={schedule.id: number for number, schedule in simulator.schedules.items()},
                outcomes=reader.count_outcomes(),
                budget_ranges=reader.budget_skips(),
                holds=simulator.tally.holds,
            )


def _prepare(
    tx: Transaction, fleet: Fleet, profiles: Mapping[str, RunProfile], settings: SimulationSettings
) -> _Simulator:
    """Register a node with every label, so that no schedule lacks its machine, and apply the fleet."""
    labels = frozenset(
        schedule.policies.runs_on for schedule in fleet.schedules if schedule.policies.runs_on is not None
    )
    node = register_node(
        tx, settings.start, NodeInfo(host="simulation", pid=0, version="0", labels=tuple(sorted(labels)))
    )
    apply_fleet(tx, fleet, settings.start)
    targets = tx.targets()
    stored = tx.schedule_list_by_target([number for number, _ in targets.values()])
    ids = {(number, name): schedule_id for (number, name), (schedule_id, _) in stored.items()}
    accounts = _name_accounts(fleet, {name: number for name, (number, _) in targets.items()})
    if settings.usage_limit is not None:
        tx.account_set_many(accounts)
    return _Simulator(
        settings=settings,
        schedules={ids[targets[each.target][0], each.name]: each for each in fleet.schedules},
        profiles=profiles,
        accounts=accounts,
        node_id=node.node_id,
        pacer=CatchupPacer(fleet.catchup_rate),
        node_slots=min(settings.node_slots, fleet.max_concurrent or settings.node_slots),
        labels=labels,
        tally=Tally(),
        now=settings.start,
        wake_at=tx.next_wake(),
    )


def _name_accounts(fleet: Fleet, target_ids: Mapping[str, int]) -> dict[int, str]:
    """Return the account of each agent, by target: the named one, else one for each runtime."""
    return {
        target_ids[target.name]: target.spec.account or target.spec.runtime
        for target in fleet.targets
        if isinstance(target.spec, AgentSpec)
    }
