"""Names by which one part of a fleet speaks of another: channels in hooks, targets in rules."""

from collections.abc import Collection, Iterator

from herdbeat.codes import Code
from herdbeat.config.drafts import Draft
from herdbeat.config.guess import did_you_mean
from herdbeat.config.report import Report
from herdbeat.errors import ending
from herdbeat.located import Located


def check_channels(draft: Draft, report: Report) -> None:
    """Every `notify:` of its hooks must be a channel of the fleet."""
    known = [name for name, _ in draft.notify.items()] if draft.notify is not None else []
    for hook in _hooks(draft.node):
        name = hook.child("notify")
        if name is not None and isinstance(name.value, str) and name.value not in known:
            message = f'There is no channel "{name.value}"{ending(did_you_mean(name.value, known))}'
            hint = f"Channels under notify: {', '.join(known) or 'none'}."
            report.error(Code.INVALID_VALUE, message, name.place, hint)


def check_siblings(draft: Draft, schedule: Located, targets: Collection[str], report: Report) -> None:
    """Every `trigger:` of its rules must be a target; a sibling in the same sub-fleet needs no prefix."""
    prefix = draft.name.rpartition(".")[0]
    for rule in _rules(schedule, draft.rules):
        name = rule.child("trigger")
        if name is None or not isinstance(name.value, str):
            continue
        target = name.value.partition("/")[0]
        if target not in targets and f"{prefix}.{target}" not in targets:
            message = f'There is no target "{target}"{ending(did_you_mean(target, targets))}'
            report.error(Code.UNKNOWN_TARGET, message, name.place, "Correct the name, or add the target.")


def _hooks(node: Located) -> Iterator[Located]:
    for block in (node, node.child("hooks")):
        for name in ("after_run", "on_error"):
            listed = block.child(name) if block is not None else None
            if listed is not None:
                yield from listed.elements()


def _rules(schedule: Located, sets: Located | None) -> Iterator[Located]:
    adapt = schedule.child("adapt")
    for rule in adapt.elements() if adapt is not None else ():
        used = rule.child("use")
        named = sets.child(str(used.value)) if used is not None and sets is not None else None
        yield from named.elements() if named is not None else (rule,)
