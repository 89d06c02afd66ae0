"""What a runner promises. The scheduler sees nothing else of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from herdbeat.domain.run import Claim, Outcome
from herdbeat.domain.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run to do: whose, with which words, until when.

    The deadline is told, not kept: whoever awaits the run also ends it. `fence` is the node's at the time of the start;
    the target may use it to refuse a node that was believed dead.
    """

    claim: Claim
    target: Target
    prompt: str
    deadline: datetime
    fence: int = 0

    @property
    def variables(self) -> Mapping[str, str]:
        """What the trigger tells about this beat. Made when asked for: most targets never ask."""
        return self.claim.plan.trigger.variables(self.claim.due_at, self.claim.label)

    @property
    def beat_key(self) -> str:
        """The same for every attempt at one beat, so that a target can tell a repetition from a new beat."""
        return f"{self.claim.label}:{self.claim.dedup_id}"


class PrecheckResult(NamedTuple):
    """What a precheck has said. A `note` is what is wrong with the check itself."""

    may_run: bool
    note: str = ""


class Runner(Protocol):
    """Runs one kind of target.

    `run` returns how it ended, a failure included; it raises RunnerError only for what is not the target's fault.
    Cancelled, it stops what it started, process groups included, before it lets the cancellation through. The one
    thing that cannot be stopped is a Python function in a thread: `ended` tells when that is over, too.
    """

    async def run(self, job: Job) -> Outcome: ...

    async def wait_stopped(self, run_id: int) -> None:
        """Return once nothing of that run is going on any more: at once, but for a function left in its thread."""
        ...
