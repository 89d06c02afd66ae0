"""One run, from claim to outcome: render the prompt, run the target, and tell how it ended, whatever happened."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from herdbeat.clock import Clock
from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.brief import Brief
from herdbeat.domain.claim import Claim
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError, StoreUnavailable
from herdbeat.prompts import FALLBACK_PROMPT, build_schedule_prompt, fixed_prompt
from herdbeat.runners.base import Checked, Job, Runner
from herdbeat.scheduler.gates import BY_HAND
from herdbeat.store.base import FinishedRun

log = logging.getLogger(__name__)

Check = Callable[[Job], Awaitable[Checked]]
"""How a schedule's precheck is asked."""

_DECLINED = Outcome(status=RunStatus.SKIPPED, skip=SkipReason.PRECHECK)


class Shelf(Protocol):
    """Where a run finds what it has to know: the target, and the words for it."""

    def fetch(self, claims: Sequence[Claim]) -> None:
        """Get ready what these will ask for, all at once."""
        ...

    def target(self, target_id: int) -> Target: ...

    def brief(self, schedule_id: int, revision: int) -> Brief: ...


async def unchecked(job: Job) -> Checked:  # noqa: ARG001 - the shape of a check
    """For who cannot ask a precheck: the schedule is not silenced by that."""
    return Checked(may_run=True, note="this node cannot ask prechecks, so it ran without")


class Performer:
    """Performs claims. Its answer is always an outcome; only a cancellation goes through."""

    def __init__(self, shelf: Shelf, runner: Runner, clock: Clock, check: Check = unchecked) -> None:
        self._shelf = shelf
        self._runner = runner
        self._clock = clock
        self._check = check

    def prepare(self, claims: Sequence[Claim]) -> None:
        """One look at the store for a whole turn. Each run by itself would look twice, and wait for Python's lock."""
        self._shelf.fetch(claims)

    async def __call__(self, claim: Claim) -> FinishedRun:
        started_at, note = self._clock.now(), ""
        timeout = claim.plan.policies.timeout
        try:
            job = self._job(claim, started_at + timeout)
            if claim.plan.policies.precheck and _is_to_be_checked(claim):
                checked = await self._check(job)
                if not checked.may_run:
                    return FinishedRun(claim.run_id, None, _DECLINED)
                note, started_at = checked.note, self._clock.now()
                job = replace(job, deadline=started_at + timeout)
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
        return FinishedRun(claim.run_id, started_at, replace(outcome, note=note) if note else outcome)

    def _job(self, claim: Claim, deadline: datetime) -> Job:
        target = self._shelf.target(claim.target_id)
        brief = self._shelf.brief(claim.schedule_id, claim.revision)
        default = target.spec.default_prompt if isinstance(target.spec, AgentSpec) else None
        words = brief.prompt or default or FALLBACK_PROMPT
        prompt = fixed_prompt(words) or _rendered(claim, target, words)
        return Job(claim=claim, target=target, prompt=prompt, deadline=deadline, fence=claim.fence)


def beside_the_loop(prepare: Callable[[Sequence[Claim]], None]) -> Callable[[Sequence[Claim]], Awaitable[None]]:
    """For a store behind a network: its answer may take long, and the node has to go on breathing meanwhile.

    What cannot be read now is asked for again by each run, which then says what is wrong.
    """

    async def prepared(claims: Sequence[Claim]) -> None:
        try:
            await asyncio.to_thread(prepare, claims)
        except StoreUnavailable as error:
            log.warning("nothing prepared claims=%s error=%s", len(claims), error)

    return prepared


def _is_to_be_checked(claim: Claim) -> bool:
    """What somebody runs by hand is meant to run, and a second attempt was let through with the first."""
    return claim.attempt == 1 and claim.source not in BY_HAND


def _rendered(claim: Claim, target: Target, words: str) -> str:
    schedule = Schedule(
        target=target.name,
        name=claim.label.partition("/")[2],
        trigger=claim.plan.trigger,
        policies=claim.plan.policies,
        prompt=words,
    )
    return build_schedule_prompt(schedule, due_at=claim.due_at)
