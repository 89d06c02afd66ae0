"""`herdbeat db prune`: history beyond `retention` goes now, not at the next full hour."""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime

from herdbeat.domain.fleet import Retention
from herdbeat.durations import format_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.db_places import fleet_and_place
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.world import World
from herdbeat.faces.local.client import NobodyThere, ask
from herdbeat.service.retention import Pruned, prune, would_prune
from herdbeat.store.opening import alone_at, audit_at, store_at
from herdbeat.store.places import LedgerPlace, state_dir_of

PATIENCE = 3_600.0
"""Seconds: the first prune of a long history takes its time."""


def run(given: Given, world: World) -> int:
    fleet, ledger, now = fleet_and_place(given, world)
    if given.has(flags.DRY_RUN):
        pruned = would_prune(audit_at(ledger), fleet.retention, now)
    else:
        pruned = _prune(ledger, fleet.retention, now)
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({"dry_run": given.has(flags.DRY_RUN), **asdict(pruned)}))
    else:
        world.terminal.say(_sentence(pruned, fleet.retention, is_dry=given.has(flags.DRY_RUN)))
    return 0


def _prune(ledger: LedgerPlace, retention: Retention, now: datetime) -> Pruned:
    """The fleet that runs does it itself: one process writes into a ledger."""
    try:
        return Pruned(**ask(state_dir_of(ledger), {"do": "prune"}, patience=PATIENCE))
    except NobodyThere:
        pass
    with alone_at(ledger):
        store = store_at(ledger)
        store.open()
        try:
            return asyncio.run(prune(store, audit_at(ledger), retention, now))
        finally:
            store.close()


def _sentence(pruned: Pruned, retention: Retention, *, is_dry: bool) -> str:
    kept = f"{format_duration(retention.age)} and {retention.beats:,} beats per schedule are kept"
    what = f"{counted(pruned.beats, 'beat')} and {counted(pruned.runs, 'run')}"
    return f"{what} {'would go' if is_dry else 'removed'}; {kept}."
