"""The contract of runners, which is all that the scheduler knows of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.run import Claim, Outcome
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import Target
from herdbeat.domain.trigger import is_event_id

_NO_RUN_SPEC = RunSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run for a runner to execute: its claim, its target, its prompt and its deadline.

    Runners do not enforce the deadline: the executor cancels the run. `fence` is the node's at the time of the start;
    a target may use it to reject a node that has lost its lease. `run_spec` is what the schedule says about its runs.
    `session_id` is the session of an agent that this run resumes; without one it begins a new session.
    `prompt_references` are the variables of the environment that the prompt refers to; runners get it without.
    """

    claim: Claim
    target: Target
    prompt: str
    deadline: datetime
    fence: int = 0
    run_spec: RunSpec = _NO_RUN_SPEC
    session_id: str | None = None
    prompt_references: tuple[str, ...] = ()

    @property
    def variables(self) -> Mapping[str, str]:
        """The prompt variables of this beat. Computed on demand: most targets do not use them."""
        variables = self.claim.plan.trigger.variables(self.claim.due_at, self.claim.label)
        return {**variables, "source_id": self.claim.dedup_id} if is_event_id(self.claim.dedup_id) else variables

    @property
    def beat_key(self) -> str:
        """A key that is the same for every attempt at one beat, so that a target can recognize a repetition."""
        return f"{self.claim.label}:{self.claim.dedup_id}"


class Unstarted(NamedTuple):
    """Why nothing of the target has run: the run was cancelled before this, for example `its request was sent`."""

    before: str


class PrecheckResult(NamedTuple):
    """The result of a precheck. `note` says what is wrong with the check itself."""

    may_run: bool
    note: str = ""


class Runner(Protocol):
    """Runs one kind of target.

    `run` returns the outcome, also of a failure; it raises RunnerError only for what is not the target's fault.
    Cancelled, it stops everything it started, also processes that have left their group, before it raises
    CancelledError. The exception is a Python function in a thread, which cannot be stopped: `wait_stopped` returns when
    it has ended. What a cancelled agent has reported until then is attached to its CancelledError: see
    `attached_report`. A run that is cancelled before its target has started is marked in the same way: see
    `mark_unstarted`.
    """

    async def run(self, job: Job) -> Outcome: ...

    async def wait_stopped(self, run_id: int) -> str:
        """Return once nothing of that run is executing any more: at once, except for a function in a thread.

        Returns a sentence about processes that could not be ended, for the user; empty if there are none.
        """
        ...


def attach_report(error: asyncio.CancelledError, report: AgentReport) -> None:
    """Let the cancellation of an agent's run carry what it has told until then, such as its cost.

    In its arguments, and not in a subclass: `asyncio.timeout` of Python 3.11 converts only the class itself.
    """
    error.args = (report,)


def attached_report(error: BaseException | None) -> AgentReport | None:
    """Return what `attach_report` has attached to a cancellation, or to the one that caused a TimeoutError."""
    carrier = error.__cause__ if isinstance(error, TimeoutError) else error
    reports = [each for each in carrier.args if isinstance(each, AgentReport)] if carrier is not None else []
    return reports[0] if reports else None


def mark_unstarted(error: asyncio.CancelledError, before: str) -> None:
    """Let a cancellation tell that nothing of the target has started, for example while its module was imported."""
    error.args = (Unstarted(before),)


def find_unstarted(error: BaseException | None) -> Unstarted | None:
    """Return what `mark_unstarted` has attached to a cancellation, or to the one that caused a TimeoutError."""
    carrier = error.__cause__ if isinstance(error, TimeoutError) else error
    return next((each for each in carrier.args if isinstance(each, Unstarted)), None) if carrier is not None else None
