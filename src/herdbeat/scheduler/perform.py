"""One run, from claim to outcome: render the prompt, run the target, and tell how it ended, whatever happened."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from herdbeat.clock import Clock
from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.domain.brief import Brief
from herdbeat.domain.claim import Claim
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError
from herdbeat.prompts import build_schedule_prompt
from herdbeat.runners.base import Job, Runner
from herdbeat.store.base import FinishedRun

log = logging.getLogger(__name__)


class Shelf(Protocol):
    """Where a run finds what it has to know: the target, and the words for it."""

    def fetch(self, claims: Sequence[Claim]) -> None:
        """Get ready what these will ask for, all at once."""
        ...

    def target(self, target_id: int) -> Target: ...

    def brief(self, schedule_id: int, revision: int) -> Brief: ...


class Performer:
    """Performs claims. Its answer is always an outcome; only a cancellation goes through."""

    def __init__(self, shelf: Shelf, runner: Runner, clock: Clock) -> None:
        self._shelf = shelf
        self._runner = runner
        self._clock = clock

    def prepare(self, claims: Sequence[Claim]) -> None:
        """One look at the store for a whole turn. Each run by itself would look twice, and wait for Python's lock."""
        self._shelf.fetch(claims)

    async def __call__(self, claim: Claim) -> FinishedRun:
        started_at = self._clock.now()
        timeout = claim.plan.policies.timeout
        try:
            job = self._job(claim)
            async with asyncio.timeout(timeout.total_seconds()):
                outcome = await self._runner.run(job)
            pass_by(CrashPoint.AFTER_RESPONSE)
        except TimeoutError:
            # A function in a thread cannot be stopped: its place stays taken until it really is over.
            await self._runner.ended(claim.run_id)
            error = f"it took longer than its timeout of {format_duration(timeout)}"
            outcome = Outcome(status=RunStatus.TIMED_OUT, error=error)
        except HerdbeatError as error:
            outcome = Outcome(status=RunStatus.FAILED, error=f"{error.message} {error.hint}".strip())
        except Exception as error:
            log.exception("run failed inside herdbeat run=%s schedule=%s", claim.run_id, claim.label)
            outcome = Outcome(status=RunStatus.FAILED, error=f"{type(error).__name__}: {error}")
        return FinishedRun(claim.run_id, started_at, outcome)

    def _job(self, claim: Claim) -> Job:
        target = self._shelf.target(claim.target_id)
        brief = self._shelf.brief(claim.schedule_id, claim.revision)
        name = claim.label.partition("/")[2]
        schedule = Schedule(
            target=target.name,
            name=name,
            trigger=claim.plan.trigger,
            policies=claim.plan.policies,
            prompt=brief.prompt,
        )
        default = target.spec.default_prompt if isinstance(target.spec, AgentSpec) else None
        return Job(
            claim=claim,
            target=target,
            prompt=build_schedule_prompt(schedule, due_at=claim.due_at, default_prompt=default),
            deadline=self._clock.now() + claim.plan.policies.timeout,
            fence=claim.fence,
        )
