"""Who acts on what a command has written: the node here, nodes elsewhere, or nobody yet."""

from pathlib import Path

from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.service.members import describe_nodes

STORED_NOTICE = "it is written down, and counts from the next herdbeat up."


def describe_effect(handle: FleetHandle) -> str:
    """From when on a change counts that no node here was told of."""
    working = [node for node in handle.live_nodes if node.works]
    if working:
        return f"{describe_nodes(working)} this fleet: it counts at once."
    if isinstance(handle.path, Path):
        return f"Nothing runs here: {STORED_NOTICE}"
    return f"No node runs this fleet: {STORED_NOTICE}"
