"""`herdbeat nodes`: who runs this fleet."""

import json

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import NodeRecord
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.marks import near_time
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.members import Standing, find_nodes, nodes_object, standing_of

_HEADINGS = ["NODE", "HOST", "PID", "VERSION", "STATE", "SINCE", "SEEN", "RUNS", "LABELS"]
_COLOURS = {Standing.ALIVE: "green", Standing.LEFT: "dim", Standing.DEAD: "red"}


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        is_served, limit = ledger.holder is not None, wanted_rows(given.value(flags.COUNT))
        found = find_nodes(
            ledger.opened(), ledger.now, limit=limit, is_served=is_served, with_gone=given.has(flags.ALL)
        )
        if given.has(flags.JSON):
            world.terminal.say(json.dumps(nodes_object(found, ledger.now, is_served=is_served), indent=2))
            return 0
        rows = [_row(world.terminal, ledger, each, is_served=is_served) for each in found]
        for line in world.terminal.lines([_HEADINGS, *rows], shrink=(1, 8)) if rows else []:
            world.terminal.say(line)
        _remark(world, ledger)
    return 0


def _remark(world: World, ledger: Ledger) -> None:
    if ledger.holder is not None:
        return
    if ledger.crew:
        world.terminal.remark("No node works, so nothing starts. Start one without --no-workers: herdbeat up")
    else:
        world.terminal.remark("No node runs this fleet. Start one with: herdbeat up")


def _row(terminal: Terminal, ledger: Ledger, node: NodeRecord, *, is_served: bool) -> list[str]:
    standing = standing_of(node, ledger.now, is_served=is_served)
    return [
        short_id(node.id),
        printable(node.host),
        str(node.pid),
        node.version,
        terminal.style(standing, _COLOURS[standing]),
        near_time(node.started_at, ledger.now, ledger.zone),
        near_time(node.stopped_at or node.seen_at, ledger.now, ledger.zone),
        str(node.running) if node.works else "none here",
        printable(", ".join(node.labels)) or "–",
    ]
