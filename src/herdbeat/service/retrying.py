"""Running a run again: into the ledger of the fleet that runs, or of one that will."""

from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.change import Change, What
from herdbeat.domain.ids import short_id
from herdbeat.scheduler.retry import Retried, retry
from herdbeat.service.objects import Json
from herdbeat.service.offline import write_offline
from herdbeat.store.base import Transaction
from herdbeat.store.opening import OpenStore
from herdbeat.store.places import LedgerPlace


async def retry_here(
    store: OpenStore, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[Json]:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    return await store.write(lambda tx: retry_all(tx, now, run_ids, who=who, reason=reason, force=force))


def retry_for_later(
    path: LedgerPlace, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[Json]:
    """While nothing runs: started by the next `up`. Raises Conflict if something does."""
    return write_offline(path, lambda tx: retry_all(tx, now, run_ids, who=who, reason=reason, force=force))


def retry_all(
    tx: Transaction, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[Json]:
    """One answer for each run that is there, refusals included."""
    known = [tx.last_attempt(run_id) for run_id in run_ids]
    tx.schedules({each.schedule_id for each in known if each is not None})  # locked at once, in the order of all
    tried = [(run_id, retry(tx, now, run_id, by=who, force=force)) for run_id in run_ids]
    found = [(run_id, each) for run_id, each in tried if each is not None]
    labels = {number: each.label for number, each in tx.switches([each.last.schedule_id for _, each in found]).items()}
    answers = [_object(run_id, each, labels.get(each.last.schedule_id, "")) for run_id, each in found]
    tx.add_changes([_change(now, who, reason, answer) for answer in answers if answer["success"]])
    return answers


def _change(now: datetime, who: str, reason: str, answer: Json) -> Change:
    after = {"run": answer["retries"], "beat": answer["beat"], "attempt": answer["attempt"], "reason": reason}
    return Change(at=now, who=who, what=What.RETRY, subject=str(answer["schedule"]), after=after)


def _object(run_id: int, retried: Retried, label: str) -> Json:
    last = retried.last
    return {
        "schedule": label,
        "asked": short_id(run_id),
        "retries": short_id(last.run_id),
        "beat": short_id(last.beat_id),
        "success": retried.attempt is not None,
        "attempt": retried.attempt,
        "refused": retried.obstacle,
    }
