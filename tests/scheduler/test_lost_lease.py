"""A node that has lost its lease: it starts nothing more, and its results are dropped."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.errors import ClaimLost
from herdbeat.scheduler.complete import CompletionResult, RunCompleter
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY, ScriptedRunner, open_herd

T = TypeVar("T")


class Refusing:
    """A store in which another node has given us up."""

    async def write(self, work: Callable[[Transaction], T]) -> T:
        raise ClaimLost("Node 7 has lost its lease.")


async def never(claim: Claim) -> FinishedRun:
    raise AssertionError(f"{claim} was started without a lease")


async def test_a_refused_claim_sets_the_lease_as_lost() -> None:
    loop = Loop(NodeParts(Refusing(), FakeClock(MONDAY), never), NodeSettings(node_id=7))

    async with asyncio.TaskGroup() as tasks:
        claimed = await loop.run_cycle(tasks)

    assert claimed.claims == []
    assert loop.lease_lost.is_set()


async def test_refused_results_are_dropped_and_the_queue_is_drained() -> None:
    lost: list[str] = []
    clock = FakeClock(MONDAY)
    recorder = RunCompleter(Refusing(), clock, clock.now, _unheard, lambda: lost.append("lost"))
    recorder.add(FinishedRun(1, MONDAY, Outcome(status=RunStatus.SUCCEEDED)))

    writing = asyncio.create_task(recorder.run())
    await recorder.wait_drained()
    writing.cancel()

    assert lost == ["lost"]
    assert recorder.unwritten == 0


def _unheard(finished: CompletionResult) -> None:
    raise AssertionError(f"{finished} was refused")


async def test_what_was_claimed_before_the_lease_was_over_is_not_started_after(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("worker", every="5m")
        herd.next_run("worker")  # writes it down
        loop = Loop(NodeParts(herd.store, herd.clock, never), NodeSettings(node_id=1), can_start=lambda: False)

        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(loop.completer.run())
            claimed = await loop.run_cycle(tasks)
            await asyncio.sleep(0)
            await loop.completer.wait_drained()
            writing.cancel()

        assert len(claimed.claims) == 1
        assert herd.outcomes("worker") == [("ran", "", 1)]  # interrupted: nobody's failure
        assert herd.snapshot("worker").failures == 0


async def test_a_node_among_others_that_has_slept_makes_no_gap_of_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        settings = NodeSettings(node_id=1, is_single_node=False)
        loop = Loop(NodeParts(herd.store, herd.clock, never), settings)

        herd.clock.suspend(timedelta(hours=1))
        async with asyncio.TaskGroup() as tasks:
            await loop.run_cycle(tasks)

        assert herd.store.write_now(lambda tx: tx.gaps(MONDAY)) == []


async def test_the_time_in_which_a_node_was_full_is_no_part_of_a_gap(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("worker", every="5m", runner=runner)
        loop = Loop(NodeParts(herd.store, herd.clock, herd._perform), NodeSettings(node_id=1, max_concurrent=1))
        herd.next_run("worker")  # writes it down
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(loop.completer.run())
            await loop.run_cycle(tasks)
            herd.clock.advance(timedelta(hours=1))
            await loop.run_cycle(tasks)  # full
            herd.clock.suspend(timedelta(minutes=10))
            await loop.run_cycle(tasks)
            runner.let_go()
            await asyncio.wait([each.task for each in loop.active_runs.values()])
            await loop.completer.wait_drained()
            await loop.run_cycle(tasks)
            await loop.completer.wait_drained()
            for each in loop.active_runs.values():
                each.task.cancel()
            writing.cancel()

        (gap,) = herd.store.write_now(lambda tx: tx.gaps(MONDAY))
        assert gap.until - gap.from_at == timedelta(minutes=10)
