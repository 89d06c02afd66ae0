"""A change that is made elsewhere acts on a node: how long from the asking to the start, with NOTIFY and without.

Made is it here, in the transaction of the command, on a connection of our own: as any other node would. Started is what
it is about in another process, which says when, by the clock that all processes of a machine share.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic, sleep
from uuid import uuid4
from zoneinfo import ZoneInfo

from bench.alone import fresh_folder
from bench.load.stock import NOTHING
from bench.load.watch import Percentiles
from bench.postgres.ledger import clock_of, fleet_at, ledger
from bench.postgres.nodes import NodeProcess, nodes
from bench.postgres.server import conditions, fresh_database, server
from bench.race import Result, table
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
TIMES_DEAF = 6
GOAL = 20.0
POLL = 1_100.0
"""Milliseconds: the usual `check_interval`, and a tenth of it for the look itself."""

WHO = "human:bench"
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def run() -> list[Result]:
    with server() as of:
        print(conditions(of), flush=True)
        with fresh_database(of) as url:
            heard = measured(url, TIMES, is_deaf=False)
        with fresh_database(of) as url:
            unheard = measured(url, TIMES_DEAF, is_deaf=True)
    return judged(heard, unheard)


def judged(heard: dict[str, Percentiles], unheard: dict[str, Percentiles]) -> list[Result]:
    rows = [("from a change to the start elsewhere, ms", "p50", "longest", "without NOTIFY, p50", "longest")]
    rows += [(what, *_shown(each), *_shown(unheard[what])) for what, each in heard.items()]
    print(table(rows))
    return [_result(what, "median", each.p50, GOAL) for what, each in heard.items()] + [
        _result(f"{what} without NOTIFY", "longest", each.longest, POLL) for what, each in unheard.items()
    ]


def _shown(each: Percentiles) -> tuple[str, str]:
    return f"{each.p50:.1f}", f"{each.longest:.1f}"


def _result(what: str, which: str, milliseconds: float, goal: float) -> Result:
    return Result(
        what=f"{what} on one node acts on another",
        measured=f"{which} {milliseconds:,.1f} ms",
        goal=f"within {goal:,.0f} ms",
        is_met=milliseconds <= goal,
    )


def measured(url: str, times: int, *, is_deaf: bool) -> dict[str, Percentiles]:
    print(f"{times} changes of each kind, {'without' if is_deaf else 'with'} NOTIFY", flush=True)
    with fresh_folder() as folder, ledger(url, folder) as store, clock_of(store) as now:
        other = _Other(store, fleet_at(url, folder), now)
        other.apply(_plan("asked", DAY, FirstRun.AFTER_INTERVAL), _plan("held", SECOND, FirstRun.AFTER_INTERVAL))
        other.do(PauseSchedules(), "held")
        other.find("asked")
        with nodes(url, folder, 1, tells_starts=True, is_deaf=is_deaf) as (node,):
            sleep(SECOND.total_seconds())
            return {
                "run": _times(node, times, "asked", lambda _: other.fire("asked")),
                "apply": _times(node, times, "new", lambda at: other.apply(_plan(f"new{at}", DAY, FirstRun.NOW))),
                "resume": Percentiles.of([_resumed(node, other) for _ in range(times)]),
            }


def _times(node: NodeProcess, times: int, label: str, make: Callable[[int], None]) -> Percentiles:
    return Percentiles.of([_until_started(node, label, lambda at=at: make(at)) for at in range(times)])  # type: ignore[misc]


def _resumed(node: NodeProcess, other: "_Other") -> timedelta:
    """It was paused long enough to be overdue, and is paused again at once. A start in between would show as early."""
    took = _until_started(node, "held", lambda: other.do(ResumeSchedules(), "held"))
    other.do(PauseSchedules(), "held")
    sleep(1.1 * SECOND.total_seconds())
    return took


def _until_started(node: NodeProcess, label: str, make: Callable[[], None]) -> timedelta:
    asked_at = monotonic()
    make()
    started = node.hear("started")
    took = started["at"] - asked_at
    assert started["schedule"].startswith(label), f"{started['schedule']} started instead of {label}"
    assert took > 0, f"{label} started before it was asked to"
    return timedelta(seconds=took)


class _Other:
    """Somebody elsewhere who changes things, on a connection that is there already."""

    def __init__(self, store: StoreHandle, fleet: Fleet, now: Callable[[], datetime]) -> None:
        self._store = store
        self._fleet = fleet
        self._now = now
        self._ids: dict[str, int] = {}

    def apply(self, *more: Schedule) -> None:
        """The fleet with these beside what it had."""
        targets = tuple(Target(name=each.target, spec=NOTHING) for each in more)
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
        """The number of a schedule, looked up once: only its change is measured."""
        if label not in self._ids:
            with closing(open_reader(self._store.location)) as reader:
                self._ids[label] = find_schedule(reader, label).id
        return self._ids[label]


def _plan(target: str, every: timedelta, first_run: FirstRun) -> Schedule:
    policies = Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE, first_run=first_run)
    return Schedule(target=target, name=DEFAULT_SCHEDULE_NAME, trigger=Interval(every), policies=policies)
