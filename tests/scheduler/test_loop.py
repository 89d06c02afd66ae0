"""Stopping single runs: on somebody's word, at any moment of their life."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.schedule_requests import list_runs

from herdbeat.domain.run import Claim
from herdbeat.store.base import FinishedRun
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


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
