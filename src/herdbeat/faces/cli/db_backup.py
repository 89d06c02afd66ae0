"""`herdbeat db backup`: the ledger in one file, as it is now."""

import json
from pathlib import Path

from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.db_places import format_size, require_ledger_file, show_copy_progress
from herdbeat.faces.cli.world import Context
from herdbeat.store.backup import backup_ledger


def run_backup(args: ParsedArgs, context: Context) -> int:
    _, ledger = require_ledger_file(args, context)
    to = _backup_path(args.positional(0), context, ledger)
    with show_copy_progress(args, context) as progress:
        written = backup_ledger(ledger, to, replace=args.has(flags.FORCE), progress=progress)
    if args.has(flags.JSON):
        context.terminal.print(json.dumps({"file": str(to), "bytes": written}))
    else:
        context.terminal.print(f"{context.terminal.style('✓', 'green')} {to}   {format_size(written)}")
    return 0


def _backup_path(named: str | None, context: Context, ledger: Path) -> Path:
    if named is None:
        folder = ledger.parent / "backups"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{ledger.stem}-{context.clock.now():%Y%m%dT%H%M%SZ}.db"
    to = context.folder / named
    if to.is_dir() or not to.parent.is_dir():
        what = f"{to} is a folder." if to.is_dir() else f"There is no folder {to.parent}."
        raise NotFound(what, hint="Name a file in a folder that exists.")
    return to
