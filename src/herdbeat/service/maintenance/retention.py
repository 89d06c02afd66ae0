"""Retention: settled history goes when it is too old or too much, in small batches, off the fire path."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path

from herdbeat.domain.fleet import Retention
from herdbeat.runners.run_log import prune_logs, remove_logs
from herdbeat.service.commands.base import PruneResult
from herdbeat.store.base import DeletedBeats, Store, Transaction
from herdbeat.store.location import LedgerAudit, resolve_state_dir

BEATS_PER_TRANSACTION = 200
"""Beats removed in one transaction: it shares the writer with beats that are due."""

MIN_EVENT_BEAT_AGE = timedelta(days=7)
"""Beats of events and delays stay so long whatever the count: a redelivery must find its id."""

MAX_CHANGE_ROWS = 100_000
"""Rows of the record of changes that are kept, however young: an agent may write many a day."""

_NO_LIMIT = 10_000_000


async def prune_history(store: Store, audit: LedgerAudit, retention: Retention, now: datetime) -> PruneResult:
    """Remove what `retention` does not keep. What is pending or running always stays."""
    pruned, before, event_cutoff = PruneResult(), now - retention.age, now - MIN_EVENT_BEAT_AGE
    state_dir = resolve_state_dir(audit.location)
    while ids := await asyncio.to_thread(audit.old_beats, before, event_cutoff, BEATS_PER_TRANSACTION):
        if not await _drop_batch(store, ids, state_dir, pruned):
            break  # something holds on to them: asked again, they would come again, for ever
    surplus = await asyncio.to_thread(lambda: list(chain(*audit.surplus_beats(retention.beats, event_cutoff))))
    for batch in _iter_batches(surplus):
        await _drop_batch(store, batch, state_dir, pruned)
    pruned.logs += await asyncio.to_thread(_prune_log_days, audit, min(before, event_cutoff))
    plans = await asyncio.to_thread(audit.unused_plans, BEATS_PER_TRANSACTION)
    if plans:
        pruned.plans = await store.write(lambda tx: tx.drop_plans(plans))
    while dropped := await store.write(lambda tx: tx.drop_hints(before, BEATS_PER_TRANSACTION)):
        pruned.hints += dropped
    await store.write(lambda tx: tx.drop_nodes(before))
    last_day = min(before, event_cutoff).date().isoformat()
    await store.write(lambda tx: tx.drop_spend(last_day))
    while dropped := await store.write(lambda tx: tx.drop_changes(before, MAX_CHANGE_ROWS, BEATS_PER_TRANSACTION)):
        pruned.changes += dropped
    return pruned


def count_prunable(audit: LedgerAudit, retention: Retention, now: datetime) -> PruneResult:
    """The same, counted only."""
    before, event_cutoff = now - retention.age, now - MIN_EVENT_BEAT_AGE
    beats = set(audit.old_beats(before, event_cutoff, _NO_LIMIT))
    beats.update(chain(*audit.surplus_beats(retention.beats, event_cutoff)))
    runs = audit.read_transaction(lambda tx: tx.run_list_by_beat(beats))
    return PruneResult(
        beats=len(beats),
        runs=len(runs),
        plans=len(audit.unused_plans(BEATS_PER_TRANSACTION)),
        hints=audit.count_ended_hints(before),
        changes=audit.count_old_changes(before, MAX_CHANGE_ROWS),
    )


async def _drop_batch(store: Store, ids: list[int], state_dir: Path, pruned: PruneResult) -> int:
    dropped = await store.write(partial(_drop_beats, ids))
    pruned.beats += dropped.beats
    pruned.runs += len(dropped.runs)
    pruned.logs += await asyncio.to_thread(remove_logs, state_dir, dropped.runs)
    return dropped.beats


def _drop_beats(ids: list[int], tx: Transaction) -> DeletedBeats:
    return tx.drop_beats(ids)


def _prune_log_days(audit: LedgerAudit, before: datetime) -> int:
    """Whole days of logs that no run of the ledger has any more: of a ledger that was restored, for example."""
    oldest = audit.oldest_open_run()
    return prune_logs(resolve_state_dir(audit.location), (before if oldest is None else min(before, oldest)).date())


def _iter_batches(ids: list[int]) -> Iterator[list[int]]:
    left = iter(ids)
    while batch := list(islice(left, BEATS_PER_TRANSACTION)):
        yield batch
