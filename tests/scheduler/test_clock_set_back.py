"""A clock that is set back: what had started stays, everything else is in the future again and has no outcome."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.policies import Bounds, Overlap, Retry
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.scheduler.claim import move_clock_back
from herdbeat.scheduler.instants import due_since, without_recorded
from herdbeat.scheduler.loop import NodeParts, NodeSettings
from herdbeat.scheduler.membership import NodeInfo
from herdbeat.scheduler.node import Node
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers.cron import Cron

T = TypeVar("T")

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EVERY_MINUTE = "* * * * *"


def covered(herd: SimulatedHerd, label: str) -> Counter[datetime]:
    """How many rows cover each minute."""
    found: Counter[datetime] = Counter()
    for beat in herd.beats(label):
        minutes = [beat.due_at + each * MINUTE for each in range((beat.last_due_at - beat.due_at) // MINUTE + 1)]
        assert len(minutes) == beat.count, beat
        found.update(minutes)
    return found


def assert_each_minute_once(herd: SimulatedHerd, label: str, since: datetime, until: datetime) -> None:
    minutes = [since + each * MINUTE for each in range(1, (until - since) // MINUTE + 1)]
    assert covered(herd, label) == Counter(minutes)


async def test_an_instant_that_ran_is_not_missed_when_the_clock_jumps_over_it_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_MINUTE, runner=runner)
        await herd.advance(30 * MINUTE)

        for _ in range(3):
            herd.clock.jump(-20 * MINUTE)
            await herd.advance(5 * MINUTE)
            herd.clock.jump(20 * MINUTE)
            await herd.tick()
        await herd.advance(5 * MINUTE)

        assert_each_minute_once(herd, "report", MONDAY, herd.now)
        assert len({claim.due_at for claim in runner.runs}) == len(runner.runs)


async def test_a_missed_instant_that_comes_again_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_MINUTE, runner=runner)
        await herd.advance(MINUTE)
        herd.clock.jump(3 * DAY)
        await herd.tick()
        herd.clock.jump(-3 * DAY)
        await herd.tick()

        await herd.advance(30 * MINUTE)

        assert sum(claim.due_at <= herd.now for claim in runner.runs) == 31
        assert max(covered(herd, "report").values()) == 1
        ahead = [beat for beat in herd.beats("report") if beat.due_at > herd.now]
        assert all(beat.outcome == "ran" for beat in ahead)


async def test_a_row_of_skips_does_not_grow_over_an_instant_that_ran(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_MINUTE, runner=runner)
        await herd.advance(5 * MINUTE)
        herd.pause("report")
        await herd.advance(5 * MINUTE)
        herd.resume("report")
        await herd.advance(5 * MINUTE)
        herd.clock.jump(-12 * MINUTE)
        await herd.tick()

        herd.pause("report")
        await herd.advance(20 * MINUTE)
        herd.resume("report")

        assert_each_minute_once(herd, "report", MONDAY, herd.now)


async def test_a_clock_that_goes_on_before_the_next_turn_loses_no_instant(tmp_path: Path) -> None:
    """A node may lose its lease, or be full, between the step back and the next evaluation."""
    async with open_herd(tmp_path) as herd:
        herd.schedule("report", cron=EVERY_MINUTE)
        await herd.advance(5 * MINUTE)
        herd.pause("report")
        herd.clock.advance(10 * MINUTE)
        herd.resume("report")
        herd.store.write_now(lambda tx: move_clock_back(tx, herd.now - 8 * MINUTE, 8 * MINUTE))

        await herd.tick()
        await herd.advance(5 * MINUTE)

        assert_each_minute_once(herd, "report", MONDAY, herd.now)


async def test_a_run_that_ends_while_the_clock_is_back_for_a_moment_settles_nothing_twice(tmp_path: Path) -> None:
    """No cycle sees the clock before it is right again. A completion that did once moved the mark back with it."""
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron=EVERY_MINUTE, runner=runner, overlap=Overlap.QUEUE)
        await herd.advance(2 * MINUTE)
        herd.clock.jump(40 * MINUTE)  # one row of missed instants
        await herd.tick()

        herd.clock.jump(-30 * MINUTE)
        runner.let_go()
        await herd.settle()
        herd.clock.jump(30 * MINUTE)
        await herd.advance(3 * MINUTE)

        assert_each_minute_once(herd, "report", MONDAY, herd.now)


async def test_a_run_that_ends_before_the_next_turn_loses_no_instant(tmp_path: Path) -> None:
    """Its completion must not decide the schedule in between."""
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron=EVERY_MINUTE, runner=runner)
        await herd.advance(10 * MINUTE)  # the first runs, the others are skipped
        herd.store.write_now(lambda tx: move_clock_back(tx, herd.now - 8 * MINUTE, 8 * MINUTE))

        runner.let_go()
        await herd.settle()
        await herd.advance(5 * MINUTE)

        assert_each_minute_once(herd, "report", MONDAY, herd.now)


async def test_a_schedule_that_runs_while_the_clock_is_set_back_continues(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron=EVERY_MINUTE, runner=runner, overlap=Overlap.ALLOW, max_concurrent=100)
        await herd.advance(HOUR)

        herd.clock.jump(-DAY)
        await herd.advance(10 * MINUTE)
        runner.let_go()
        await herd.advance(MINUTE)

        assert sum(claim.due_at < MONDAY for claim in runner.runs) >= 10


async def test_a_retry_does_not_wait_for_the_hours_that_a_clock_was_set_back(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("report", every="6h", runner=runner, retry=Retry(attempts=2, wait=10 * MINUTE))
        await herd.tick()
        assert len(runner.runs) == 1

        herd.clock.jump(-HOUR)
        await herd.advance(11 * MINUTE)

        assert [claim.attempt for claim in runner.runs] == [1, 2]


async def test_a_one_shot_that_was_missed_fires_when_its_time_comes_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", at="2026-03-02T05:00:00Z", runner=runner, max_late=MINUTE)
        await herd.tick()
        herd.clock.jump(DAY)
        await herd.tick()
        assert herd.outcomes("report") == [("missed", "too_late", 1)]

        herd.clock.jump(-DAY)
        await herd.advance(3 * HOUR)

        assert herd.outcomes("report") == [("ran", "", 1)]
        assert len(runner.runs) == 1


async def test_a_schedule_past_its_end_comes_back_with_the_clock(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", every="10m", runner=runner, bounds=Bounds(ends_at=MONDAY + DAY))
        await herd.tick()
        herd.clock.jump(2 * DAY)
        await herd.tick()
        runs = len(runner.runs)

        herd.clock.jump(-2 * DAY)
        await herd.advance(HOUR)

        assert len(runner.runs) >= runs + 5


async def test_a_clock_that_jumps_before_the_first_turn_of_a_node_is_a_gap(tmp_path: Path) -> None:
    clock = FakeClock(MONDAY)

    class JumpAfterRegistration:
        """A store that sets the clock as soon as the node is registered."""

        has_jumped = False

        async def write(self, work: Callable[[Transaction], T]) -> T:
            result = await store.write(work)
            if not self.has_jumped:
                self.has_jumped = True
                clock.jump(3_650 * DAY)
            return result

    async def execute_run(claim: Claim) -> FinishedRun:
        node.stop(DAY)
        return FinishedRun(claim.run_id, None, Outcome(status=RunStatus.SUCCEEDED))

    async with open_herd(tmp_path) as herd:
        herd.schedule("report", cron=EVERY_MINUTE)
        herd.snapshot("report")  # writes the fleet to the ledger
    store = SqliteStore(tmp_path / "herdbeat.db", synchronous="OFF")
    store.open()
    try:
        parts = NodeParts(JumpAfterRegistration(), clock, execute_run)
        node = Node(parts, NodeSettings(node_id=0), NodeInfo(host="here", pid=1, version="0"))
        await node.serve()
    finally:
        store.close()

    with closing(SqliteReader(tmp_path / "herdbeat.db")) as reader:
        missed, ran = reader.beats(Filter())[::-1]
    assert (missed.outcome, missed.reason, missed.count) == ("missed", "clock_jumped", 3_650 * 24 * 60 - 1)
    assert (ran.outcome, ran.due_at) == ("ran", MONDAY + 3_650 * DAY)


@given(st.sets(st.integers(0, 59)), st.integers(0, 59), st.integers(0, 59))
def test_what_is_left_without_recorded_instants_is_exact(minutes: set[int], first: int, last: int) -> None:
    trigger = Cron.parse("*/2 * * * *", ZoneInfo("UTC"))
    start, end = sorted((MONDAY + first * MINUTE, MONDAY + last * MINUTE))
    instants = due_since(trigger, trigger.next_time(None, start - timedelta(seconds=1)) or start, end)
    recorded = [(MONDAY + each * MINUTE, MONDAY + each * MINUTE) for each in sorted(minutes)]

    left = without_recorded(trigger, instants, recorded)

    expected = [
        each
        for each in (MONDAY + number * MINUTE for number in range(0, 120, 2))
        if instants.first <= each <= instants.last and (each, each) not in recorded
    ]
    step = 2 * MINUTE
    found = [each.first + place * step for each in left for place in range((each.last - each.first) // step + 1)]
    assert found == expected
    assert sum(each.count for each in left) == len(expected)


async def test_the_id_of_a_withdrawn_beat_is_not_given_to_another(tmp_path: Path) -> None:
    """The newest row was deleted, and after a restart the next beat had its id."""
    async with open_herd(tmp_path) as herd:
        herd.schedule("worker", cron=EVERY_MINUTE)
        await herd.tick()
        herd.pause("worker")
        await herd.advance(HOUR)
        herd.resume("worker")
        withdrawn = herd.beats("worker")[-1]
        herd.clock.jump(-DAY)
        await herd.tick()
        remaining = [beat.id for beat in herd.beats("worker")]

    async with open_herd(tmp_path, MONDAY - DAY + 2 * HOUR) as herd:
        herd.schedule("worker", cron=EVERY_MINUTE)
        await herd.advance(2 * MINUTE)
        ids = [beat.id for beat in herd.beats("worker")]

    assert withdrawn.id not in remaining
    assert min(set(ids).difference(remaining)) > withdrawn.id
