"""`herdbeat db check`: read the ledger through, and say what is wrong with it."""

import json

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.db_places import fleet_and_place
from herdbeat.faces.cli.marks import counted, short_label
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.checkup import Checkup, check_up
from herdbeat.store.places import shown_place

UNWELL = 6


def run(given: Given, world: World) -> int:
    _, place, now = fleet_and_place(given, world)
    ledger, found = shown_place(place), check_up(place, now)
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({"ledger": ledger, **_object(found)}))
    elif found.is_well:
        world.terminal.say(f"{world.terminal.style('✓', 'green')} {ledger}   nothing is wrong with it")
    else:
        _show(world.terminal, ledger, found)
    return 0 if found.is_well else UNWELL


def _show(terminal: Terminal, ledger: str, found: Checkup) -> None:
    rows = [("damage", "", printable(line)) for line in found.damage]
    rows += [("scan", printable(short_label(subject)), what) for subject, what in found.findings]
    rows += [("quarantine", printable(short_label(label)), printable(why)) for label, why in found.quarantined]
    terminal.say(f"{terminal.style('✗', 'red')} {ledger}   {counted(len(rows), 'problem')}")
    for line in terminal.lines(rows, indent="  ", shrink=(1, 2)):
        terminal.say(line)
    if found.damage:
        terminal.remark("The file is damaged. Keep it, and restore a backup: herdbeat db restore FILE")
    elif found.findings:
        terminal.remark("A fleet that runs mends this by itself within five minutes: herdbeat up")
    if found.quarantined:
        terminal.remark("A quarantined schedule rests until it is edited. Its reason says what to change.")


def _object(found: Checkup) -> dict[str, object]:
    return {
        "well": found.is_well,
        "damage": list(found.damage),
        "findings": [{"subject": subject, "what": what} for subject, what in found.findings],
        "quarantined": [{"schedule": label, "reason": reason} for label, reason in found.quarantined],
    }
