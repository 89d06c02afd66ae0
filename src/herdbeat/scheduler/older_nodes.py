"""What older nodes do not know, while two versions of the program share a ledger.

A new version may keep beats from running in a way that the version before does not look at. Such a gate is refused
until every node that starts beats knows it: a pause that holds on one node only is worse than none.
"""

from collections.abc import Sequence

from herdbeat.errors import Conflict
from herdbeat.store.base import Gate, OlderNode, Transaction

_MAX_NAMES = 3


def require_gate(tx: Transaction, gate: Gate, hint: str) -> None:
    """Raises Conflict while a node runs that would start what the gate keeps back."""
    older = tx.node_list_older(gate)
    if older:
        article = "an" if gate[0] in "aeiou" else "a"
        message = f"{describe_older(older)} would not respect {article} {gate}: it runs an older version."
        raise Conflict(message, hint=hint)


def describe_older(nodes: Sequence[OlderNode]) -> str:
    """Return who runs an older version: "Node 3 on db1 (0.1.0)"; of many, the first three."""
    names = [f"node {node.id} on {node.host} ({node.version})" for node in nodes[:_MAX_NAMES]]
    more = [f"{len(nodes) - _MAX_NAMES} more"] if len(nodes) > _MAX_NAMES else []
    text = " and ".join([", ".join(names), *more])
    return text[:1].upper() + text[1:]
