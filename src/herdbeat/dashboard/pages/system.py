"""The page System: whether herdbeat itself is well. Nodes, lag, the store, checks, tokens, and who changed what."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.render import render
from herdbeat.service.maintenance.doctor import DoctorFinding
from herdbeat.service.maintenance.doctor.ledger import check_ledger
from herdbeat.service.maintenance.doctor.machine import check_clock
from herdbeat.service.queries.health import read_health
from herdbeat.service.queries.nodes import find_nodes
from herdbeat.service.queries.selectors import find_changes

MAX_NODES = 50
MAX_TOKENS = 100
MAX_CHANGES = 50
LAG_BEATS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LagStats:
    """How late the last beats were taken up."""

    beats: int
    p50: timedelta | None
    p99: timedelta | None


def show_system(context: PageContext) -> str:
    frame, reader, handle = context.frame, context.reader, context.handle
    path = handle.path
    return render(
        "system.html",
        frame,
        nodes=find_nodes(reader, frame.now, limit=MAX_NODES, holder_pid=handle.holder_pid, include_stopped=False),
        health=read_health(reader, frame.now, is_running=context.is_running),
        lag=_measure_lag(context),
        store=str(path) if isinstance(path, Path) else path.display_url,
        size=_read_size(path) if isinstance(path, Path) else None,
        schedules=reader.count_all_schedules(),
        runs=reader.newest_run(),
        findings=list(_check(context)) if "checks" in context.query else None,
        tokens=reader.tokens(MAX_TOKENS) if frame.visitor.can_administer else None,
        changes=find_changes(reader, None, since=None, before=None, limit=MAX_CHANGES),
    )


def _measure_lag(context: PageContext) -> LagStats:
    lateness = sorted(context.reader.recent_lateness(LAG_BEATS))
    if not lateness:
        return LagStats(beats=0, p50=None, p99=None)
    last = len(lateness) - 1
    return LagStats(beats=len(lateness), p50=lateness[last // 2], p99=lateness[round(last * 0.99)])


def _read_size(path: Path) -> int:
    names = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in names if each.exists())


def _check(context: PageContext) -> Iterator[DoctorFinding]:
    """The checks that look at the ledger and the clock. Those of the files and programs need the terminal."""
    yield from check_ledger(context.handle.path, context.handle.clock)
    yield check_clock()
