"""The timelines of herdctl's pages about schedules, with agents that really run.

The clock is moved by hand, and each run starts the fake agent as a process. What the pages say is checked by what the
agent itself has written down.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.agent_jobs import StartLog, agent_spec

from herdbeat.domain.run import Claim, Outcome
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.runners.base import Job
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)
TEN = datetime(2025, 1, 19, 10, 0, tzinfo=UTC)


@dataclass(eq=False, kw_only=True)
class RealAgent(ScriptedRunner):
    """Runs the fake agent as a process; on the clock of the test a run takes as long as the script says."""

    runners: RunnerRegistry
    agent: AgentSpec
    prompt: str = "Process the next ready issue."
    minutes: list[int] = field(default_factory=list)
    timeline: list[str] = field(default_factory=list)

    async def __call__(self, claim: Claim, clock: FakeClock) -> Outcome:
        self.runs.append(claim)
        number = len(self.runs)
        self.timeline.append(f"{clock.now():%H:%M} - Job {number} starts")
        await self._release_event.wait()
        target = Target(name="issue-processor", spec=self.agent)
        prompt = f"{self.prompt} Job {number}."
        job = Job(claim=claim, target=target, prompt=prompt, deadline=clock.now() + timedelta(hours=1))
        outcome = await self.runners.run(job)
        clock.advance((self.minutes.pop(0) if self.minutes else 0) * MINUTE)
        ended = "completes" if outcome.error == "" else f"fails: {outcome.error}"
        self.timeline.append(f"{clock.now():%H:%M} - Job {number} {ended}")
        return outcome


@pytest.fixture
def starts(tmp_path: Path) -> StartLog:
    return StartLog(tmp_path / "starts.jsonl")


@pytest.fixture
async def runners(tmp_path: Path, starts: StartLog) -> AsyncIterator[RunnerRegistry]:
    environ = {"PATH": os.environ["PATH"], **starts.variables}
    async with open_runners(RunnerSettings(state_dir=tmp_path / "runs", environ=environ), FakeClock(TEN)) as opened:
        yield opened


async def test_an_interval_is_measured_after_completion_not_after_the_start(
    tmp_path: Path, runners: RunnerRegistry, starts: StartLog
) -> None:
    agent = RealAgent(runners=runners, agent=agent_spec(tmp_path), minutes=[3, 7, 0])
    async with open_herd(tmp_path / "herd", TEN) as herd:
        herd.schedule("issue-processor/process-issues", every="5m", runner=agent, agent=agent.agent)

        await herd.advance(20 * MINUTE)

    assert agent.timeline == [
        "10:00 - Job 1 starts",
        "10:03 - Job 1 completes",
        "10:08 - Job 2 starts",
        "10:15 - Job 2 completes",
        "10:20 - Job 3 starts",
        "10:20 - Job 3 completes",
    ]
    assert [start["prompt"].rpartition("issue. ")[2] for start in starts.read()] == ["Job 1.", "Job 2.", "Job 3."]


async def test_a_new_agent_runs_at_once_and_then_after_its_interval(tmp_path: Path, runners: RunnerRegistry) -> None:
    agent = RealAgent(runners=runners, agent=agent_spec(tmp_path), minutes=[2])
    async with open_herd(tmp_path / "herd", TEN) as herd:
        herd.schedule("triage/check-issues", every="5m", runner=agent, agent=agent.agent)

        await herd.tick()

        assert agent.timeline == ["10:00 - Job 1 starts", "10:02 - Job 1 completes"]
        assert herd.next_run("triage/check-issues") == TEN + 7 * MINUTE


async def test_a_trigger_time_in_the_past_runs_at_once(tmp_path: Path, runners: RunnerRegistry) -> None:
    agent = RealAgent(runners=runners, agent=agent_spec(tmp_path))
    async with open_herd(tmp_path / "herd", TEN) as herd:
        herd.schedule("triage/check-issues", every="5m", runner=agent, agent=agent.agent)
        await herd.tick()  # completes at 10:00; the next is expected at 10:05

        herd.clock.advance(30 * MINUTE)  # the system was asleep
        await herd.tick()

    assert agent.timeline[2] == "10:30 - Job 2 starts"


async def test_an_agent_at_capacity_starts_no_third_job_until_one_completes(
    tmp_path: Path, runners: RunnerRegistry, starts: StartLog
) -> None:
    """The page skips the third job until the next check; here it is queued, and starts as soon as there is room."""
    spec = agent_spec(tmp_path)
    held = [RealAgent(runners=runners, agent=spec, holds=True, prompt=f"{name}.") for name in ("one", "two")]
    third = RealAgent(runners=runners, agent=spec, prompt="three.")
    async with open_herd(tmp_path / "herd", TEN - MINUTE) as herd:
        for label, cron, runner in (("one", "0 10", held[0]), ("two", "5 10", held[1]), ("three", "5 10", third)):
            herd.schedule(f"worker/{label}", cron=f"{cron} * * *", runner=runner, agent=spec, max_concurrent=2)

        await herd.advance(6 * MINUTE)  # 10:05: two jobs are running

        assert (len(held[0].runs), len(held[1].runs), len(third.runs)) == (1, 1, 0)
        assert herd.outcomes("worker/three") == [("pending", "at_capacity", 1)]

        herd.clock.advance(2 * MINUTE)  # 10:07: the first one completes
        held[0].let_go()
        await herd.settle()
        await herd.tick()

        assert third.timeline == ["10:07 - Job 1 starts", "10:07 - Job 1 completes"]
        held[1].let_go()
        await herd.settle()
    assert sorted(start["prompt"].partition(".")[0] for start in starts.read()) == ["one", "three", "two"]


async def test_a_failed_execution_is_recorded_frees_its_slot_and_waits_longer(
    tmp_path: Path, runners: RunnerRegistry
) -> None:
    agent = RealAgent(runners=runners, agent=agent_spec(tmp_path), prompt="fake:error=out_of_ideas")
    async with open_herd(tmp_path / "herd", TEN) as herd:
        herd.schedule("triage/check-issues", every="5m", runner=agent, agent=agent.agent)

        await herd.tick()

        assert agent.timeline[-1] == "10:00 - Job 1 fails: out of ideas"
        assert herd.next_run("triage/check-issues") == TEN + 10 * MINUTE  # backoff: twice the interval

        agent.prompt = "Go on."
        await herd.advance(10 * MINUTE)

        assert agent.timeline[-1] == "10:10 - Job 2 completes"
        assert herd.next_run("triage/check-issues") == TEN + 15 * MINUTE
