"""A node's life in the ledger: it joins, closes what the dead have left open, shows signs of life, and leaves."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.crashpoints import Failpoint, failpoint
from herdbeat.domain.beat import MissedReason
from herdbeat.domain.gap import Gap
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.finish import CompletionResult, complete_runs
from herdbeat.store.base import FinishedRun, Transaction


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
