"""The real scheduler on a clock that is moved by hand: a year passes in a second."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.hint import Hint
from herdbeat.domain.planned_pause import PlannedPause
from herdbeat.domain.policies import Budget, Catchup, Policies
from herdbeat.domain.records import BeatRecord
from herdbeat.domain.rule_state import RuleStep
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.selection import Selection
from herdbeat.domain.target import AgentSpec, CallableSpec, Target
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.durations import parse_duration
from herdbeat.events import EventListener, null_listener
from herdbeat.governor import Pause
from herdbeat.python_api.registry import ScheduleRegistry
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.python import CallableRunner
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler import control
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.scheduler.planned_pauses import plan_pause
from herdbeat.scheduler.rules import RuleEvaluator
from herdbeat.store.base import FinishedRun, ScheduleSnapshot, Transaction
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.spec_cache import SpecCache
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.clock import FakeClock
from herdbeat.timestamps import parse_timestamp
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.interval import FixedRate, Interval

MONDAY = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
"""The time on the clock of a new herd."""

_NODE_INFO = NodeInfo(host="herd", pid=0, version="test")


@dataclass(eq=False, slots=True, kw_only=True)
class ScriptedRunner:
    """Follows a script: declines or fails so many times, takes so long, costs so much, or runs until `let_go`.

    `outcomes` are returned first, one for each run.
    """

    fails: int = 0
    takes: timedelta = timedelta(0)
    holds: bool = False
    usage: Mapping[str, float] = field(default_factory=dict)
    declines: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    runs: list[Claim] = field(default_factory=list, init=False)
    _release_event: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        if not self.holds:
            self._release_event.set()

    @property
    def is_held(self) -> bool:
        return not self._release_event.is_set()

    def let_go(self) -> None:
        self._release_event.set()

    def hold(self) -> None:
        """Keep the runs that begin from now on, until `let_go`."""
        self._release_event.clear()

    async def __call__(self, claim: Claim, clock: FakeClock) -> Outcome:
        self.runs.append(claim)
        await self._release_event.wait()
        clock.advance(self.takes)
        if self.outcomes:
            return self.outcomes.pop(0)
        if self.declines > 0:
            self.declines -= 1
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.PRECHECK)
        if self.fails > 0:
            self.fails -= 1
            return Outcome(status=RunStatus.FAILED, error="it was told to fail", usage=self.usage)
        return Outcome(status=RunStatus.SUCCEEDED, usage=self.usage)


class SimulatedHerd(ScheduleRegistry):
    """A herd that is driven by hand: the same decorators, the real scheduler and store, and a clock that you move."""

    def __init__(
        self,
        store: SqliteStore,
        clock: FakeClock,
        tasks: asyncio.TaskGroup,
        settings: NodeSettings,
        listener: EventListener = null_listener,
    ) -> None:
        super().__init__("herd", ZoneInfo("UTC"))
        self.store = store
        self.clock = clock
        self._tasks = tasks
        self._runners: dict[str, ScriptedRunner] = {}
        self._budget: Budget | None = None
        self._reader = SqliteReader(store.path)
        local_functions = LocalFunctions(functions=self.functions, by_schedule=self.bound_functions)
        runner_settings = RunnerSettings(state_dir=store.path.parent, environ={}, local_functions=local_functions)
        self._functions = CallableRunner(runner_settings, clock)
        self._call = RunExecutor(SpecCache(self._reader), self._functions, clock)
        evaluate_rules = RuleEvaluator(self._reader, clock)
        self._loop = Loop(NodeParts(store, clock, self._perform, listener, evaluate_rules=evaluate_rules), settings)
        self._is_applied = True
        self._recording = tasks.create_task(self._loop.completer.run(), name="recorder")

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def schedule(
        self,
        label: str,
        *,
        every: str | None = None,
        fixed_rate: bool = False,
        cron: str | None = None,
        at: str | None = None,
        trigger: Trigger | None = None,
        zone: str = "UTC",
        runner: ScriptedRunner | None = None,
        max_concurrent: int = 1,
        agent: AgentSpec | None = None,
        enabled: bool = True,
        **policies: Any,
    ) -> None:
        """Add or edit a schedule: `target` or `target/name`, one trigger, and any policies.

        Its target is a function, or the given agent; both follow the script of the runner.
        """
        target, _, name = label.partition("/")
        trigger = trigger or _build_trigger(every, cron, at, zone, fixed_rate=fixed_rate)
        catchup = Catchup.SKIP if trigger.kind is TriggerKind.CRON else Catchup.ONCE
        defaults = Policies(zone=ZoneInfo(zone), timeout=timedelta(hours=1), catchup=catchup)
        schedule = Schedule(
            target=target,
            name=name or DEFAULT_SCHEDULE_NAME,
            trigger=trigger,
            policies=replace(defaults, **policies),
            enabled=enabled,
        )
        self._schedules[schedule.id] = schedule
        spec = agent or CallableSpec(call="herd:run")
        self._targets[target] = Target(name=target, spec=spec, max_concurrent=max_concurrent)
        self._runners[schedule.id] = runner or ScriptedRunner()
        self._is_applied = False

    def share(self, budget: Budget | None, target: str | None = None) -> None:
        """Set the budget that all schedules of a target share; without a target, all schedules. None removes it."""
        if target is None:
            self._budget = budget
        else:
            self._targets[target] = replace(self._targets[target], budget=budget)
        self._is_applied = False

    def fleet(self, store: str) -> Fleet:
        return replace(super().fleet(store), budget=self._budget)

    def remove(self, label: str) -> None:
        """Remove a schedule from the fleet, as if its lines were deleted from the file."""
        del self._schedules[self.own(label).id]
        self._is_applied = False

    def take_over(self, other: ScheduleRegistry) -> None:
        super().take_over(other)
        self._is_applied = False

    def _add(self, function: Callable[..., Any], trigger: Mapping[str, object], options: dict[str, object]) -> None:
        super()._add(function, trigger, options)
        self._is_applied = False

    async def tick(self) -> None:
        """Run everything that is due now, and everything that follows from it at once."""
        self._apply()
        while True:
            claimed = await self._loop.run_cycle(self._tasks)
            await self.settle()
            wake_at = self.store.write_now(lambda tx: tx.next_wake())
            if not claimed.claims and (wake_at is None or wake_at > self.now):
                return

    async def advance(self, by: timedelta) -> None:
        """Move the clock, stopping at everything that comes due on the way."""
        end = self.now + by
        while True:
            await self.tick()
            wake_at = self.store.write_now(lambda tx: tx.next_wake())
            if wake_at is None or wake_at > end:
                break
            self.clock.advance(max(wake_at - self.now, timedelta(0)))
        self.clock.advance(max(end - self.now, timedelta(0)))
        await self.tick()

    def pause(self, label: str, until: datetime | None = None) -> None:
        hold = Pause(until=until, by="human:you", reason="told to")
        self._change(label, lambda tx, schedule_id: control.pause(tx, self.now, schedule_id, hold))

    def plan_pause(self, *labels: str, start: datetime, until: datetime) -> PlannedPause:
        """Plan a pause of these schedules, or patterns, or of all if none is named."""
        self._apply()
        selection = Selection(names=labels, everything=not labels)
        return self.store.write_now(
            lambda tx: plan_pause(
                tx, self.now, selection, from_at=start, until=until, by="human:you", reason="maintenance"
            )
        )

    def resume(self, label: str) -> None:
        self._change(label, lambda tx, schedule_id: control.resume(tx, self.now, schedule_id))

    def disable(self, label: str) -> None:
        self._change(label, lambda tx, schedule_id: control.disable(tx, self.now, schedule_id, "human:you"))

    def enable(self, label: str) -> None:
        self._change(label, lambda tx, schedule_id: control.enable(tx, self.now, schedule_id))

    def hint(self, label: str, hint: Hint) -> None:
        self._change(label, lambda tx, schedule_id: control.give_hint(tx, self.now, schedule_id, hint))

    def clear_hints(self, label: str) -> None:
        self._change(label, lambda tx, schedule_id: control.clear_hints(tx, self.now, schedule_id, "human:you"))

    def _change(self, label: str, change: Callable[[Transaction, int], object]) -> None:
        schedule_id = self.snapshot(label).id
        self.store.write_now(lambda tx: change(tx, schedule_id))

    def next_run(self, label: str) -> datetime | None:
        return self.snapshot(label).next_run_at

    def why(self, label: str) -> Source | None:
        return self.snapshot(label).next_source

    def beats(self, label: str) -> list[BeatRecord]:
        """Return its beats in the ledger, oldest first."""
        target, _, name = label.partition("/")
        with closing(SqliteReader(self.store.path)) as reader:
            return reader.beats(Filter(target=target, name=name or DEFAULT_SCHEDULE_NAME, limit=10_000))[::-1]

    def outcomes(self, label: str) -> list[tuple[str, str, int]]:
        """Return its beats in short, oldest first: outcome, reason and number of instants."""
        return [(beat.outcome, beat.reason, beat.count) for beat in self.beats(label)]

    fates = outcomes  # the documented name

    def rule_steps(self, label: str) -> dict[str, RuleStep]:
        """Return the outcome of each rule of a schedule after its newest run."""
        schedule_id = self.snapshot(label).id
        with closing(SqliteReader(self.store.path)) as reader:
            return reader.rule_steps(schedule_id)

    def snapshot(self, label: str) -> ScheduleSnapshot:
        self._apply()
        schedule = self.own(label)

        def load(tx: Transaction) -> ScheduleSnapshot:
            target_id, _ = tx.targets()[schedule.target]
            schedule_id, _ = tx.schedule_list_by_target([target_id])[target_id, schedule.name]
            return tx.schedules([schedule_id])[schedule_id]

        return self.store.write_now(load)

    async def settle(self) -> None:
        """Wait until every run that is not held has ended and its result is written."""
        while free := [each.task for each in self._loop.active_runs.values() if not self._is_held(each.claim)]:
            await asyncio.wait(free)
        await self._loop.completer.wait_drained()

    def _is_held(self, claim: Claim) -> bool:
        return claim.label in self._runners and self._runners[claim.label].is_held

    async def _perform(self, claim: Claim) -> FinishedRun:
        if claim.label not in self._runners:
            return await self._call(claim)
        started_at = self.now
        return FinishedRun(claim.run_id, started_at, await self._runners[claim.label](claim, self.clock))

    def _apply(self) -> None:
        """Apply what was scheduled since the last time, all at once, as a file would be."""
        if not self._is_applied:
            self.store.write_now(lambda tx: apply_fleet(tx, self.fleet(""), self.now))
            self._is_applied = True

    def close(self) -> None:
        for runner in self._runners.values():
            runner.let_go()
        self._recording.cancel()
        self._functions.close()
        self._reader.close()


@asynccontextmanager
async def open_herd(
    folder: Path,
    now: datetime = MONDAY,
    *,
    catchup_rate: float = 10.0,
    listener: EventListener = null_listener,
    labels: Iterable[str] = (),
    of: ScheduleRegistry | None = None,
) -> AsyncIterator[SimulatedHerd]:
    """A herd on a store in that folder. Opened again there, it continues where it stopped, and the time between is a
    gap.

    `of` is the herd of your program: its functions are run for real, on the clock of this one.
    """
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    clock = FakeClock(now)
    node_info = replace(_NODE_INFO, labels=tuple(labels))
    registration = await store.write(lambda tx: register_node(tx, now, node_info))
    settings = NodeSettings(
        node_id=registration.node_id,
        gaps=registration.gaps,
        catchup_rate=catchup_rate,
        labels=frozenset(node_info.labels),
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            herd = SimulatedHerd(store, clock, tasks, settings, listener)
            if of is not None:
                herd.take_over(of)
            with closing(herd):
                yield herd
        await store.write(lambda tx: tx.leave_node(registration.node_id, clock.now()))
    finally:
        store.close()


def _build_trigger(
    every: str | None, cron: str | None, at: str | None, zone: str, *, fixed_rate: bool = False
) -> Trigger:
    if every is not None:
        return (FixedRate if fixed_rate else Interval)(parse_duration(every))
    if cron is not None:
        return Cron.parse(cron, ZoneInfo(zone))
    assert at is not None, "a schedule needs one of every, cron or at"
    return Delay(parse_timestamp(at))
