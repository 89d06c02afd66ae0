"""Claim x completion x crash x edit x clock, in any order: no beat is lost, and none is doubled."""

import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.agent_reports import reach_limit
from tests.support.oracle import (
    CronExpectation,
    all_beats,
    all_runs,
    check_cron,
    check_hours,
    check_reasons,
    check_runs,
)

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.hint import Hint
from herdbeat.domain.planned_pause import find_window
from herdbeat.domain.policies import (
    AUTOMATIC_SPREAD,
    ActiveHours,
    Budget,
    Catchup,
    OnInterrupt,
    Overlap,
    Policies,
    Retry,
)
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.selection import Selection
from herdbeat.domain.target import AgentSpec, CallableSpec, Target
from herdbeat.domain.trigger import Trigger
from herdbeat.governor import Pause
from herdbeat.scheduler import control
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.backfill import BackfillWindow, enqueue_backfill, iterate_instants
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, claim_due
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import retry_run
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.scheduler.planned_pauses import cancel_pause, plan_pause
from herdbeat.scheduler.repair.consistency import inspect
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.location import StoreHandle, open_audit, open_reader
from herdbeat.store.reader import Filter, Reader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

UTC_ZONE = ZoneInfo("UTC")
START = datetime(2026, 3, 2, 3, 0, 10, tzinfo=UTC)
IDENTITY = NodeInfo(host="here", pid=1, version="test")
CRONS = {"report/hourly": "0 * * * *", "report/often": "*/10 * * * *", "other/cron": "*/7 * * * *"}

AGENTS = ("other", "pace")
AGENT = AgentSpec(runtime="claude", working_directory=".", account="team")

MOST_TURNS = 60
"""Until nothing is due any more. More of them would never end."""

HOURS = ActiveHours(opens=time(2, 30), closes=time(20), zone=UTC_ZONE)
CHOSEN: dict[str, dict[str, Any]] = {
    "report/often": {"active_hours": HOURS},
    "other/cron": {"budget": Budget(runs_per_day=6, tokens_per_day=500)},
    "pace/five": {"active_hours": HOURS, "pause_after_failures": 3, "jitter": AUTOMATIC_SPREAD},
}

waits = st.sampled_from([1, 20, 59, 60, 61, 300, 601, 3_599, 3_600, 7_201, 90_000]).map(lambda s: timedelta(seconds=s))
endings = st.sampled_from(
    [RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED, RunStatus.SKIPPED]
)
labels = st.sampled_from([*CRONS, "pace/five"])


class LedgerMachine(RuleBasedStateMachine):
    """One node after the other on one store, driven transaction by transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.held: list[Claim] = []
        self.started: list[tuple[str, str, int]] = []
        self.run_ids: list[int] = []
        self.policies = Policies(zone=UTC_ZONE, timeout=timedelta(hours=1), catchup=Catchup.SKIP)
        self.since = dict.fromkeys(CRONS, START)
        self.store = self.open_store()
        self.join()
        self.apply()

    def open_store(self) -> StoreHandle:
        self.folder = Path(tempfile.mkdtemp())
        store = SqliteStore(self.folder / "ledger.db", synchronous="OFF")
        store.open()
        return store

    def join(self) -> None:
        joined = self.store.write_now(lambda tx: register_node(tx, self.now, IDENTITY))
        self.node = ClaimContext(joined.node_id, 100, CatchupPacer(10), joined.gaps)

    def apply(self) -> None:
        fleet = Fleet(
            name="machine",
            zone=UTC_ZONE,
            targets=(
                Target(name="report", spec=CallableSpec(call="m:f")),
                *(Target(name=name, spec=AGENT) for name in AGENTS),
            ),
            schedules=(
                *(self.schedule(label, Cron.parse(text, UTC_ZONE)) for label, text in CRONS.items()),
                self.schedule("pace/five", Interval(timedelta(minutes=5))),
            ),
            store="",
            server=ServerSettings(),
        )
        self.store.write_now(lambda tx: apply_fleet(tx, fleet, self.now))

    def schedule(self, label: str, trigger: Trigger) -> Schedule:
        target, _, name = label.partition("/")
        policies = replace(self.policies, **CHOSEN.get(label, {}))
        return Schedule(target=target, name=name, trigger=trigger, policies=policies)

    @rule(by=waits)
    def time_passes(self, by: timedelta) -> None:
        self.now += by

    @rule()
    def turn(self) -> None:
        self.turn_once()

    def turn_once(self) -> datetime | None:
        """When the loop would look again."""
        claimed = self.store.write_now(lambda tx: claim_due(tx, self.now, self.node))
        self.keep(claimed.claims)
        return claimed.wake_at

    def keep(self, claims: list[Claim]) -> None:
        self.held += claims
        self.started += [(each.label, each.dedup_id, each.attempt) for each in claims]
        self.run_ids += [each.run_id for each in claims]

    @precondition(lambda self: self.held)
    @rule(place=st.integers(0, 50), status=endings)
    def run_ends(self, place: int, status: RunStatus) -> None:
        ended = self.held.pop(place % len(self.held))
        outcome = Outcome(
            status=status,
            error="told to" if status.is_failure else "",
            skip="precheck" if status is RunStatus.SKIPPED else "",
            usage={"tokens": 90},
        )
        done = FinishedRun(ended.run_id, self.now, outcome)
        finished = self.store.write_now(lambda tx: complete_runs(tx, self.now, [done]))
        assert not finished.lost

    @precondition(lambda self: any(each.label.partition("/")[0] in AGENTS for each in self.held))
    @rule(place=st.integers(0, 50), reset=st.none() | waits, tool_called=st.booleans())
    def run_is_refused(self, place: int, reset: timedelta | None, tool_called: bool) -> None:
        """A usage limit: two agents share the account, and both wait."""
        agents = [each for each in self.held if each.label.partition("/")[0] in AGENTS]
        refused = agents[place % len(agents)]
        self.held.remove(refused)
        outcome = reach_limit(None if reset is None else self.now + reset, tool_called=tool_called)
        done = FinishedRun(refused.run_id, self.now, outcome)
        assert not self.store.write_now(lambda tx: complete_runs(tx, self.now, [done])).lost

    @rule()
    def release_account(self) -> None:
        self.store.write_now(lambda tx: tx.hold_release("team", by="human:you", now=self.now))

    @precondition(lambda self: self.held)
    @rule()
    def all_runs_end(self) -> None:
        done = [FinishedRun(each.run_id, self.now, Outcome(status=RunStatus.SUCCEEDED)) for each in self.held]
        self.held = []
        self.store.write_now(lambda tx: complete_runs(tx, self.now, done))

    @rule(down=waits)
    def crash_and_return(self, down: timedelta) -> None:
        """kill -9: nothing is said, and another node comes later."""
        lost, self.held = self.held, []
        self.now += down
        self.join()
        late = [FinishedRun(each.run_id, self.now, Outcome(status=RunStatus.SUCCEEDED)) for each in lost]
        finished = self.store.write_now(lambda tx: complete_runs(tx, self.now, late))
        assert sorted(finished.lost) == sorted(each.run_id for each in lost)  # a dead node changes nothing

    @rule(
        overlap=st.sampled_from(Overlap),
        catchup=st.sampled_from(Catchup),
        attempts=st.integers(1, 3),
        on_interrupt=st.sampled_from(OnInterrupt),
    )
    def edit(self, overlap: Overlap, catchup: Catchup, attempts: int, on_interrupt: OnInterrupt) -> None:
        self.change(overlap, catchup, attempts, on_interrupt)

    def change(self, overlap: Overlap, catchup: Catchup, attempts: int, on_interrupt: OnInterrupt) -> None:
        changed = replace(
            self.policies,
            overlap=overlap,
            catchup=catchup,
            retry=Retry(attempts=attempts, wait=timedelta(minutes=1)),
            on_interrupt=on_interrupt,
        )
        if changed == self.policies:
            return
        self.turn()  # what is due already belongs to the plan that made it due
        self.policies = changed
        self.apply()

    @rule(label=st.sampled_from([*CRONS, "pace/five"]), lasts=st.none() | waits)
    def pause(self, label: str, lasts: timedelta | None) -> None:
        hold = Pause(until=None if lasts is None else self.now + lasts, by="human:you")
        self.store.write_now(lambda tx: control.pause(tx, self.now, self.number(tx, label), hold))

    @rule(label=st.sampled_from([*CRONS, "pace/five"]))
    def resume(self, label: str) -> None:
        self.store.write_now(lambda tx: control.resume(tx, self.now, self.number(tx, label)))

    @rule(names=st.sets(labels, min_size=1), begins=waits, lasts=waits)
    def plan_pause(self, names: set[str], begins: timedelta, lasts: timedelta) -> None:
        from_at = self.now + begins
        selection = Selection(names=tuple(sorted(names)))
        self.store.write_now(
            lambda tx: plan_pause(
                tx, self.now, selection, from_at=from_at, until=from_at + lasts, by="human:you", reason="maintenance"
            )
        )

    @rule(place=st.integers(0, 5))
    def cancel_planned_pause(self, place: int) -> None:
        def cancel(tx: Transaction) -> None:
            if planned := tx.planned_pauses(self.now):
                cancel_pause(tx, self.now, planned[place % len(planned)], "human:you")

        self.store.write_now(cancel)

    @rule(label=st.sampled_from([*CRONS, "pace/five"]))
    def disable(self, label: str) -> None:
        self.store.write_now(lambda tx: control.disable(tx, self.now, self.number(tx, label), "human:you"))

    @rule(label=st.sampled_from([*CRONS, "pace/five"]))
    def enable(self, label: str) -> None:
        self.store.write_now(lambda tx: control.enable(tx, self.now, self.number(tx, label)))

    @rule(every=waits, lasts=waits, origin=st.sampled_from(["human:you", "rule:surge", "planner"]))
    def hint(self, every: timedelta, lasts: timedelta, origin: str) -> None:
        """On the interval only: a pace on a calendar makes other instants due, and the oracle counts the calendar's."""
        wish = Hint(origin=origin, every=every, expires_at=self.now + lasts, created_at=self.now)
        self.store.write_now(lambda tx: control.give_hint(tx, self.now, self.number(tx, "pace/five"), wish))

    @rule(label=st.sampled_from(["report/hourly", "other/cron"]), wait=waits, fraction=st.sampled_from([0, 0.4, 0.7]))
    def one_shot(self, label: str, wait: timedelta, fraction: float) -> None:
        """Often in a second that has a beat of the calendar, and often among instants that are late together."""
        at = self.now.replace(second=0) + wait + timedelta(seconds=fraction)
        wish = Hint(origin="human:you", at=max(at, self.now), expires_at=at + timedelta(days=2), created_at=self.now)
        self.store.write_now(lambda tx: control.give_hint(tx, self.now, self.number(tx, label), wish))

    @rule()
    def clear_hints(self) -> None:
        self.store.write_now(lambda tx: control.clear_hints(tx, self.now, self.number(tx, "pace/five"), "human:you"))

    @rule(label=labels, count=st.integers(0, 3))
    def skip(self, label: str, count: int) -> None:
        self.store.write_now(lambda tx: control.set_skip_next(tx, self.number(tx, label), count, by="human:you"))

    @rule(label=labels)
    def call_off(self, label: str) -> None:
        self.store.write_now(lambda tx: cancel_pending(tx, self.now, [self.number(tx, label)]))

    @precondition(lambda self: self.started)
    @rule(place=st.integers(1, 50), force=st.booleans())
    def run_again(self, place: int, force: bool) -> None:
        run_id = self.run_ids[place % len(self.run_ids)]
        self.store.write_now(lambda tx: retry_run(tx, self.now, run_id, by="human:you", force=force))

    @rule(label=st.sampled_from(list(CRONS)), back=waits)
    def backfill(self, label: str, back: timedelta) -> None:
        def fill(tx: Transaction) -> None:
            standing = tx.schedules([number := self.number(tx, label)])[number]
            instants = islice(iterate_instants(standing.plan, BackfillWindow(start=self.now - back, end=self.now)), 5)
            enqueue_backfill(tx, self.now, number, tuple(instants), origin="human:you", rate=10)

        self.store.write_now(fill)

    @rule(label=labels)
    def reset(self, label: str) -> None:
        self.store.write_now(lambda tx: control.reset(tx, self.now, self.number(tx, label)))

    def number(self, tx: Transaction, label: str) -> int:
        target, _, name = label.partition("/")
        target_id, _ = tx.targets()[target]
        return tx.schedule_list_by_target([target_id])[target_id, name][0]

    def settled(self, label: str) -> datetime:
        """A held schedule is accounted for when it is released; until then, up to its last settled instant."""
        standing = self.store.write_now(lambda tx: tx.schedules([number := self.number(tx, label)])[number])
        is_paused = standing.pause is not None and standing.pause.is_active(self.now)
        is_held = not standing.enabled or is_paused or find_window(standing.windows, self.now) is not None
        if not is_held and standing.plan.policies.active_hours is not None:
            # What is passed over is accounted for when it is over: until then, none of it may lie inside.
            open_since = CronExpectation(label, CRONS[label], standing.settled_until, self.now).instants()
            assert not any(HOURS.contains(instant) for instant in open_since)
            return standing.settled_until
        return standing.settled_until if is_held else self.now

    def turns(self) -> None:
        """Until nothing is due: the end of a pause is one cycle, and what came due after it another."""
        for _ in range(MOST_TURNS):
            wake_at = self.turn_once()
            if wake_at is None or wake_at > self.now:
                return
        raise AssertionError("something is due, and no turn takes it")

    @invariant()
    def every_instant_is_accounted_for(self) -> None:
        self.check_all()

    def check_all(self) -> None:
        self.turns()
        reader = open_reader(self.store.location)
        try:
            for label, expression in CRONS.items():
                check_cron(reader, CronExpectation(label, expression, self.since[label], self.settled(label)))
                check_reasons(reader, label)
            check_hours(reader, "report/often", HOURS)
            check_runs(reader)
            self._nothing_is_stuck(reader)
        finally:
            reader.close()

    @invariant()
    def the_scan_has_nothing_to_mend(self) -> None:
        audit = open_audit(self.store.location)
        suspects = audit.find_inconsistencies(self.now)
        assert audit.read_transaction(lambda tx: inspect(tx, self.now, suspects)).findings == []

    def _nothing_is_stuck(self, reader: Reader) -> None:
        held = {each.run_id for each in self.held}
        assert {run.id for run in all_runs(reader) if run.status is RunStatus.RUNNING} == held
        for record in reader.schedules(Filter(limit=100)):
            running = sum(each.label == f"{record.target}/{record.name}" for each in self.held)
            assert record.running == running
            is_at_it = (
                record.disabled_by
                or record.paused
                or record.running
                or record.waiting
                or any(beat.outcome == "pending" for beat in all_beats(reader, record.label))
            )
            assert is_at_it or record.next_run_at is not None, f"{record.label} is stuck"
        assert len(set(self.started)) == len(self.started), "the same attempt was started twice"

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


LedgerMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLedger = LedgerMachine.TestCase


def test_a_long_queue_that_meets_a_usage_limit_is_looked_at_in_a_few_cycles() -> None:
    machine = LedgerMachine()
    try:
        machine.turns()
        machine.all_runs_end()
        machine.edit(Overlap.ALLOW, Catchup.SKIP, attempts=1, on_interrupt=OnInterrupt.SKIP)
        machine.time_passes(timedelta(hours=25))  # more than a hundred instants of other/cron wait behind the first
        machine.turns()
        place = [each.label for each in machine.held if each.label != "report/often"].index("other/cron")
        machine.run_is_refused(place, reset=timedelta(minutes=10), tool_called=False)

        cycles = 1
        while (wake_at := machine.turn_once()) is not None and wake_at <= machine.now:
            cycles += 1

        assert cycles < 10
        reader = open_reader(machine.store.location)
        waiting = [beat.reason for beat in all_beats(reader, "other/cron") if beat.settled_at is None]
        reader.close()
        assert set(waiting) == {SkipReason.RATE_LIMITED}
        assert len(waiting) > 60
    finally:
        machine.teardown()


def test_an_interval_goes_on_when_a_retry_by_hand_is_cancelled_after_an_edit() -> None:
    machine = LedgerMachine()
    try:
        machine.turns()
        machine.run_is_refused(place=0, reset=timedelta(hours=1), tool_called=False)
        machine.call_off("pace/five")
        machine.run_again(place=1, force=False)
        machine.turns()  # the retry waits for the account
        machine.edit(Overlap.QUEUE, Catchup.ONCE, attempts=2, on_interrupt=OnInterrupt.SKIP)

        machine.call_off("pace/five")

        machine.check_all()
    finally:
        machine.teardown()
