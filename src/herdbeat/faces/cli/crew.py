"""Who acts on what a command has written: the node here, nodes elsewhere, or nobody yet."""

from pathlib import Path

from herdbeat.faces.cli.ledger import Ledger
from herdbeat.service.members import crew_words

WRITTEN = "it is written down, and counts from the next herdbeat up."


def effect_words(ledger: Ledger) -> str:
    """From when on a change counts that no node here was told of."""
    working = [node for node in ledger.crew if node.works]
    if working:
        return f"{crew_words(working)} this fleet: it counts at once."
    if isinstance(ledger.path, Path):
        return f"Nothing runs here: {WRITTEN}"
    return f"No node runs this fleet: {WRITTEN}"
