"""Older and shorter names of keys, normalized to the one name that the rest of the code knows."""

from dataclasses import replace

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode, rename_key
from herdbeat.config.schema.policies import POLICIES
from herdbeat.config.schema.schedule import SCHEDULE_KEYS, TRIGGER_KEYS
from herdbeat.error_codes import Code

_ALIASES = {alias: key.name for key in (*TRIGGER_KEYS, *SCHEDULE_KEYS, *POLICIES) for alias in key.aliases}
_DEPRECATED_KEYS = {"workspace": "working_directory"}


def normalize_keys(node: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    """Return a target, defaults or overrides with normalized keys, those of its schedules included.

    Call it before merging: an override with `expression:` must meet a file with `cron:`.
    """
    node = _normalize_aliases(normalize_deprecated_keys(node, diagnostics), diagnostics)
    schedules = node.child("schedules")
    if not isinstance(node.value, dict) or schedules is None or not isinstance(schedules.value, dict):
        return node
    normalized = {name: _normalize_aliases(child, diagnostics) for name, child in schedules.value.items()}
    return replace(node, value=node.value | {"schedules": replace(schedules, value=normalized)})


def normalize_deprecated_keys(node: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    """Return the mapping with newer names; each older one is a warning."""
    for old, new in _DEPRECATED_KEYS.items():
        child = node.child(old)
        if child is not None:
            message = f'"{old}" is now called "{new}".'
            hint = f"Write {new} when you next edit the file."
            diagnostics.warning(Code.DEPRECATED_KEY, message, child.report_location, hint)
            node = rename_key(node, old, new)
    return node


def _normalize_aliases(node: ConfigNode, diagnostics: Diagnostics) -> ConfigNode:
    for alias, name in _ALIASES.items():
        child = node.child(alias)
        if child is None:
            continue
        # herdctl reads `expression` only where `cron` is missing. In our files both must stay, because the check of
        # all keys reports two names of one key.
        if node.child(name) is None or diagnostics.is_foreign(child.report_location):
            node = rename_key(node, alias, name)
    return node
