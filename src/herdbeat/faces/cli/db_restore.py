"""`herdbeat db restore`: a backup in the place of the ledger."""

import json

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.db_places import shown_progress
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.world import World
from herdbeat.service.restoring import Restored, restore
from herdbeat.store.places import ledger_path


def run(given: Given, world: World) -> int:
    _, fleet = read(given.value(flags.CONFIG), world)
    ledger = ledger_path(fleet)
    file = world.folder / given.words[0]
    with shown_progress(given, world) as progress:
        restored = restore(ledger, file, world.clock.now(), progress=progress)
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(_object(str(ledger), restored)))
        return 0
    world.terminal.say(f"{world.terminal.style('✓', 'green')} {ledger}   restored from {file}")
    if restored.interrupted or restored.missed:
        runs, beats = counted(restored.interrupted, "run"), counted(restored.missed, "waiting beat")
        world.terminal.say(f"  {runs} and {beats} of the backup will not start again: interrupted, missed")
    if restored.kept is not None:
        world.terminal.say(f"  the ledger from before is kept as {restored.kept}")
    return 0


def _object(ledger: str, restored: Restored) -> dict[str, object]:
    kept = None if restored.kept is None else str(restored.kept)
    return {"ledger": ledger, "interrupted": restored.interrupted, "missed": restored.missed, "kept": kept}
