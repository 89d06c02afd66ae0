"""`herdbeat db prune`: history beyond `retention` goes now, not at the next full hour."""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.db import require_ledger, require_ledger_file, show_copy_progress
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.control_socket.client import NotRunning, send_request
from herdbeat.domain.fleet import Retention
from herdbeat.durations import format_duration
from herdbeat.errors import UsageError
from herdbeat.service.maintenance.ledger import RestoreResult, migrate_to_postgres, restore_backup
from herdbeat.service.maintenance.retention import PruneResult, count_prunable, prune_history
from herdbeat.store.location import (
    PostgresLocation,
    StoreLocation,
    create_store,
    exclusive_lock,
    open_audit,
    require_sqlite_path,
    resolve_state_dir,
)

# `herdbeat db copy`: the ledger of a file, all of it, into a database that many nodes can share.


def run_copy(args: ParsedArgs, context: Context) -> int:
    fleet, ledger = require_ledger_file(args, context)
    to = PostgresLocation(url=_database_url(args, context), state_dir=ledger.parent)
    if args.positional(0) and ":" in to.url.partition("://")[2].rpartition("@")[0]:
        context.terminal.info("Others on this machine can read a password in a command line: use HERDBEAT_STORE.")
    try:
        with show_copy_progress(args, context) as progress:
            copied = migrate_to_postgres(ledger, to, fleet, progress)
    except KeyboardInterrupt:
        context.terminal.error("Interrupted. Nothing was copied; begin again whenever you like.")
        raise
    if args.has(flags.JSON):
        context.terminal.print(json.dumps({"from": str(ledger), "to": to.display_url, "rows": copied}))
        return 0
    what = ", ".join(
        format_count(copied[table], noun)
        for table, noun in (("schedule", "schedule"), ("beat", "beat"), ("run", "run"))
    )
    context.terminal.print(f"{context.terminal.style('✓', 'green')} {to.display_url}   {what}")
    context.terminal.info("Now write this URL as store: into the fleet's file, and start: herdbeat up --apply")
    return 0


def _database_url(args: ParsedArgs, context: Context) -> str:
    """From the environment too: what stands in a command line, everybody on the machine can read."""
    url = args.positional(0) or context.environ.get("HERDBEAT_STORE", "")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "Write postgresql://USER@HOST/DATABASE, or put it into HERDBEAT_STORE if it has a password."
        raise UsageError("Where to copy the ledger is not said.", hint=hint)
    return url


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


# `herdbeat db restore`: a backup in the place of the ledger.


def run_restore(args: ParsedArgs, context: Context) -> int:
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    ledger = require_sqlite_path(fleet)
    file = context.folder / args.positionals[0]
    with show_copy_progress(args, context) as progress:
        restored = restore_backup(ledger, file, context.clock.now(), progress=progress)
    if args.has(flags.JSON):
        context.terminal.print(json.dumps(_restored_object(str(ledger), restored)))
        return 0
    context.terminal.print(f"{context.terminal.style('✓', 'green')} {ledger}   restored from {file}")
    if restored.interrupted or restored.missed:
        runs, beats = format_count(restored.interrupted, "run"), format_count(restored.missed, "waiting beat")
        context.terminal.print(f"  {runs} and {beats} of the backup will not start again: interrupted, missed")
    if restored.kept is not None:
        context.terminal.print(f"  the ledger from before is kept as {restored.kept}")
    return 0


def _restored_object(ledger: str, restored: RestoreResult) -> dict[str, object]:
    kept = None if restored.kept is None else str(restored.kept)
    return {"ledger": ledger, "interrupted": restored.interrupted, "missed": restored.missed, "kept": kept}
