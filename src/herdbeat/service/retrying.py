"""Running a run again: into the ledger of the fleet that runs, or of one that will."""

from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.scheduler.retry import RetryResult, retry_run
from herdbeat.service.objects import JsonObject
from herdbeat.service.offline import write_offline
from herdbeat.store.base import Transaction
from herdbeat.store.opening import StoreHandle
from herdbeat.store.places import StoreLocation


async def retry_in_process(
    store: StoreHandle, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    return await store.write(lambda tx: execute_retries(tx, now, run_ids, who=who, reason=reason, force=force))


def retry_offline(
    path: StoreLocation, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """While nothing runs: started by the next `up`. Raises Conflict if something does."""
    return write_offline(path, lambda tx: execute_retries(tx, now, run_ids, who=who, reason=reason, force=force))


def execute_retries(
    tx: Transaction, now: datetime, run_ids: Sequence[int], *, who: str, reason: str, force: bool
) -> list[JsonObject]:
    """One answer for each run that is there, refusals included."""
    known = [tx.last_attempt(run_id) for run_id in run_ids]
    tx.schedules({each.schedule_id for each in known if each is not None})  # locked at once, in the order of all
    results = [(run_id, retry_run(tx, now, run_id, by=who, force=force)) for run_id in run_ids]
    found = [(run_id, each) for run_id, each in results if each is not None]
    labels = {
        number: each.label
        for number, each in tx.schedule_get_enabled([each.last.schedule_id for _, each in found]).items()
    }
    answers = [_serialize_retry(run_id, each, labels.get(each.last.schedule_id, "")) for run_id, each in found]
    tx.add_changes([_build_retry_change(now, who, reason, answer) for answer in answers if answer["success"]])
    return answers


def _build_retry_change(now: datetime, who: str, reason: str, answer: JsonObject) -> Change:
    after = {"run": answer["retries"], "beat": answer["beat"], "attempt": answer["attempt"], "reason": reason}
    return Change(at=now, who=who, what=ChangeKind.RETRY, subject=str(answer["schedule"]), after=after)


def _serialize_retry(run_id: int, retried: RetryResult, label: str) -> JsonObject:
    last = retried.last
    return {
        "schedule": label,
        "asked": format_short_id(run_id),
        "retries": format_short_id(last.run_id),
        "beat": format_short_id(last.beat_id),
        "success": retried.attempt is not None,
        "attempt": retried.attempt,
        "refused": retried.obstacle,
    }
