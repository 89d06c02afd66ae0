"""Nodes and users on one ledger at the same time, each as fast as it can. The oracle checks the result."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.support.oracle import CronExpectation, all_runs, check_cron, check_reasons, check_runs
from tests.support.postgres_nodes import ManualNode, open_nodes, set_clock

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Catchup, Overlap, Policies, Retry
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import UsageError
from herdbeat.governor import Pause
from herdbeat.scheduler import control
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import enqueue_manual, retry_run
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.scheduler.repair.consistency import inspect
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.location import PostgresLocation, open_audit, open_reader
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

ZONE = ZoneInfo("UTC")
START = datetime(2026, 3, 2, 3, 0, 10, tzinfo=UTC)
EVERY_MINUTE = "* * * * *"
STEP = timedelta(seconds=25)  # shorter than the lease, which is renewed after each
MAX_CONCURRENT_RUNS = 2
OPERATIONS_PER_ROUND = 6
"""Commands of each node and user per round."""

OVERLAPS = (Overlap.SKIP, Overlap.QUEUE, Overlap.QUEUE_ALL, Overlap.ALLOW)
RUN_STATUSES = (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
HUMAN_ACTOR = "human:you"


class ConcurrentLoad:
    """Nodes and as many users. With the same seed, each of them issues the same commands in the same order."""

    def __init__(self, place: PostgresLocation, crew: list[ManualNode], people: list[ManualNode], seed: int) -> None:
        self.place, self.nodes, self.users = place, crew, people
        self.now = START
        self.held: dict[int, list[Claim]] = {node.joined.node_id: [] for node in crew}
        self.started: list[Claim] = []
        self.random_sources = {
            id(each): random.Random(f"{seed} {place}") for place, each in enumerate([*crew, *people])
        }
        self.crons = [f"{target}/{name}" for target in target_names() for name in ("cron", "beside")]
        self.numbers = people[0].store.write_now(_list_schedule_ids)

    def run_rounds(self, rounds: int) -> None:
        with ThreadPoolExecutor(len(self.nodes) + len(self.users)) as pool:
            for _ in range(rounds):
                self._advance_time()
                busy = [pool.submit(self._work, node) for node in self.nodes]
                busy += [pool.submit(self._change_at_random, person) for person in self.users]
                for each in busy:
                    each.result()
                self._check_capacity()

    def drain(self) -> None:
        """Stop all users, and claim everything that is due."""
        for number in self.numbers:
            self.users[0].store.write_now(lambda tx, number=number: control.resume(tx, self.now, number))  # type: ignore[misc]
        for _ in range(50):
            turns = [self._claim(node) for node in self.nodes]
            if all(wake_at is None or wake_at > self.now for wake_at in turns):
                return
        raise AssertionError("something is due, and no turn takes it")

    def check(self) -> None:
        with closing(open_reader(self.place)) as reader:
            for label in self.crons:
                check_cron(reader, CronExpectation(label, EVERY_MINUTE, START, self.now))
                check_reasons(reader, label)
            check_runs(reader)
            running = {run.id for run in all_runs(reader) if run.status is RunStatus.RUNNING}
        assert running == {each.run_id for claims in self.held.values() for each in claims}
        attempts = Counter((each.beat_id, each.attempt) for each in self.started)
        assert set(attempts.values()) <= {1}
        audit = open_audit(self.place)
        suspects = audit.find_inconsistencies(self.now)
        assert audit.read_transaction(lambda tx: inspect(tx, self.now, suspects)).findings == []

    def _advance_time(self) -> None:
        self.now += STEP
        set_clock(self.place, self.now)
        for node in self.nodes:
            node.store.write_now(lambda tx, node=node: tx.renew_node(node.joined.node_id, self.now))  # type: ignore[misc]

    def _work(self, node: ManualNode) -> None:
        chance = self.random_sources[id(node)]
        for _ in range(OPERATIONS_PER_ROUND):
            self._claim(node)
            mine = self.held[node.joined.node_id]
            self._finish(node, [mine.pop(chance.randrange(len(mine))) for _ in range(chance.randint(0, len(mine)))])

    def _claim(self, node: ManualNode) -> datetime | None:
        claimed = node.claim(self.now)
        self.held[node.joined.node_id] += claimed.claims
        self.started += claimed.claims
        return claimed.wake_at

    def _finish(self, node: ManualNode, ended: list[Claim]) -> None:
        chance = self.random_sources[id(node)]
        done = [
            FinishedRun(each.run_id, self.now, Outcome(status=chance.choice(RUN_STATUSES), error="told to"))
            for each in ended
        ]
        assert node.store.write_now(lambda tx: complete_runs(tx, self.now, done)).lost == []

    def _change_at_random(self, person: ManualNode) -> None:
        chance = self.random_sources[id(person)]
        for _ in range(OPERATIONS_PER_ROUND):
            act, number = chance.choice(RANDOM_CHANGES), chance.choice(self.numbers)
            run = chance.choice(self.started).run_id if self.started else 0
            with suppress(UsageError):  # too many hints at once
                person.store.write_now(lambda tx, act=act, number=number, run=run: act(tx, self.now, number, run))  # type: ignore[misc]

    def _check_capacity(self) -> None:
        running = Counter(each.target_id for claims in self.held.values() for each in claims)
        assert all(number <= MAX_CONCURRENT_RUNS for number in running.values()), (
            f"more than there is room for: {running}"
        )


RandomChange = Callable[[Transaction, datetime, int, int], object]


def _pause_schedule(tx: Transaction, now: datetime, number: int, run: int) -> None:
    tx.schedules([number])  # as every adapter does: it reads the state before it changes it
    control.pause(tx, now, number, Pause(until=now + 2 * STEP, by=HUMAN_ACTOR))


def _hint_schedule(tx: Transaction, now: datetime, number: int, run: int) -> None:
    """Hint interval schedules only: on a cron schedule a hint makes instants due that the oracle does not know."""
    if tx.schedules([number])[number].plan.trigger.interval is not None:
        wish = Hint(origin=HUMAN_ACTOR, every=STEP / 5, expires_at=now + 2 * STEP, created_at=now)
        control.give_hint(tx, now, number, wish)


RANDOM_CHANGES: tuple[RandomChange, ...] = (
    lambda tx, now, number, run: cancel_pending(tx, now, [number]),
    lambda tx, now, number, run: control.resume(tx, now, number),
    lambda tx, now, number, run: control.set_skip_next(tx, number, run % 3, by=HUMAN_ACTOR),
    lambda tx, now, number, run: enqueue_manual(
        tx, now, number, origin=HUMAN_ACTOR, event_id=f"{now}{run}", queue=bool(run % 2)
    ),
    lambda tx, now, number, run: retry_run(tx, now, run, by=HUMAN_ACTOR, force=True),
    _pause_schedule,
    _hint_schedule,
)


def target_names() -> list[str]:
    return [f"t{number}" for number in range(len(OVERLAPS))]


def build_contended_fleet() -> Fleet:
    """Build a fleet whose targets have less capacity than schedules, with different overlap policies."""
    named = zip(target_names(), OVERLAPS, strict=True)
    return Fleet(
        name="storm",
        zone=ZONE,
        targets=tuple(
            Target(name=each, spec=CallableSpec(call="m:f"), max_concurrent=MAX_CONCURRENT_RUNS)
            for each in target_names()
        ),
        schedules=tuple(schedule for target, overlap in named for schedule in _make_schedules(target, overlap)),
        store="",
        server=ServerSettings(),
    )


def _make_schedules(target: str, overlap: Overlap) -> list[Schedule]:
    policies = Policies(
        zone=ZONE,
        timeout=timedelta(hours=1),
        catchup=Catchup.ONCE,
        overlap=overlap,
        retry=Retry(attempts=2, wait=timedelta(seconds=20)),
    )
    cron = Cron.parse(EVERY_MINUTE, ZONE)
    triggers: dict[str, Trigger] = {"cron": cron, "beside": cron, "pace": Interval(timedelta(seconds=20))}
    return [Schedule(target=target, name=name, trigger=each, policies=policies) for name, each in triggers.items()]


def _list_schedule_ids(tx: Transaction) -> list[int]:
    return [number for number, _ in tx.schedule_list_by_target([each for each, _ in tx.targets().values()]).values()]


def run_concurrent_load(place: PostgresLocation, *, rounds: int, seed: int) -> int:
    """Run the load and return how many runs were started; fails if the oracle finds a fault."""
    set_clock(place, START)
    with open_nodes(place, 5) as everybody:
        crew, people = everybody[:3], everybody[3:]
        people[0].store.write_now(lambda tx: apply_fleet(tx, build_contended_fleet(), START))
        for node in crew:
            node.join(START)
        storm = ConcurrentLoad(place, crew, people, seed)
        storm.run_rounds(rounds)
        storm.drain()
        storm.check()
        return len(storm.started)
