"""Stopping single runs: on somebody's word, at any moment of their life."""

import asyncio
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.schedule_requests import list_runs

from herdbeat.domain.policies import Overlap, Retry
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.runners.base import mark_unstarted
from herdbeat.scheduler.evaluate import REPLACED_BY_NEXT
from herdbeat.store.base import FinishedRun
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


class Connecting(ScriptedRunner):
    """Fails so many times, then waits once for a connection that it never gets."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__(fails=fails)
        self.is_connecting = asyncio.Event()

    async def __call__(self, claim: Claim, clock: FakeClock) -> Outcome:
        if self.fails or self.is_connecting.is_set():
            return await super().__call__(claim, clock)
        self.is_connecting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            mark_unstarted(error, "its request was sent")
            raise
        raise AssertionError(claim)


def read_runs(herd: SimulatedHerd, target: str) -> list[RunRecord]:
    """Return its runs, oldest first."""
    with closing(SqliteReader(herd.store.path)) as reader:
        return reader.runs(Filter(target=target))[::-1]


async def test_a_run_cancelled_before_its_first_step_frees_its_slot(tmp_path: Path) -> None:
    """Its task never runs, so nothing in it can close the run: the slot would be taken for ever."""
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="5m", runner=runner)
        herd.snapshot("triage")
        claimed = await herd._loop.run_cycle(herd._tasks)

        is_here = herd._loop.cancel(claimed.claims[0].run_id, "at once")
        runner.let_go()
        await herd.advance(5 * MINUTE)

        assert is_here
        assert list_runs(herd, "triage") == [(1, "cancelled", "first-run"), (1, "succeeded", "baseline-interval")]
        assert len(runner.runs) == 1


@pytest.mark.parametrize(
    ("end", "recorded"),
    [
        ("cancel", (RunStatus.CANCELLED, "too slow, before its request was sent")),
        ("stop", (RunStatus.INTERRUPTED, "its node stopped before its request was sent")),
    ],
)
async def test_a_run_that_was_ended_before_its_request_looked_like_one_that_had_reached_its_endpoint(
    tmp_path: Path, end: str, recorded: tuple[RunStatus, str]
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = Connecting()
        herd.schedule("ping", every="5m", runner=runner)
        herd.snapshot("ping")
        await herd._loop.run_cycle(herd._tasks)
        await runner.is_connecting.wait()

        if end == "cancel":
            herd._loop.cancel(1, "too slow")
        else:
            herd._loop.hard_stop()
        await herd._loop._wait_idle()

        assert [(run.status, run.error) for run in read_runs(herd, "ping")] == [recorded]
        assert herd.outcomes("ping") == [("ran", "", 1)]


async def test_a_run_whose_node_stopped_before_its_first_step_looked_like_one_that_had_begun(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("ping", every="5m")
        herd.snapshot("ping")
        await herd._loop.run_cycle(herd._tasks)

        herd._loop.hard_stop()
        await herd._loop._wait_idle()

        assert [run.error for run in read_runs(herd, "ping")] == ["its node stopped before it was started"]


async def test_a_retry_that_was_replaced_before_its_request_left_a_beat_that_ran_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = Connecting(fails=1)
        retry = Retry(attempts=2, wait=timedelta(seconds=59))
        herd.schedule("ping", cron="* * * * *", runner=runner, overlap=Overlap.CANCEL, retry=retry)
        await herd.advance(MINUTE)
        herd.clock.advance(timedelta(seconds=59))
        await herd._loop.run_cycle(herd._tasks)
        await runner.is_connecting.wait()

        herd.clock.advance(timedelta(seconds=1))
        await herd.tick()

        assert [(run.attempt, run.status, run.error) for run in read_runs(herd, "ping")] == [
            (1, RunStatus.FAILED, "it was told to fail"),
            (2, RunStatus.CANCELLED, f"{REPLACED_BY_NEXT}, before its request was sent"),
            (1, RunStatus.SUCCEEDED, None),
        ]
        assert herd.outcomes("ping") == [("ran", "", 1), ("ran", "", 1)]


async def test_cancelling_twice_is_cancelling_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="5m", runner=runner)
        await herd.tick()

        answers = [herd._loop.cancel(1, "enough"), herd._loop.cancel(1, "more than enough")]
        runner.let_go()
        await herd.settle()

        assert answers == [True, True]
        assert herd._loop.cancel(1, "too late") is False
        assert list_runs(herd, "triage") == [(1, "cancelled", "first-run")]
        assert herd.outcomes("triage") == [("ran", "", 1)]
        assert (herd.snapshot("triage").failures, herd.next_run("triage")) == (0, TEN + 5 * MINUTE)


async def test_the_rules_of_a_cancelled_run_are_evaluated(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner, hung = ScriptedRunner(holds=True), {"name": "hung", "when": 'run.status == "cancelled"', "every": "1m"}
        herd.schedule("triage", every="5m", runner=runner, adapt=(hung,))
        await herd.tick()

        herd._loop.cancel(1, "enough")
        runner.let_go()
        await herd.settle()

        assert list_runs(herd, "triage") == [(1, "cancelled", "first-run")]
        assert herd.next_run("triage") == TEN + MINUTE


async def test_a_run_that_has_ended_keeps_its_result_if_it_is_cancelled_while_its_rules_are_evaluated(
    tmp_path: Path,
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        is_judging, never = asyncio.Event(), asyncio.Event()

        async def judge(_: Claim, finished: FinishedRun) -> FinishedRun:
            is_judging.set()
            await never.wait()
            return finished

        herd._loop._parts = replace(herd._loop._parts, evaluate_rules=judge)
        herd.schedule("triage", every="5m", adapt=({"name": "any", "when": "true", "every": "1m"},))
        herd.snapshot("triage")
        await herd._loop.run_cycle(herd._tasks)
        await is_judging.wait()

        herd._loop.cancel(1, "too late")
        await herd.settle()

        assert list_runs(herd, "triage") == [(1, "succeeded", "first-run")]
