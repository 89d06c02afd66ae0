"""Claims of work items as the ledger keeps them: who has an item, how often it was tried, what is left to report."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from herdbeat.domain.schedule import display_name
from herdbeat.domain.work_item import Report, WorkItem


class WorkClaimState(StrEnum):
    """Where a claim is. The first three hold the item: nobody else takes it."""

    CLAIMING = "claiming"  # the source is being asked, or nobody knows what it answered
    CLAIMED = "claimed"
    RAN = "ran"  # the run has ended, and the source does not have its report yet
    REPORTED = "reported"
    RELEASED = "released"  # offered again without a report
    LOST = "lost"  # somebody else has it, or it is gone
    BLOCKED = "blocked"  # the source says why nobody may take it

    @property
    def is_open(self) -> bool:
        return self in (WorkClaimState.CLAIMING, WorkClaimState.CLAIMED, WorkClaimState.RAN)


class AttemptUse(IntEnum):
    """What a claim has used of the attempts of its item."""

    NONE = 0
    USED = 1
    FINAL = 2  # and the item is not offered again: succeeded, or all attempts used up


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkClaim:
    """A claim before the source is asked. `marker` is unique in the world: other fleets may share the source.

    `kept` is the item without its body, which is long and stays with its source; `spec` is its `work_source:`.

    `items_left` is how many others the source offered then.
    `host` is set if only this machine reaches the source. With `remembers`, the source marks nothing: what was done
    once must not be taken again.
    """

    source: str
    item: str
    marker: str
    schedule_id: int
    run_id: int
    max_attempts: int
    kept: WorkItem
    spec: Mapping[str, object]
    host: str | None = None
    remembers: bool = False
    items_left: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClaimRecord(NewWorkClaim):
    """A claim in the ledger.

    `report` is how its run ended, for the source. `tries` counts reports and releases that failed; the next is at
    `next_at`. `reason` says in words why it is blocked, not released or not reported.
    """

    id: int
    attempt: int
    state: WorkClaimState
    claimed_at: datetime
    offered_at: datetime | None = None
    ended_at: datetime | None = None
    used: AttemptUse = AttemptUse.NONE
    report: Report | None = None
    reason: str = ""
    tries: int = 0
    next_at: datetime | None = None

    @property
    def title(self) -> str:
        return self.kept.title

    @property
    def url(self) -> str:
        return self.kept.url


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClaimView:
    """A claim with the names that a screen shows. `run_status` is empty if its run is no longer in the ledger."""

    claim: WorkClaimRecord
    target: str
    schedule: str
    run_status: str

    @property
    def label(self) -> str:
        return display_name(self.target, self.schedule)
