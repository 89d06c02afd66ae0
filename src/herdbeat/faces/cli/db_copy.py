"""`herdbeat db copy`: the ledger of a file, all of it, into a database that many nodes can share."""

import json

from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.db_places import fleet_and_ledger, shown_progress
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.world import World
from herdbeat.service.moving import move
from herdbeat.store.places import PostgresPlace


def run(given: Given, world: World) -> int:
    fleet, ledger = fleet_and_ledger(given, world)
    to = PostgresPlace(url=_url(given, world), state_dir=ledger.parent)
    if given.word(0) and ":" in to.url.partition("://")[2].rpartition("@")[0]:
        world.terminal.remark("Others on this machine can read a password in a command line: use HERDBEAT_STORE.")
    try:
        with shown_progress(given, world) as progress:
            copied = move(ledger, to, fleet, progress)
    except KeyboardInterrupt:
        world.terminal.complain("Interrupted. Nothing was copied; begin again whenever you like.")
        raise
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({"from": str(ledger), "to": to.shown, "rows": copied}))
        return 0
    what = ", ".join(
        counted(copied[table], noun) for table, noun in (("schedule", "schedule"), ("beat", "beat"), ("run", "run"))
    )
    world.terminal.say(f"{world.terminal.style('✓', 'green')} {to.shown}   {what}")
    world.terminal.remark("Now write this URL as store: into the fleet's file, and start: herdbeat up --apply")
    return 0


def _url(given: Given, world: World) -> str:
    """From the environment too: what stands in a command line, everybody on the machine can read."""
    url = given.word(0) or world.environ.get("HERDBEAT_STORE", "")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "Write postgresql://USER@HOST/DATABASE, or put it into HERDBEAT_STORE if it has a password."
        raise UsageError("Where to copy the ledger is not said.", hint=hint)
    return url
