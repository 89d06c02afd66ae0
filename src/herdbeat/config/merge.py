"""Laying one tree over another: defaults, overrides, sub-fleets. Every value keeps its place."""

from collections.abc import Collection
from dataclasses import replace

from herdbeat.located import ConfigNode


def merge_nodes(base: ConfigNode | None, override: ConfigNode | None) -> ConfigNode:
    """Mappings are merged key by key, all else is replaced by what lies above."""
    if base is None or override is None:
        found = override or base
        assert found is not None, "merging needs at least one tree"
        return found
    if not isinstance(base.value, dict) or not isinstance(override.value, dict):
        return override
    merged = dict(base.value)
    for name, node in override.value.items():
        merged[name] = merge_nodes(merged.get(name), node)
    return replace(override, value=merged)


def select_keys(node: ConfigNode | None, names: Collection[str]) -> ConfigNode | None:
    """The mapping with these keys alone."""
    if node is None or not isinstance(node.value, dict):
        return None
    return replace(node, value={name: child for name, child in node.value.items() if name in names})


def drop_keys(node: ConfigNode, *names: str) -> ConfigNode:
    """The mapping without these keys."""
    if not isinstance(node.value, dict):
        return node
    return replace(node, value={name: child for name, child in node.value.items() if name not in names})


def rename_key(node: ConfigNode, old: str, new: str) -> ConfigNode:
    """The mapping with a key under another name, in the same position. One that exists already stays."""
    if not isinstance(node.value, dict) or old not in node.value:
        return node
    if new in node.value:
        return drop_keys(node, old)
    return replace(node, value={(new if name == old else name): child for name, child in node.value.items()})
