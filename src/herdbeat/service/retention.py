"""Retention: settled history goes when it is too old or too much, in small batches, off the fire path."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path

from herdbeat.domain.fleet import Retention
from herdbeat.runners.log import prune_logs, remove_logs
from herdbeat.store.base import Dropped, Store, Transaction
from herdbeat.store.opening import Audit
from herdbeat.store.places import state_dir_of

BATCH = 200
"""Beats removed in one transaction: it shares the writer with beats that are due."""

KEPT = timedelta(days=7)
"""Beats of events and delays stay so long whatever the count: a redelivery must find its id."""

MOST_CHANGES = 100_000
"""Rows of the record of changes that are kept, however young: an agent may write many a day."""

_ALL = 10_000_000


@dataclass(slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be."""

    beats: int = 0
    runs: int = 0
    logs: int = 0
    plans: int = 0
    hints: int = 0
    changes: int = 0


async def prune(store: Store, audit: Audit, retention: Retention, now: datetime) -> Pruned:
    """Remove what `retention` does not keep. What is pending or running always stays."""
    pruned, before, kept_since = Pruned(), now - retention.age, now - KEPT
    state_dir = state_dir_of(audit.place)
    while ids := await asyncio.to_thread(audit.old_beats, before, kept_since, BATCH):
        if not await _drop(store, ids, state_dir, pruned):
            break  # something holds on to them: asked again, they would come again, for ever
    surplus = await asyncio.to_thread(lambda: list(chain(*audit.surplus_beats(retention.beats, kept_since))))
    for batch in _batches(surplus):
        await _drop(store, batch, state_dir, pruned)
    pruned.logs += await asyncio.to_thread(_prune_days, audit, min(before, kept_since))
    plans = await asyncio.to_thread(audit.unused_plans, BATCH)
    if plans:
        pruned.plans = await store.write(lambda tx: tx.drop_plans(plans))
    while gone := await store.write(lambda tx: tx.drop_hints(before, BATCH)):
        pruned.hints += gone
    await store.write(lambda tx: tx.drop_nodes(before))
    last_day = min(before, kept_since).date().isoformat()
    await store.write(lambda tx: tx.drop_spend(last_day))
    while gone := await store.write(lambda tx: tx.drop_changes(before, MOST_CHANGES, BATCH)):
        pruned.changes += gone
    return pruned


def would_prune(audit: Audit, retention: Retention, now: datetime) -> Pruned:
    """The same, counted only."""
    before, kept_since = now - retention.age, now - KEPT
    beats = set(audit.old_beats(before, kept_since, _ALL))
    beats.update(chain(*audit.surplus_beats(retention.beats, kept_since)))
    runs = audit.peek(lambda tx: tx.runs_of(beats))
    return Pruned(
        beats=len(beats),
        runs=len(runs),
        plans=len(audit.unused_plans(BATCH)),
        hints=audit.ended_hints(before),
        changes=audit.old_changes(before, MOST_CHANGES),
    )


async def _drop(store: Store, ids: list[int], state_dir: Path, pruned: Pruned) -> int:
    dropped = await store.write(partial(_drop_beats, ids))
    pruned.beats += dropped.beats
    pruned.runs += len(dropped.runs)
    pruned.logs += await asyncio.to_thread(remove_logs, state_dir, dropped.runs)
    return dropped.beats


def _drop_beats(ids: list[int], tx: Transaction) -> Dropped:
    return tx.drop_beats(ids)


def _prune_days(audit: Audit, before: datetime) -> int:
    """Whole days of logs that no run of the ledger has any more: of a ledger that was restored, for example."""
    oldest = audit.oldest_open_run()
    return prune_logs(state_dir_of(audit.place), (before if oldest is None else min(before, oldest)).date())


def _batches(ids: list[int]) -> Iterator[list[int]]:
    left = iter(ids)
    while batch := list(islice(left, BATCH)):
        yield batch
