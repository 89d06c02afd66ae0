"""`herdbeat db restore`: a backup in the place of the ledger."""

import json

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.db_places import show_copy_progress
from herdbeat.faces.cli.fleets import load_fleet_files
from herdbeat.faces.cli.marks import format_count
from herdbeat.faces.cli.world import Context
from herdbeat.service.restoring import RestoreResult, restore_backup
from herdbeat.store.places import require_sqlite_path


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
