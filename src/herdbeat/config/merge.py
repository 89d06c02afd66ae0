"""Laying one tree over another: defaults, overrides, sub-fleets. Every value keeps its place."""

from collections.abc import Collection
from dataclasses import replace

from herdbeat.located import Located


def merge(below: Located | None, above: Located | None) -> Located:
    """Mappings are merged key by key, all else is replaced by what lies above."""
    if below is None or above is None:
        found = above or below
        assert found is not None, "merging needs at least one tree"
        return found
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    merged = dict(below.value)
    for name, node in above.value.items():
        merged[name] = merge(merged.get(name), node)
    return replace(above, value=merged)


def only(node: Located | None, names: Collection[str]) -> Located | None:
    """The mapping with these keys alone."""
    if node is None or not isinstance(node.value, dict):
        return None
    return replace(node, value={name: child for name, child in node.value.items() if name in names})


def without(node: Located, *names: str) -> Located:
    """The mapping without these keys."""
    if not isinstance(node.value, dict):
        return node
    return replace(node, value={name: child for name, child in node.value.items() if name not in names})


def renamed(node: Located, old: str, new: str) -> Located:
    """The mapping with a key under another name, in the same position. One that exists already stays."""
    if not isinstance(node.value, dict) or old not in node.value:
        return node
    if new in node.value:
        return without(node, old)
    return replace(node, value={(new if name == old else name): child for name, child in node.value.items()})
