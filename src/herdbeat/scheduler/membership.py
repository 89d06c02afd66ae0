"""Membership of a node: its lease on what it has claimed, its registration, and the rescue of runs of dead nodes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import Gap, MissedReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.scheduler.complete import CompletionResult, complete_runs
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import FinishedRun, Transaction

LEASE_STOP_FRACTION = 2 / 3
"""The part of the lease after which the runs are interrupted: they are gone when another node may start them again."""

OnLeaseRenewed = Callable[[timedelta], None]
"""Called with how much of the lease is left."""


def ignore_renewal(remaining: timedelta) -> None:
    """The default, for a node without child processes."""


class Lease:
    """Until when this node may go on without a renewal. Begins with the first one.

    It is counted by CLOCK_BOOTTIME, which cannot be set back and does not stop while the machine sleeps. The store
    counts the same lease by its own clock and begins later: we may give up one that still holds, never the reverse.
    """

    def __init__(self, duration: timedelta, timer: Timer, on_renewed: OnLeaseRenewed = ignore_renewal) -> None:
        self._duration = duration
        self._timer = timer
        self._on_renewed = on_renewed
        self._renewed_at = 0.0
        self.lease_lost = asyncio.Event()

    def uptime(self) -> float:
        """The moment to remember before a renewal is sent."""
        return self._timer.pulse().boottime

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


@dataclass(frozen=True, slots=True)
class Registration:
    """The id of a new node, the gaps it finds, and how many runs it found interrupted."""

    node_id: int
    gaps: tuple[Gap, ...]
    interrupted: int


MIN_GAP_BEFORE_FIRST_NODE = timedelta(seconds=30)
"""The first start applies the files itself, a moment before its node is registered: that is no gap."""

_ONE_MICROSECOND = timedelta(microseconds=1)


def register_node(
    tx: Transaction, now: datetime, node_info: NodeInfo, previous_node_id: int | None = None
) -> Registration:
    """Register a node before anything starts. The time since the last heartbeat of any node is a gap.

    So is the time before the first node of a ledger, in which commands may have written schedules already.
    `previous_node_id` is what this process was until it lost its lease.
    """
    if previous_node_id is not None:
        tx.leave_node(previous_node_id, now)
    last_heartbeat_at = tx.node_get_last_seen() or _find_first_due(tx, now)
    known = (node_info.host, node_info.pid, node_info.version)
    node_id = tx.join_node(*known, now, node_info.labels, works=node_info.works)
    if last_heartbeat_at is not None and last_heartbeat_at < now:
        tx.add_gap(Gap(from_at=last_heartbeat_at, until=now, reason=MissedReason.SCHEDULER_DOWN))
    rescued = rescue_orphans(tx, now, node_id)
    return Registration(node_id, tuple(tx.gaps(tx.oldest_wake() or now)), len(rescued.completed))


def _find_first_due(tx: Transaction, now: datetime) -> datetime | None:
    """Return the moment before the first thing was due in a ledger that no node has served yet; None if just now."""
    oldest = tx.oldest_wake()
    is_before_start = oldest is not None and oldest + MIN_GAP_BEFORE_FIRST_NODE < now
    return oldest - _ONE_MICROSECOND if oldest is not None and is_before_start else None


def rescue_orphans(tx: Transaction, now: datetime, node_id: int) -> CompletionResult:
    """End the runs of dead nodes as interrupted, which counts as no failure."""
    failpoint(Failpoint.DURING_SWEEP)
    interrupted = Outcome(status=RunStatus.INTERRUPTED, error="the node that ran it is gone")
    return complete_runs(tx, now, [FinishedRun(run_id, None, interrupted) for run_id in tx.orphaned_runs(node_id)])
