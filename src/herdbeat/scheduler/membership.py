"""A node's hold on what it has claimed, where several share a ledger: until when it may go on without a word.

Reckoned by CLOCK_BOOTTIME, which nobody can put back, and which goes on while the machine sleeps. The store counts the
same lease by its own clock, and begins later than we do: so what we take for over may still be ours, never the reverse.
"""

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
"""Of the lease: then the runs are ended, so that they are gone when somebody else may start in their place."""

OnLeaseRenewed = Callable[[timedelta], None]
"""Told how much of the lease is left."""


def ignore_renewal(remaining: timedelta) -> None:
    """For who has no children."""


class Lease:
    """Begins with the first renewal."""

    def __init__(self, duration: timedelta, timer: Timer, on_renewed: OnLeaseRenewed = ignore_renewal) -> None:
        self._duration = duration
        self._timer = timer
        self._on_renewed = on_renewed
        self._renewed_at = 0.0
        self.lease_lost = asyncio.Event()

    def uptime(self) -> float:
        """To be asked before a renewal is sent."""
        return self._timer.pulse().boottime

    def begin(self, sent_at: float) -> None:
        """As a new node."""
        self.lease_lost.clear()
        self.renew(sent_at)

    def renew(self, sent_at: float) -> None:
        """The store has said yes to what was asked then."""
        self._renewed_at = sent_at
        self._on_renewed(self._duration - timedelta(seconds=self.uptime() - sent_at))

    def is_held(self) -> bool:
        """Looked at again right before anything is started."""
        return not self.lease_lost.is_set() and self._remaining_s() > 0

    def mark_lost(self) -> None:
        self.lease_lost.set()

    async def wait_lost(self) -> None:
        """Until it is lost: because somebody says so, or because nothing was heard for too long."""
        while not self.lease_lost.is_set() and (remaining := self._remaining_s()) > 0:
            await self._timer.sleep_until(self._timer.now() + timedelta(seconds=remaining), self.lease_lost)
        self.lease_lost.set()

    def _remaining_s(self) -> float:
        return self._renewed_at + self._duration.total_seconds() * LEASE_STOP_FRACTION - self.uptime()


# A node's life in the ledger: it joins, closes what the dead have left open, shows signs of life, and leaves.


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """Who a node is to those who read the ledger."""

    host: str
    pid: int
    version: str
    labels: tuple[str, ...] = ()
    works: bool = True


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node finds when it comes: its number, the time nobody was there, and what was cut off."""

    node_id: int
    gaps: tuple[Gap, ...]
    interrupted: int


def register_node(
    tx: Transaction, now: datetime, node_info: NodeInfo, previous_node_id: int | None = None
) -> Registration:
    """One transaction before anything starts. The time since the last sign of life is a gap.

    `before` is the number this process had until it lost its lease.
    """
    if previous_node_id is not None:
        tx.leave_node(previous_node_id, now)
    last_heartbeat_at = tx.node_get_last_seen()
    known = (node_info.host, node_info.pid, node_info.version)
    node_id = tx.join_node(*known, now, node_info.labels, works=node_info.works)
    if last_heartbeat_at is not None and last_heartbeat_at < now:
        tx.add_gap(Gap(from_at=last_heartbeat_at, until=now, reason=MissedReason.SCHEDULER_DOWN))
    rescued = rescue_orphans(tx, now, node_id)
    return Registration(node_id, tuple(tx.gaps(tx.oldest_wake() or now)), len(rescued.completed))


def rescue_orphans(tx: Transaction, now: datetime, node_id: int) -> CompletionResult:
    """Runs of nodes that are gone end as interrupted: nobody's failure, and never stuck."""
    failpoint(Failpoint.DURING_SWEEP)
    interrupted = Outcome(status=RunStatus.INTERRUPTED, error="the node that ran it is gone")
    return complete_runs(tx, now, [FinishedRun(run_id, None, interrupted) for run_id in tx.orphaned_runs(node_id)])
