"""Older and shorter names of keys, brought to the one name that the rest of the code knows."""

from dataclasses import replace

from herdbeat.codes import Code
from herdbeat.config.keys.policies import POLICIES
from herdbeat.config.keys.schedule import OWN_KEYS, TRIGGER_KEYS
from herdbeat.config.merge import renamed
from herdbeat.config.report import Report
from herdbeat.located import Located

_ALIASES = {alias: key.name for key in (*TRIGGER_KEYS, *OWN_KEYS, *POLICIES) for alias in key.aliases}
_DEPRECATED = {"workspace": "working_directory"}


def settle_names(node: Located, report: Report) -> Located:
    """A target, defaults or overrides with settled names, those of its schedules included.

    Before merging: an override that says `expression:` must meet a file that says `cron:`.
    """
    node = _settle_aliases(settle_deprecated(node, report), report)
    schedules = node.child("schedules")
    if not isinstance(node.value, dict) or schedules is None or not isinstance(schedules.value, dict):
        return node
    settled = {name: _settle_aliases(child, report) for name, child in schedules.value.items()}
    return replace(node, value=node.value | {"schedules": replace(schedules, value=settled)})


def settle_deprecated(node: Located, report: Report) -> Located:
    """The mapping with newer names; each older one is a warning."""
    for old, new in _DEPRECATED.items():
        child = node.child(old)
        if child is not None:
            message = f'"{old}" is now called "{new}".'
            report.warning(Code.DEPRECATED_KEY, message, child.label, f"Write {new} when you next edit the file.")
            node = renamed(node, old, new)
    return node


def _settle_aliases(node: Located, report: Report) -> Located:
    for alias, name in _ALIASES.items():
        child = node.child(alias)
        if child is None:
            continue
        # herdctl reads `expression` only where `cron` is missing. In our files the check of all keys
        # refuses whoever says one thing twice, so both must reach it.
        if node.child(name) is None or report.is_foreign(child.label):
            node = renamed(node, alias, name)
    return node
