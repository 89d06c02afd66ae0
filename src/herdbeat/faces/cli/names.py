"""`herdbeat completion names`: what the shells ask while somebody types. It answers at once or not at all."""

from herdbeat.domain.labels import label_of
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.signpost import find_bare_ledger, find_signpost
from herdbeat.faces.cli.world import World
from herdbeat.service.states import state_of

MOST = 200
"""Names that are offered: nobody reads more, and who types one letter more gets others."""


def run(given: Given, world: World) -> int:
    """A name and its state a line, parted by a tab. Nothing where there is no ledger, or where anything is wrong."""
    for name, state in _offers(given, world):
        world.terminal.say(f"{name}\t{state}")
    return 0


def _offers(given: Given, world: World) -> list[tuple[str, str]]:
    config = given.value(flags.CONFIG)
    signpost = find_signpost(config, world)
    ledger = find_bare_ledger(config, world) if signpost is None else signpost.ledger
    if ledger is None:
        return []
    import sqlite3  # noqa: PLC0415 -- only where there is something to ask

    from herdbeat.store.names import names_beginning  # noqa: PLC0415

    try:
        found = names_beginning(ledger, given.word(1) or "", MOST)
    except sqlite3.Error:
        return []  # somebody is typing: this is no moment for an error
    now = world.clock.now()
    return [(label_of(each.target, each.name), state_of(each, now)) for each in found]
