"""Names by which one part of a fleet speaks of another: channels in hooks, targets in rules."""

from collections.abc import Collection, Iterator

from herdbeat.codes import Code
from herdbeat.config.drafts import TargetSource
from herdbeat.config.guess import find_closest_match
from herdbeat.config.report import Diagnostics
from herdbeat.errors import did_you_mean_suffix
from herdbeat.located import ConfigNode


def check_hook_channels(target_source: TargetSource, diagnostics: Diagnostics) -> None:
    """Every `notify:` of its hooks must be a channel of the fleet."""
    known = [name for name, _ in target_source.notify.items()] if target_source.notify is not None else []
    for hook in _iter_hooks(target_source.node):
        name = hook.child("notify")
        if name is not None and isinstance(name.value, str) and name.value not in known:
            message = f'There is no channel "{name.value}"{did_you_mean_suffix(find_closest_match(name.value, known))}'
            hint = f"Channels under notify: {', '.join(known) or 'none'}."
            diagnostics.error(Code.INVALID_VALUE, message, name.location, hint)


def check_rule_targets(
    target_source: TargetSource, schedule: ConfigNode, targets: Collection[str], diagnostics: Diagnostics
) -> None:
    """Every `trigger:` of its rules must be a target; a sibling in the same sub-fleet needs no prefix."""
    prefix = target_source.name.rpartition(".")[0]
    for rule in _iter_rules(schedule, target_source.rules):
        name = rule.child("trigger")
        if name is None or not isinstance(name.value, str):
            continue
        target = name.value.partition("/")[0]
        if target not in targets and f"{prefix}.{target}" not in targets:
            message = f'There is no target "{target}"{did_you_mean_suffix(find_closest_match(target, targets))}'
            diagnostics.error(Code.UNKNOWN_TARGET, message, name.location, "Correct the name, or add the target.")


def _iter_hooks(node: ConfigNode) -> Iterator[ConfigNode]:
    for block in (node, node.child("hooks")):
        for name in ("after_run", "on_error"):
            listed = block.child(name) if block is not None else None
            if listed is not None:
                yield from listed.elements()


def _iter_rules(schedule: ConfigNode, sets: ConfigNode | None) -> Iterator[ConfigNode]:
    adapt = schedule.child("adapt")
    for rule in adapt.elements() if adapt is not None else ():
        used = rule.child("use")
        named = sets.child(str(used.value)) if used is not None and sets is not None else None
        yield from named.elements() if named is not None else (rule,)
