"""Remote runs: runs whose program happens on an engine. What the ledger knows of each, and the rules about its lease.

A remote run is submitted by its node, taken once by `herdbeat exec`, and from then on belongs to its own lease.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.run_status import RunStatus


class RemoteRunState(StrEnum):
    SUBMITTED = "submitted"  # it belongs to its node
    TAKEN = "taken"  # it belongs to the process that took it, as long as its lease lasts
    ENDED = "ended"  # nobody may take it or report for it any more


class RemoteStop(NamedTuple):
    """Why a run is to end before its program has, and the status that it then has.

    It is written with the request, so any node can carry it out: the one that was asked may be dead by then.
    """

    status: RunStatus
    why: str

    def __str__(self) -> str:
        return f"{self.status}: {self.why}"


def parse_stop(text: str) -> RemoteStop | None:
    """Return what was written as a reason to stop; None if there is none. Version 0.1 wrote only "cancelled"."""
    status, _, why = text.partition(": ")
    if not text:
        return None
    return (
        RemoteStop(RunStatus(status), why)
        if why and status in set(RunStatus)
        else RemoteStop(RunStatus.CANCELLED, text)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRun:
    """A run on an engine. `name` is that of its job, `place` the machine that took it.

    `nonce` is the number of the process that took it. `start_by` is when it is given up if nobody has. `result` is its
    outcome as JSON, once that has arrived. `stop_reason` is set if it is to be stopped. The lease `is_extended` once
    by a node that starts after all were gone, and can be again after its process has renewed it.
    """

    run_id: int
    name: str
    executor: ExecutorKind
    state: RemoteRunState
    start_by: datetime
    nonce: str = ""
    place: str = ""
    lease_until: datetime | None = None
    is_extended: bool = False
    stop_reason: str = ""
    result: str = field(default="", repr=False)
    claim: str = field(default="", repr=False)
    is_open: bool = True

    @property
    def stop(self) -> RemoteStop | None:
        """Why it is to end; None if it may go on."""
        return parse_stop(self.stop_reason)

    def is_taken_by(self, nonce: str) -> bool:
        return self.state is RemoteRunState.TAKEN and self.nonce == nonce and self.is_open

    def has_lapsed(self, now: datetime) -> bool:
        """True for a taken run whose process was not heard of for a lease, and that has left no result."""
        is_over = self.lease_until is not None and self.lease_until <= now
        return self.state is RemoteRunState.TAKEN and is_over and not self.result

    def is_overdue(self, now: datetime) -> bool:
        """True for a run that nobody has taken in time."""
        return self.state is RemoteRunState.SUBMITTED and self.start_by <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRemoteRun:
    """A run that is about to be submitted. `job` is what `herdbeat exec` gets, `claim` what a node needs to follow it.

    `token_digest` is the hash of its one-run token; empty if the machines of the engine have a token.
    """

    run_id: int
    name: str
    executor: ExecutorKind
    start_by: datetime
    job: str = field(repr=False)
    claim: str = field(repr=False)
    token_digest: str = ""


class TakeDecision(StrEnum):
    TAKE = "take"
    REPEAT = "repeat"  # the process that has it asks again: its first answer was lost
    REFUSE = "refuse"


def decide_take(run: RemoteRun | None, nonce: str) -> TakeDecision:
    """The first process wins, the same one may repeat itself, any other is refused."""
    if run is None or not run.is_open:
        return TakeDecision.REFUSE
    if run.state is RemoteRunState.SUBMITTED and not run.stop_reason:
        return TakeDecision.TAKE
    return TakeDecision.REPEAT if run.is_taken_by(nonce) else TakeDecision.REFUSE


def extend_lease(run: RemoteRun, now: datetime, lease: timedelta) -> datetime | None:
    """Return the new end of the lease of a run whose node was gone; None if it stays.

    Nobody could renew it while the fleet was down, so its process gets a whole lease from now on. Once is enough: a
    process that lives reports within it, and one that could not report for a lease has ended its program.
    """
    is_renewed = run.lease_until is not None and run.lease_until >= now + lease
    return None if run.is_extended or is_renewed else now + lease
