"""The nodes of a fleet, and whether each of them is alive."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.records import NodeRecord, RunDetails, RunRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.store.reader import Filter, Reader

RECENTLY_STOPPED_WINDOW = timedelta(hours=1)
"""Nodes that stopped since then are listed with the live ones, so that a death is seen where people look for it."""

MAX_CUT_OFF_RUNS = 10_000
"""Runs that are looked at: more than a node may have at once."""

MAX_NAMED_HOSTS = 3
"""More hosts than that are counted, not named."""


class NodeState(StrEnum):
    ALIVE = "alive"
    LEFT = "left"  # stopped by itself
    DEAD = "dead"  # stopped without saying so


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    record: NodeRecord
    state: NodeState

    @property
    def last_seen_at(self) -> datetime:
        """When it stopped, or gave its last sign: a dead node is recorded as stopped only when its lease ran out."""
        stopped_at = self.record.stopped_at if self.state is NodeState.LEFT else None
        return stopped_at or self.record.seen_at

    def was_seen_since(self, moment: datetime) -> bool:
        return self.state is NodeState.ALIVE or self.last_seen_at >= moment


def find_nodes(
    reader: Reader, now: datetime, *, limit: int, holder_pid: int | None, include_stopped: bool
) -> list[NodeView]:
    """Return the live nodes and those that stopped in the last hour (`include_stopped`: ever), newest first.

    `holder_pid` is the process that has the lock: a ledger in a file knows of a death only by it. Only its newest node
    can be alive; the row of one that was killed stays open.
    """
    known = {each.id: each for each in (*reader.nodes(limit), *reader.nodes(limit, now))}
    newest_first = [known[node_id] for node_id in sorted(known, reverse=True)]
    views = [
        NodeView(record=each, state=resolve_node_state(each, now, is_holder=place == 0 and each.pid == holder_pid))
        for place, each in enumerate(newest_first)
    ]
    since = now - RECENTLY_STOPPED_WINDOW
    return [each for each in views if include_stopped or each.was_seen_since(since)][:limit]


def resolve_node_state(node: NodeRecord, now: datetime, *, is_holder: bool) -> NodeState:
    """Return the state of a node. `is_holder` says whether it holds the lock of a ledger in a file."""
    if node.lease_until is None:
        if node.stopped_at is not None:
            return NodeState.LEFT
        return NodeState.ALIVE if is_holder else NodeState.DEAD
    if node.stopped_at is None:
        return NodeState.ALIVE if node.lease_until > now else NodeState.DEAD
    # A dead node is recorded as stopped when its lease ran out; one that leaves stops before that.
    return NodeState.DEAD if node.stopped_at == node.lease_until else NodeState.LEFT


def find_lost_nodes(nodes: Iterable[NodeView]) -> list[NodeView]:
    """Return the dead nodes that nothing has replaced. A node that began on their machine after that replaces one."""
    oldest_first = sorted(nodes, key=lambda each: each.record.started_at)
    lost, heirs = [], set[int]()
    for dead in [each for each in oldest_first if each.state is NodeState.DEAD]:
        host, since = dead.record.host, dead.record.seen_at
        later = (each.record for each in oldest_first if each.record.host == host and each.record.started_at > since)
        heir = next((each.id for each in later if each.id not in heirs), None)
        if heir is None:
            lost.append(dead)
        else:
            heirs.add(heir)
    return lost


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAfterStop:
    """The runs that a process had when it stopped: cut off with it, or going on at an engine."""

    cut_off: Sequence[RunRecord]
    on_engines: Sequence[RunRecord]


def find_runs_after_stop(reader: Reader, host: str, pid: int, since: datetime) -> RunsAfterStop:
    """Return the runs that a process has interrupted since a moment, and those that it has left without an end."""
    begun_elsewhere = {run_id for run_id, each in reader.remote_places(MAX_CUT_OFF_RUNS).items() if each.place}
    left = reader.runs(Filter(status=RunStatus.RUNNING, limit=MAX_CUT_OFF_RUNS))
    interrupted = reader.runs(Filter(status=RunStatus.INTERRUPTED, limit=MAX_CUT_OFF_RUNS))
    recent = [run for run in interrupted if run.finished_at is not None and run.finished_at >= since]
    own = [run for run in (*left, *recent) if _was_run_by(reader.details(run.id), host, pid)]
    return RunsAfterStop(
        cut_off=[run for run in own if run.id not in begun_elsewhere],
        on_engines=[run for run in own if run.id in begun_elsewhere],
    )


def _was_run_by(details: RunDetails, host: str, pid: int) -> bool:
    return (details.host, details.pid) == (host, pid)


def describe_nodes(nodes: Sequence[NodeRecord]) -> str:
    """Return for example `2 nodes (db1, web1) run`."""
    where = format_hosts(nodes)
    return f"1 node ({where}) runs" if len(nodes) == 1 else f"{len(nodes)} nodes ({where}) run"


def format_hosts(nodes: Iterable[NodeRecord]) -> str:
    """Name each host once, or say how many there are if there are many."""
    hosts = sorted({each.host for each in nodes})
    return ", ".join(hosts) if len(hosts) <= MAX_NAMED_HOSTS else f"{len(hosts)} hosts"
