"""`herdbeat db prune`: history beyond `retention` goes now, not at the next full hour."""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime

from herdbeat.domain.fleet import Retention
from herdbeat.durations import format_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.db_places import require_ledger
from herdbeat.faces.cli.marks import format_count
from herdbeat.faces.cli.world import Context
from herdbeat.faces.local.client import NotRunning, send_request
from herdbeat.service.retention import PruneResult, count_prunable, prune_history
from herdbeat.store.opening import create_store, exclusive_lock, open_audit
from herdbeat.store.places import StoreLocation, resolve_state_dir

PRUNE_TIMEOUT_S = 3_600.0
"""Seconds: the first prune of a long history takes its time."""


def run_prune(args: ParsedArgs, context: Context) -> int:
    fleet, ledger, now = require_ledger(args, context)
    if args.has(flags.DRY_RUN):
        pruned = count_prunable(open_audit(ledger), fleet.retention, now)
    else:
        pruned = _prune_history(ledger, fleet.retention, now)
    if args.has(flags.JSON):
        context.terminal.print(json.dumps({"dry_run": args.has(flags.DRY_RUN), **asdict(pruned)}))
    else:
        context.terminal.print(_describe_pruned(pruned, fleet.retention, is_dry=args.has(flags.DRY_RUN)))
    return 0


def _prune_history(ledger: StoreLocation, retention: Retention, now: datetime) -> PruneResult:
    """The fleet that runs does it itself: one process writes into a ledger."""
    try:
        return PruneResult(**send_request(resolve_state_dir(ledger), {"do": "prune"}, timeout=PRUNE_TIMEOUT_S))
    except NotRunning:
        pass
    with exclusive_lock(ledger):
        store = create_store(ledger)
        store.open()
        try:
            return asyncio.run(prune_history(store, open_audit(ledger), retention, now))
        finally:
            store.close()


def _describe_pruned(pruned: PruneResult, retention: Retention, *, is_dry: bool) -> str:
    kept = f"{format_duration(retention.age)} and {retention.beats:,} beats per schedule are kept"
    what = f"{format_count(pruned.beats, 'beat')} and {format_count(pruned.runs, 'run')}"
    return f"{what} {'would go' if is_dry else 'removed'}; {kept}."
