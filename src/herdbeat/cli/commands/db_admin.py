"""`herdbeat db copy`, `prune` and `restore`: the ledger as a whole."""

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.db import require_ledger, require_ledger_file, show_copy_progress
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor
from herdbeat.cli.fleet_handle import build_handle, load_fleet_files, use_ledger_clock
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Retention
from herdbeat.durations import format_duration
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import PruneHistory, PruneResult, result_to_json
from herdbeat.service.maintenance.ledger import RestoreResult, migrate_to_postgres, restore_backup
from herdbeat.service.maintenance.retention import count_prunable
from herdbeat.store.location import PostgresLocation, open_audit, require_sqlite_path


def run_copy(args: ParsedArgs, context: Context) -> Output:
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
    what = ", ".join(
        format_count(copied[table], noun)
        for table, noun in (("schedule", "schedule"), ("beat", "beat"), ("run", "run"))
    )
    next_step = "Now write this URL as store: into the fleet's file, and start: herdbeat up --apply"
    return Output(
        json=lambda: {"from": str(ledger), "to": to.display_url, "rows": copied},
        lines=[f"{context.terminal.style('✓', 'green')} {to.display_url}   {what}", Notice(next_step)],
        is_compact=True,
    )


def _database_url(args: ParsedArgs, context: Context) -> str:
    """The environment may hold it, too: everybody on the machine can read a command line."""
    url = args.positional(0) or context.environ.get("HERDBEAT_STORE", "")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "Write postgresql://USER@HOST/DATABASE, or put it into HERDBEAT_STORE if it has a password."
        raise UsageError("Where to copy the ledger is not said.", hint=hint)
    return url


def run_prune(args: ParsedArgs, context: Context) -> Output:
    fleet, ledger, now = require_ledger(args, context)
    if args.has(flags.DRY_RUN):
        pruned = count_prunable(open_audit(ledger), fleet.retention, now)
    else:
        pruned = use_ledger_clock(build_handle(fleet, context), context).dispatcher.run(
            current_actor(context), PruneHistory()
        )
    is_dry = args.has(flags.DRY_RUN)
    return Output(
        json=lambda: {"dry_run": is_dry, **result_to_json(pruned)},
        lines=[_describe_pruned(pruned, fleet.retention, is_dry=is_dry)],
        is_compact=True,
    )


def _describe_pruned(pruned: PruneResult, retention: Retention, *, is_dry: bool) -> str:
    kept = f"{format_duration(retention.age)} and {retention.beats:,} beats per schedule are kept"
    what = f"{format_count(pruned.beats, 'beat')} and {format_count(pruned.runs, 'run')}"
    return f"{what} {'would go' if is_dry else 'removed'}; {kept}."


def run_restore(args: ParsedArgs, context: Context) -> Output:
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    ledger = require_sqlite_path(fleet)
    file = context.folder / args.positionals[0]
    with show_copy_progress(args, context) as progress:
        restored = restore_backup(ledger, file, context.clock.now(), progress=progress)
    lines = [f"{context.terminal.style('✓', 'green')} {ledger}   restored from {file}"]
    if restored.interrupted or restored.missed:
        runs, beats = format_count(restored.interrupted, "run"), format_count(restored.missed, "waiting beat")
        lines.append(f"  {runs} and {beats} of the backup will not start again: interrupted, missed")
    if restored.kept is not None:
        lines.append(f"  the ledger from before is kept as {restored.kept}")
    return Output(json=lambda: _restored_object(str(ledger), restored), lines=lines, is_compact=True)


def _restored_object(ledger: str, restored: RestoreResult) -> dict[str, object]:
    kept = None if restored.kept is None else str(restored.kept)
    return {"ledger": ledger, "interrupted": restored.interrupted, "missed": restored.missed, "kept": kept}
