"""A run again, by hand: one more attempt at the same beat, which a target can tell from a new one by its key.

It is a person's act, not the clock's: it moves no anchor and no next run, its success mends the failure count, and its
failure adds nothing.
"""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus
from herdbeat.store.base import LastAttempt, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryResult:
    """The attempt that was written down; or none, and what is in the way."""

    last: LastAttempt
    attempt: int | None = None
    obstacle: str = ""


def retry_run(tx: Transaction, now: datetime, run_id: int, *, by: str, force: bool = False) -> RetryResult | None:
    """Let the beat of a run wait for one more attempt, due now. None if there is no such run.

    Only what did not succeed is run again, unless `force` insists: an agent's work is not repeated behind one's back.
    """
    last = tx.last_attempt(run_id)
    if last is None:
        return None
    # Looked at again under its lock: two who asked at once had the same attempt started by two nodes.
    tx.schedules([last.schedule_id])
    last = tx.last_attempt(run_id) or last
    obstacle = find_retry_obstacle(last, force=force)
    if obstacle:
        return RetryResult(last=last, obstacle=obstacle)
    tx.retry_beat(last.beat_id, last.attempt + 1, by=by, reason=Source.RETRY, now=now)
    return RetryResult(last=last, attempt=last.attempt + 1)


def find_retry_obstacle(last: LastAttempt, *, force: bool) -> str:
    """What keeps a beat from another attempt; empty if nothing does. Pure."""
    if last.status is RunStatus.RUNNING:
        return "it is still going"
    if last.outcome in (BeatOutcome.PENDING, BeatOutcome.RUNNING):
        return "another attempt at it waits already"
    if last.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED) and not force:
        return f"it {'succeeded' if last.status is RunStatus.SUCCEEDED else 'declined to run'}"
    return ""
