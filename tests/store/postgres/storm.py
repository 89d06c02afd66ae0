"""Nodes and people at one ledger at the same time, each as fast as it can. What is left is read against the oracle."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.oracle import CronPromise, all_runs, check_cron, check_reasons, check_runs
from tests.store.postgres.nodes import Joining, nodes, set_clock

from herdbeat.domain.claim import Claim
from herdbeat.domain.fleet import Fleet, Server
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Catchup, Overlap, Policies, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import UsageError
from herdbeat.governor import Pause
from herdbeat.scheduler import control
from herdbeat.scheduler.arrange import arrange
from herdbeat.scheduler.call_off import call_off
from herdbeat.scheduler.finish import finish
from herdbeat.scheduler.fire import fire
from herdbeat.scheduler.retry import retry
from herdbeat.scheduler.scan import examine
from herdbeat.scheduler.skip import skip
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.opening import audit_at, reader_at
from herdbeat.store.places import PostgresPlace
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

ZONE = ZoneInfo("UTC")
START = datetime(2026, 3, 2, 3, 0, 10, tzinfo=UTC)
EVERY_MINUTE = "* * * * *"
STEP = timedelta(seconds=25)  # less than the lease, which is renewed after each
ROOM = 2
AT_ONCE = 6
"""Orders of each one in a round."""

OVERLAPS = (Overlap.SKIP, Overlap.QUEUE, Overlap.QUEUE_ALL, Overlap.ALLOW)
ENDINGS = (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
HUMAN = "human:you"


class Storm:
    """So many nodes and as many people. The same seed has everybody want the same things, in the same order each."""

    def __init__(self, place: PostgresPlace, crew: list[Joining], people: list[Joining], seed: int) -> None:
        self.place, self.crew, self.people = place, crew, people
        self.now = START
        self.held: dict[int, list[Claim]] = {node.joined.node_id: [] for node in crew}
        self.started: list[Claim] = []
        self.chances = {id(each): random.Random(f"{seed} {place}") for place, each in enumerate([*crew, *people])}
        self.crons = [f"{target}/{name}" for target in targets() for name in ("cron", "beside")]
        self.numbers = people[0].store.write_now(_numbers)

    def rage(self, rounds: int) -> None:
        with ThreadPoolExecutor(len(self.crew) + len(self.people)) as pool:
            for _ in range(rounds):
                self._let_time_pass()
                busy = [pool.submit(self._work, node) for node in self.crew]
                busy += [pool.submit(self._meddle, person) for person in self.people]
                for each in busy:
                    each.result()
                self._check_room()

    def calm_down(self) -> None:
        """Nobody meddles any more, and everything that is due is taken."""
        for number in self.numbers:
            self.people[0].store.write_now(lambda tx, number=number: control.resume(tx, self.now, number))  # type: ignore[misc]
        for _ in range(50):
            turns = [self._claim(node) for node in self.crew]
            if all(wake_at is None or wake_at > self.now for wake_at in turns):
                return
        raise AssertionError("something is due, and no turn takes it")

    def check(self) -> None:
        with closing(reader_at(self.place)) as reader:
            for label in self.crons:
                check_cron(reader, CronPromise(label, EVERY_MINUTE, START, self.now))
                check_reasons(reader, label)
            check_runs(reader)
            running = {run.id for run in all_runs(reader) if run.status is RunStatus.RUNNING}
        assert running == {each.run_id for claims in self.held.values() for each in claims}
        attempts = Counter((each.beat_id, each.attempt) for each in self.started)
        assert set(attempts.values()) <= {1}
        audit = audit_at(self.place)
        suspects = audit.suspects(self.now)
        assert audit.peek(lambda tx: examine(tx, self.now, suspects)).findings == []

    def _let_time_pass(self) -> None:
        self.now += STEP
        set_clock(self.place, self.now)
        for node in self.crew:
            node.store.write_now(lambda tx, node=node: tx.renew_node(node.joined.node_id, self.now))  # type: ignore[misc]

    def _work(self, node: Joining) -> None:
        chance = self.chances[id(node)]
        for _ in range(AT_ONCE):
            self._claim(node)
            mine = self.held[node.joined.node_id]
            self._finish(node, [mine.pop(chance.randrange(len(mine))) for _ in range(chance.randint(0, len(mine)))])

    def _claim(self, node: Joining) -> datetime | None:
        claimed = node.claim(self.now)
        self.held[node.joined.node_id] += claimed.claims
        self.started += claimed.claims
        return claimed.wake_at

    def _finish(self, node: Joining, ended: list[Claim]) -> None:
        chance = self.chances[id(node)]
        done = [
            FinishedRun(each.run_id, self.now, Outcome(status=chance.choice(ENDINGS), error="told to"))
            for each in ended
        ]
        assert node.store.write_now(lambda tx: finish(tx, self.now, done)).lost == []

    def _meddle(self, person: Joining) -> None:
        chance = self.chances[id(person)]
        for _ in range(AT_ONCE):
            act, number = chance.choice(ACTS), chance.choice(self.numbers)
            run = chance.choice(self.started).run_id if self.started else 0
            with suppress(UsageError):  # a flood of hints
                person.store.write_now(lambda tx, act=act, number=number, run=run: act(tx, self.now, number, run))  # type: ignore[misc]

    def _check_room(self) -> None:
        running = Counter(each.target_id for claims in self.held.values() for each in claims)
        assert all(number <= ROOM for number in running.values()), f"more than there is room for: {running}"


Act = Callable[[Transaction, datetime, int, int], object]


def _pause(tx: Transaction, now: datetime, number: int, run: int) -> None:
    tx.schedules([number])  # as every face does: what it changes, it has looked at
    control.pause(tx, now, number, Pause(until=now + 2 * STEP, by=HUMAN))


def _hint(tx: Transaction, now: datetime, number: int, run: int) -> None:
    """On a pace only: on a calendar it makes other instants due, and the oracle counts the calendar's."""
    if tx.schedules([number])[number].plan.trigger.pace is not None:
        wish = Hint(origin=HUMAN, every=STEP / 5, expires_at=now + 2 * STEP, created_at=now)
        control.give_hint(tx, now, number, wish)


ACTS: tuple[Act, ...] = (
    lambda tx, now, number, run: call_off(tx, now, [number]),
    lambda tx, now, number, run: control.resume(tx, now, number),
    lambda tx, now, number, run: skip(tx, number, run % 3, by=HUMAN),
    lambda tx, now, number, run: fire(tx, now, number, origin=HUMAN, event_id=f"{now}{run}", queue=bool(run % 2)),
    lambda tx, now, number, run: retry(tx, now, run, by=HUMAN, force=True),
    _pause,
    _hint,
)


def targets() -> list[str]:
    return [f"t{number}" for number in range(len(OVERLAPS))]


def a_crowded_fleet() -> Fleet:
    """Each target has less room than it has schedules, and another way with those that run already."""
    named = zip(targets(), OVERLAPS, strict=True)
    return Fleet(
        name="storm",
        zone=ZONE,
        targets=tuple(Target(name=each, spec=CallableSpec(call="m:f"), max_concurrent=ROOM) for each in targets()),
        schedules=tuple(schedule for target, overlap in named for schedule in _schedules(target, overlap)),
        store="",
        server=Server(),
    )


def _schedules(target: str, overlap: Overlap) -> list[Schedule]:
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


def _numbers(tx: Transaction) -> list[int]:
    return [number for number, _ in tx.schedules_of([each for each, _ in tx.targets().values()]).values()]


def weather(place: PostgresPlace, *, rounds: int, seed: int) -> int:
    """How many runs were started before it was over, and nothing was wrong."""
    set_clock(place, START)
    with nodes(place, 5) as everybody:
        crew, people = everybody[:3], everybody[3:]
        people[0].store.write_now(lambda tx: arrange(tx, a_crowded_fleet(), START))
        for node in crew:
            node.join(START)
        storm = Storm(place, crew, people, seed)
        storm.rage(rounds)
        storm.calm_down()
        storm.check()
        return len(storm.started)
