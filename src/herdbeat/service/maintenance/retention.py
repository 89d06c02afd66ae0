"""Retention: removes settled history that is too old or too much, in small batches that never delay a beat."""

from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from herdbeat.domain.fleet import Retention
from herdbeat.runners.run_log import prune_logs, remove_logs
from herdbeat.scheduler.event_intake import REPLAY_WINDOW
from herdbeat.service.commands.base import PruneResult
from herdbeat.store.audit import LedgerAudit
from herdbeat.store.base import Store, Transaction
from herdbeat.store.location import resolve_state_dir
from herdbeat.threads import call_in_thread

BEATS_PER_TRANSACTION = 200
"""Beats removed in one transaction, which shares the writer with beats that are due."""

MIN_EVENT_BEAT_AGE = timedelta(days=7)
"""Beats of events and delays stay at least this long, whatever the count: a redelivery must find its id."""

MAX_CHANGE_ROWS = 100_000
"""Changes that are kept, however young the others are: an agent may make many a day."""

MAX_REQUEST_AGE = timedelta(days=1)
"""How long a command that is sent again is answered with its first result."""

_NO_LIMIT = 10_000_000


async def prune_history(store: Store, audit: LedgerAudit, retention: Retention, now: datetime) -> PruneResult:
    """Remove what `retention` does not keep. Pending and running beats always stay."""
    pruned, before, event_cutoff = PruneResult(), now - retention.age, now - MIN_EVENT_BEAT_AGE
    state_dir = resolve_state_dir(audit.location)
    while ids := await call_in_thread(audit.old_beats, before, event_cutoff, BEATS_PER_TRANSACTION):
        if not await _drop_batch(store, ids, state_dir, pruned):
            break  # something refers to them: the next query would return them again, forever
    surplus = await call_in_thread(lambda: list(chain(*audit.surplus_beats(retention.beats, event_cutoff))))
    for start in range(0, len(surplus), BEATS_PER_TRANSACTION):
        await _drop_batch(store, surplus[start : start + BEATS_PER_TRANSACTION], state_dir, pruned)
    pruned.logs += await call_in_thread(_prune_log_days, audit, min(before, event_cutoff))
    if plans := await call_in_thread(audit.unused_plans, BEATS_PER_TRANSACTION):
        pruned.plans = await store.write(lambda tx: tx.drop_plans(plans))
    while True:
        rows = await store.write(lambda tx: _drop_rows(tx, before, event_cutoff, now))
        pruned.hints += rows.hints
        pruned.changes += rows.changes
        if not rows.has_more:
            return pruned


class _DroppedRows(NamedTuple):
    """What one transaction has removed; `has_more` if it has left rows for the next."""

    hints: int
    changes: int
    has_more: bool


def _drop_rows(tx: Transaction, before: datetime, event_cutoff: datetime, now: datetime) -> _DroppedRows:
    """Remove from the small tables. They are mostly empty, and a transaction for each would cost a commit for each."""
    limit, oldest = BEATS_PER_TRANSACTION, min(before, event_cutoff)
    tx.drop_nodes(before)
    tx.drop_spend(oldest.date().isoformat())
    tx.drop_sessions(before)
    tx.drop_holds(before)
    hints, changes = tx.drop_hints(before, limit), tx.drop_changes(before, MAX_CHANGE_ROWS, limit)
    others = [
        tx.work_drop(oldest, limit),
        tx.episode_drop(before, limit),
        tx.outbox_drop(before, limit),
        tx.pause_drop(now, before, limit),
        # What was kept to recognize repetitions: requests, and the contents of webhook calls.
        tx.drop_requests(now - MAX_REQUEST_AGE, limit),
        tx.webhook_drop_digests(now - REPLAY_WINDOW, limit),
    ]
    return _DroppedRows(hints, changes, has_more=any((hints, changes, *others)))


def count_prunable(audit: LedgerAudit, retention: Retention, now: datetime) -> PruneResult:
    """Count what `prune_history` would remove."""
    before, event_cutoff = now - retention.age, now - MIN_EVENT_BEAT_AGE
    beats = set(audit.old_beats(before, event_cutoff, _NO_LIMIT))
    beats.update(chain(*audit.surplus_beats(retention.beats, event_cutoff)))
    runs = audit.read_transaction(lambda tx: tx.run_list_by_beat(beats))
    plans = len(audit.unused_plans(BEATS_PER_TRANSACTION))
    hints, changes = audit.count_ended_hints(before), audit.count_old_changes(before, MAX_CHANGE_ROWS)
    return PruneResult(beats=len(beats), runs=len(runs), plans=plans, hints=hints, changes=changes)


async def _drop_batch(store: Store, ids: list[int], state_dir: Path, pruned: PruneResult) -> int:
    dropped = await store.write(lambda tx: tx.drop_beats(ids))
    pruned.beats += dropped.beats
    pruned.runs += len(dropped.runs)
    pruned.logs += await call_in_thread(remove_logs, state_dir, dropped.runs)
    return dropped.beats


def _prune_log_days(audit: LedgerAudit, before: datetime) -> int:
    """Remove whole days of logs that no run of the ledger refers to, as after a restore."""
    oldest = audit.oldest_open_run()
    return prune_logs(resolve_state_dir(audit.location), (before if oldest is None else min(before, oldest)).date())
