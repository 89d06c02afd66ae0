"""`herdbeat db backup`: the ledger in one file, as it is now."""

import json
from pathlib import Path

from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.db_places import fleet_and_ledger, shown_progress, size
from herdbeat.faces.cli.world import World
from herdbeat.store.backup import back_up


def run(given: Given, world: World) -> int:
    _, ledger = fleet_and_ledger(given, world)
    to = _destination(given.word(0), world, ledger)
    with shown_progress(given, world) as progress:
        written = back_up(ledger, to, replace=given.has(flags.FORCE), progress=progress)
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({"file": str(to), "bytes": written}))
    else:
        world.terminal.say(f"{world.terminal.style('✓', 'green')} {to}   {size(written)}")
    return 0


def _destination(named: str | None, world: World, ledger: Path) -> Path:
    if named is None:
        folder = ledger.parent / "backups"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{ledger.stem}-{world.clock.now():%Y%m%dT%H%M%SZ}.db"
    to = world.folder / named
    if to.is_dir() or not to.parent.is_dir():
        what = f"{to} is a folder." if to.is_dir() else f"There is no folder {to.parent}."
        raise NotFound(what, hint="Name a file in a folder that exists.")
    return to
