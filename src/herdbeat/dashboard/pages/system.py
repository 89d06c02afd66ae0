"""The page System: whether herdbeat itself is well. Nodes, lag, store, checks, notifications, pauses, tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.bootstrap.doctor import inspect_installation
from herdbeat.clock import OffsetClock
from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.pages.planner import build_lines
from herdbeat.dashboard.render import render
from herdbeat.domain.change import Change
from herdbeat.domain.outbox import DeliveryKind
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.service.maintenance.doctor import DoctorFinding
from herdbeat.service.queries.health import read_health
from herdbeat.service.queries.nodes import find_nodes
from herdbeat.service.queries.selectors import find_changes
from herdbeat.service.webhooks.refused_calls import load_refused_calls

MAX_NODES = 50
MAX_TOKENS = 100
MAX_CHANGES = 100
MAX_LISTED = 20
MAX_MESSAGES = 8
MAX_SESSIONS = 5
MAX_NAMED = 4
LAG_BEATS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LagStats:
    """How late the last beats were taken up."""

    beats: int
    p50: timedelta | None
    p99: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """Changes that one request made: an apply of a file changes many schedules."""

    first: Change
    subjects: str
    reason: str


def show_system(context: PageContext) -> str:
    frame, reader, handle = context.frame, context.reader, context.handle
    path = handle.path
    deliveries = reader.deliveries(DeliveryKind.NOTIFICATION, limit=MAX_MESSAGES)
    episodes = reader.episodes(only_open=True, limit=MAX_LISTED)
    return render(
        "system.html",
        frame,
        nodes=find_nodes(reader, frame.now, limit=MAX_NODES, holder_pid=handle.holder_pid, include_stopped=False),
        lag_of_nodes={node: measure_lag(each) for node, each in reader.lateness_by_node(LAG_BEATS).items()},
        health=read_health(reader, frame.now, is_running=context.is_running),
        lag=measure_lag(reader.recent_lateness(LAG_BEATS)),
        store=str(path) if isinstance(path, Path) else path.display_url,
        size=_read_size(path) if isinstance(path, Path) else None,
        clock_offset=handle.clock.offset if isinstance(handle.clock, OffsetClock) else None,
        schedules=reader.count_all_schedules(),
        runs=reader.newest_run(),
        findings=_check(context) if "checks" in context.query and frame.visitor.can_operate else None,
        episodes=episodes,
        deliveries=deliveries,
        channels=sorted({*(each.channel for each in episodes), *(each.channel for each in deliveries)}),
        lines=build_lines(reader.planner_sessions(limit=MAX_SESSIONS)),
        pauses=reader.planned_pauses(frame.now, limit=MAX_LISTED),
        refused=load_refused_calls(handle.path).newest()[:MAX_LISTED],
        tokens=reader.tokens(MAX_TOKENS) if frame.visitor.can_administer else None,
        changes=_group_changes(find_changes(reader, None, since=None, before=None, limit=MAX_CHANGES))[:MAX_LISTED],
    )


def measure_lag(lateness: Sequence[timedelta]) -> LagStats:
    ordered = sorted(lateness)
    if not ordered:
        return LagStats(beats=0, p50=None, p99=None)
    last = len(ordered) - 1
    return LagStats(beats=len(ordered), p50=ordered[last // 2], p99=ordered[round(last * 0.99)])


def _group_changes(changes: Sequence[Change]) -> list[ChangeGroup]:
    groups: dict[tuple[datetime, str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.at, change.who, str(change.what)), []).append(change)
    return [
        ChangeGroup(first=same[0], subjects=describe_subjects(same), reason=_find_reason(same[0]))
        for same in groups.values()
    ]


def describe_subjects(changes: Sequence[Change]) -> str:
    names = [each.subject.removesuffix(f"/{DEFAULT_SCHEDULE_NAME}") for each in changes]
    shown = ", ".join(dict.fromkeys(names[:MAX_NAMED]))
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def _find_reason(change: Change) -> str:
    return str(change.after.get("reason") or "") if change.after else ""


def _read_size(path: Path) -> int:
    names = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in names if each.exists())


def _check(context: PageContext) -> list[DoctorFinding]:
    source = context.host.config_source
    return list(inspect_installation(source.path or None, source.environ, source.folder, context.handle.clock))
