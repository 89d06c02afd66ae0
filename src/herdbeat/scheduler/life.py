"""A node's life in the ledger: it joins, closes what the dead have left open, shows signs of life, and leaves."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.domain.beat import MissedReason
from herdbeat.domain.gap import Gap
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.finish import Finished, finish
from herdbeat.store.base import FinishedRun, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a node is to those who read the ledger."""

    host: str
    pid: int
    version: str
    labels: tuple[str, ...] = ()
    works: bool = True


@dataclass(frozen=True, slots=True)
class Joined:
    """What a node finds when it comes: its number, the time nobody was there, and what was cut off."""

    node_id: int
    gaps: tuple[Gap, ...]
    interrupted: int


def join(tx: Transaction, now: datetime, identity: Identity, before: int | None = None) -> Joined:
    """One transaction before anything starts. The time since the last sign of life is a gap.

    `before` is the number this process had until it lost its lease.
    """
    if before is not None:
        tx.leave_node(before, now)
    last_sign = tx.last_sign_of_life()
    known = (identity.host, identity.pid, identity.version)
    node_id = tx.join_node(*known, now, identity.labels, works=identity.works)
    if last_sign is not None and last_sign < now:
        tx.add_gap(Gap(from_at=last_sign, until=now, reason=MissedReason.SCHEDULER_DOWN))
    swept = sweep(tx, now, node_id)
    return Joined(node_id, tuple(tx.gaps(tx.oldest_wake() or now)), len(swept.closed))


def sweep(tx: Transaction, now: datetime, node_id: int) -> Finished:
    """Runs of nodes that are gone end as interrupted: nobody's failure, and never stuck."""
    pass_by(CrashPoint.DURING_SWEEP)
    cut_off = Outcome(status=RunStatus.INTERRUPTED, error="the node that ran it is gone")
    return finish(tx, now, [FinishedRun(run_id, None, cut_off) for run_id in tx.orphaned_runs(node_id)])
