"""`herdbeat db copy`: the ledger of a file, all of it, into a database that many nodes can share."""

import json

from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.db_places import require_ledger_file, show_copy_progress
from herdbeat.faces.cli.marks import format_count
from herdbeat.faces.cli.world import Context
from herdbeat.service.moving import migrate_to_postgres
from herdbeat.store.places import PostgresLocation


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
