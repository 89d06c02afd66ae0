"""A runner whose runs take time of the fake clock, and a herd that is advanced step by step."""

import asyncio
from datetime import datetime, timedelta

from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd


class TimedRunner(ScriptedRunner):
    """Each run takes as long as the script says; after a cancellation it takes `stop` more."""

    def __init__(self, script: list[tuple[timedelta, RunStatus]], stop: timedelta = timedelta(0)) -> None:
        super().__init__(holds=True)
        self.script = script
        self.stop = stop
        self.started_at: list[datetime] = []
        self.over_at: dict[int, datetime] = {}
        self.cancelled: set[int] = set()
        self._let_all_go = asyncio.Event()

    def let_go(self) -> None:
        """End all runs: the herd is closed, and nothing advances the clock any more."""
        super().let_go()
        self._let_all_go.set()

    async def __call__(self, claim: Claim, clock: FakeClock) -> Outcome:
        takes, status = self.script[len(self.runs) % len(self.script)]
        self.runs.append(claim)
        self.started_at.append(clock.now())
        self.over_at[claim.run_id] = clock.now() + takes
        try:
            await clock.sleep_until(self.over_at[claim.run_id], self._let_all_go)
        except asyncio.CancelledError:
            self.cancelled.add(claim.run_id)
            self.over_at[claim.run_id] = clock.now() + self.stop
            await clock.sleep_until(self.over_at[claim.run_id], self._let_all_go)
            raise
        return Outcome(status=status, error="told to" if status.is_failure else "")


async def run_until_idle(herd: SimulatedHerd, *runners: TimedRunner) -> None:
    """Do everything that is due now: runs that are over end first, then queued and due beats, until nothing changes."""
    while True:
        await _wait_ended(herd, runners)
        claimed = await herd._loop.run_cycle(herd._tasks)
        await _wait_cancelled(herd, runners)
        await herd._loop.completer.wait_drained()
        wake_at = herd.store.write_now(lambda tx: tx.next_wake())
        if not claimed.claims and not _ended_tasks(herd, runners) and (wake_at is None or wake_at > herd.now):
            return


async def _wait_ended(herd: SimulatedHerd, runners: tuple[TimedRunner, ...]) -> None:
    if ended := _ended_tasks(herd, runners):
        await asyncio.wait(ended)
    await herd._loop.completer.wait_drained()


def _ended_tasks(herd: SimulatedHerd, runners: tuple[TimedRunner, ...]) -> list[asyncio.Task[None]]:
    over_at = {run_id: at for runner in runners for run_id, at in runner.over_at.items()}
    return [each.task for run_id, each in herd._loop.active_runs.items() if over_at[run_id] <= herd.now]


async def _wait_cancelled(herd: SimulatedHerd, runners: tuple[TimedRunner, ...]) -> None:
    """Wait until every run has begun, and every cancelled one knows it."""
    started = {run_id for runner in runners for run_id in runner.over_at}
    cancelled = {run_id for runner in runners for run_id in runner.cancelled}
    while any(
        run_id not in started or (each.task.cancelling() and run_id not in cancelled and not each.task.done())
        for run_id, each in herd._loop.active_runs.items()
    ):
        await asyncio.sleep(0)
        started |= {run_id for runner in runners for run_id in runner.over_at}
        cancelled |= {run_id for runner in runners for run_id in runner.cancelled}
