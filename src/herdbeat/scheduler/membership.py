"""Membership of a node: its lease on what it has claimed, its registration, and the rescue of runs of dead nodes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.beat import Gap, MissedReason
from herdbeat.domain.remote_run import RemoteRun
from herdbeat.domain.run import add_report
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.platform import ProcessOrigin
from herdbeat.scheduler.claim import move_clock_back
from herdbeat.scheduler.complete import CompletionResult, complete_runs
from herdbeat.scheduler.remote import adopt_remote_run, describe_lost_run
from herdbeat.scheduler.spend import PriceEstimate
from herdbeat.scheduler.timers import DRIFT_TOLERANCE, ClockReading, Timer, boottime_reader
from herdbeat.store.base import FinishedRun, Transaction

LEASE_STOP_FRACTION = 2 / 3
"""The part of the lease after which the runs are interrupted: they are gone when another node may start them again."""

_SLOW_START = timedelta(seconds=30)
"""Less than that between the first `apply` and the first node is a slow start, not a time without a node."""

_TICK = timedelta(microseconds=1)

OnLeaseRenewed = Callable[[timedelta], None]
"""Called with how much of the lease is left."""


def ignore_renewal(remaining: timedelta) -> None:
    """The default, for a node without child processes."""


class Lease:
    """Until when this node may continue without a renewal. Begins with the first one.

    It is counted by CLOCK_BOOTTIME, which cannot be set back and does not stop while the machine sleeps. The store
    counts the same lease by its own clock and begins later: we may give up one that still holds, never the reverse.
    """

    def __init__(self, duration: timedelta, timer: Timer, on_renewed: OnLeaseRenewed = ignore_renewal) -> None:
        self._duration = duration
        self._timer = timer
        self._read_boottime = boottime_reader(timer)
        self._on_renewed = on_renewed
        self._renewed_at = 0.0
        self.lease_lost = asyncio.Event()

    def uptime(self) -> float:
        """The moment to remember before a renewal is sent."""
        return self._read_boottime()

    def begin(self, sent_at: float) -> None:
        """Start again, as a new node."""
        self.lease_lost.clear()
        self.renew(sent_at)

    def renew(self, sent_at: float) -> None:
        """The store has accepted the renewal that was sent at that moment."""
        self._renewed_at = sent_at
        self._on_renewed(self._duration - timedelta(seconds=self.uptime() - sent_at))

    def is_held(self) -> bool:
        """Whether it still holds: checked right before anything starts."""
        return not self.lease_lost.is_set() and self._remaining_s() > 0

    def mark_lost(self) -> None:
        self.lease_lost.set()

    async def wait_lost(self) -> None:
        """Return when it is lost: because `mark_lost` was called, or because no renewal succeeded for too long."""
        while not self.lease_lost.is_set() and (remaining := self._remaining_s()) > 0:
            await self._timer.sleep_until(self._timer.now() + timedelta(seconds=remaining), self.lease_lost)
        self.lease_lost.set()

    def _remaining_s(self) -> float:
        return self._renewed_at + self._duration.total_seconds() * LEASE_STOP_FRACTION - self.uptime()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """What the ledger records of a node."""

    host: str
    pid: int
    version: str
    labels: tuple[str, ...] = ()
    works: bool = True
    origin: ProcessOrigin | None = None
    """Where its process began; None where the system does not show it."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The id of a new node, the gaps it finds, how many runs it found interrupted, and the clocks at that moment."""

    node_id: int
    gaps: tuple[Gap, ...]
    interrupted: int
    reading: ClockReading | None = None
    adopted: tuple[RemoteRun, ...] = ()


@dataclass(frozen=True, slots=True)
class LostReports:
    """By run, what agents reported before their node died, and how to price the tokens that they used."""

    by_run: Mapping[int, AgentReport] = field(default_factory=dict)
    estimate: PriceEstimate | None = None


NO_REPORTS = LostReports()


def register_node(
    tx: Transaction,
    now: datetime,
    node_info: NodeInfo,
    previous_node_id: int | None = None,
    reports: LostReports = NO_REPORTS,
) -> Registration:
    """Register a node before anything starts. The time since the last heartbeat of any node is a gap.

    So is the time before the first node of a ledger, in which commands may have written schedules already.
    `previous_node_id` is what this process was until it lost its lease.
    """
    if previous_node_id is not None:
        tx.leave_node(previous_node_id, now)
    last_heartbeat_at = tx.node_get_last_seen()
    known = (node_info.host, node_info.pid, node_info.version)
    node_id = tx.join_node(*known, now, node_info.labels, works=node_info.works, origin=node_info.origin)
    mark = tx.schedule_latest_mark()
    if mark is not None and mark - now > DRIFT_TOLERANCE:
        move_clock_back(tx, now, mark - now)  # the clock was set back while no node was there to notice
    down_since = _find_first_due(tx, now) if last_heartbeat_at is None else last_heartbeat_at
    if down_since is not None and down_since < now:
        tx.add_gap(Gap(from_at=down_since, until=now, reason=MissedReason.SCHEDULER_DOWN))
    rescued = rescue_orphans(tx, now, node_id, reports)
    gaps = tuple(tx.gaps(tx.oldest_wake() or now))
    return Registration(node_id, gaps, len(rescued.completed), adopted=tuple(rescued.adopted))


def _find_first_due(tx: Transaction, now: datetime) -> datetime | None:
    """Return since when schedules have waited for the first node of their ledger; None if it came soon enough.

    Once, a clock set ten years forward between `apply` and the first node made 320 million skipped instants.
    """
    oldest_wake = tx.oldest_wake()
    is_soon = oldest_wake is None or now - oldest_wake < _SLOW_START
    return None if oldest_wake is None or is_soon else oldest_wake - _TICK


def rescue_orphans(
    tx: Transaction, now: datetime, node_id: int, reports: LostReports = NO_REPORTS, ended_nodes: Sequence[int] = ()
) -> CompletionResult:
    """End the runs of dead nodes as interrupted, which counts as no failure. Agents are charged what they reported.

    `ended_nodes` are dead although their leases have not ended. What goes on elsewhere is adopted.
    """
    failpoint(Failpoint.DURING_SWEEP)
    if ended_nodes:
        tx.node_give_up(ended_nodes)
    orphans = {run_id: adopt_remote_run(tx, now, node_id, run_id) for run_id in tx.orphaned_runs(node_id)}
    lost_runs = [
        FinishedRun(run_id, None, add_report(describe_lost_run(tx, run_id), reports.by_run.get(run_id)))
        for run_id, kept in orphans.items()
        if kept is None
    ]
    result = complete_runs(tx, now, lost_runs, reports.estimate)
    result.adopted = [kept for kept in orphans.values() if kept is not None]
    return result
