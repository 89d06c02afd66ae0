"""Latency of a remote change: from the command to the start on another node, with NOTIFY and without.

This process makes the change, in the command's transaction on its own connection, as any other node would. A node in
another process starts the run and reports when, by the monotonic clock that all processes of a machine share.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic, sleep
from uuid import uuid4
from zoneinfo import ZoneInfo

from bench.load.bulk_insert import NOOP_SPEC
from bench.load.run_monitor import Percentiles
from bench.postgres.ledger import database_clock, fleet_at, ledger
from bench.postgres.node_processes import NodeProcess, running_nodes
from bench.postgres.server import describe_server, fresh_database, server
from bench.subprocesses import fresh_folder
from bench.timing import Result, format_table
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Catchup, FirstRun, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.service.commands.base import Actor, PauseSchedules, ResumeSchedules, ScheduleCommand
from herdbeat.service.commands.dispatch import execute
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.location import StoreHandle, open_reader
from herdbeat.triggers.interval import Interval

TIMES = 20
POLLING_TIMES = 6
GOAL = 20.0
POLL_GOAL = 1_100.0
"""Milliseconds: the default `check_interval`, and a tenth of it for the query itself."""

WHO = "human:bench"
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def run() -> list[Result]:
    with server() as postgres:
        print(describe_server(postgres), flush=True)
        with fresh_database(postgres) as url:
            with_notify = measure_changes(url, TIMES, without_notify=False)
        with fresh_database(postgres) as url:
            polling = measure_changes(url, POLLING_TIMES, without_notify=True)
    return evaluate(with_notify, polling)


def evaluate(with_notify: dict[str, Percentiles], polling: dict[str, Percentiles]) -> list[Result]:
    rows = [("from a change to the start elsewhere, ms", "p50", "longest", "without NOTIFY, p50", "longest")]
    rows += [
        (what, *_format_percentiles(each), *_format_percentiles(polling[what])) for what, each in with_notify.items()
    ]
    print(format_table(rows))
    return [_result(what, "median", each.p50, GOAL) for what, each in with_notify.items()] + [
        _result(f"{what} without NOTIFY", "longest", each.longest, POLL_GOAL) for what, each in polling.items()
    ]


def _format_percentiles(each: Percentiles) -> tuple[str, str]:
    return f"{each.p50:.1f}", f"{each.longest:.1f}"


def _result(what: str, which: str, milliseconds: float, goal: float) -> Result:
    return Result(
        what=f"{what} on one node acts on another",
        measured=f"{which} {milliseconds:,.1f} ms",
        goal=f"within {goal:,.0f} ms",
        is_met=milliseconds <= goal,
    )


def measure_changes(url: str, times: int, *, without_notify: bool) -> dict[str, Percentiles]:
    print(f"{times} changes of each kind, {'without' if without_notify else 'with'} NOTIFY", flush=True)
    with fresh_folder() as folder, ledger(url, folder) as store, database_clock(store) as now:
        other = _RemoteClient(store, fleet_at(url, folder), now)
        other.apply(
            _build_schedule("asked", DAY, FirstRun.AFTER_INTERVAL),
            _build_schedule("held", SECOND, FirstRun.AFTER_INTERVAL),
        )
        other.do(PauseSchedules(), "held")
        other.find("asked")
        with running_nodes(url, folder, 1, reports_starts=True, without_notify=without_notify) as (node,):
            sleep(SECOND.total_seconds())
            return {
                "run": _times(node, times, "asked", lambda _: other.fire("asked")),
                "apply": _times(
                    node, times, "new", lambda at: other.apply(_build_schedule(f"new{at}", DAY, FirstRun.NOW))
                ),
                "resume": Percentiles.from_times([_resume_latency(node, other) for _ in range(times)]),
            }


def _times(node: NodeProcess, times: int, label: str, make: Callable[[int], None]) -> Percentiles:
    return Percentiles.from_times([_start_latency(node, label, lambda at=at: make(at)) for at in range(times)])  # type: ignore[misc]


def _resume_latency(node: NodeProcess, other: "_RemoteClient") -> timedelta:
    """Resume a schedule that is overdue, and pause it again at once. A start in between would show as too early."""
    took = _start_latency(node, "held", lambda: other.do(ResumeSchedules(), "held"))
    other.do(PauseSchedules(), "held")
    sleep(1.1 * SECOND.total_seconds())
    return took


def _start_latency(node: NodeProcess, label: str, make: Callable[[], None]) -> timedelta:
    asked_at = monotonic()
    make()
    started = node.read_event("started")
    took = started["at"] - asked_at
    assert started["schedule"].startswith(label), f"{started['schedule']} started instead of {label}"
    assert took > 0, f"{label} started before it was asked to"
    return timedelta(seconds=took)


class _RemoteClient:
    """A client elsewhere that makes changes, on a connection that is already open."""

    def __init__(self, store: StoreHandle, fleet: Fleet, now: Callable[[], datetime]) -> None:
        self._store = store
        self._fleet = fleet
        self._now = now
        self._ids: dict[str, int] = {}

    def apply(self, *more: Schedule) -> None:
        """Apply the fleet with these schedules added."""
        targets = tuple(Target(name=each.target, spec=NOOP_SPEC) for each in more)
        self._fleet = replace(
            self._fleet, targets=(*self._fleet.targets, *targets), schedules=(*self._fleet.schedules, *more)
        )
        now = self._now()
        self._store.write_now(lambda tx: apply_fleet(tx, self._fleet, now, WHO))

    def fire(self, label: str) -> None:
        number, now = self.find(label), self._now()
        self._store.write_now(lambda tx: enqueue_manual(tx, now, number, origin=WHO, event_id=uuid4().hex, queue=True))

    def do(self, act: ScheduleCommand, label: str) -> None:
        command, now = replace(act, schedules=(self.find(label),)), self._now()
        self._store.write_now(lambda tx: execute(tx, now, Actor(name=WHO), command))

    def find(self, label: str) -> int:
        """Return the id of a schedule. It is cached, because only the change is measured."""
        if label not in self._ids:
            with closing(open_reader(self._store.location)) as reader:
                self._ids[label] = find_schedule(reader, label).id
        return self._ids[label]


def _build_schedule(target: str, every: timedelta, first_run: FirstRun) -> Schedule:
    policies = Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE, first_run=first_run)
    return Schedule(target=target, name=DEFAULT_SCHEDULE_NAME, trigger=Interval(every), policies=policies)
