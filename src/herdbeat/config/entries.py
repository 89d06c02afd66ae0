"""The schedules of a target as written, each with everything it inherits laid below it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from herdbeat.codes import Code
from herdbeat.config.drafts import DefaultZone, TargetSource
from herdbeat.config.keys.agent import AGENT_KEYS
from herdbeat.config.keys.policies import BUDGET
from herdbeat.config.keys.schedule import SCHEDULE, TRIGGER_KEYS
from herdbeat.config.merge import drop_keys, merge_nodes, select_keys
from herdbeat.config.report import Diagnostics
from herdbeat.config.wording import wrong_type_error
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.located import ConfigNode

_TRIGGER_KEY_NAMES = tuple(name for key in TRIGGER_KEYS for name in (key.name, *key.aliases))
_KINDS_WITH_OWN_WORK = (TriggerKind.WEBHOOK, TriggerKind.CHAT)
_AGENT_KEY_NAMES = frozenset(key.name for key in AGENT_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSource:
    """One schedule: `node` is the whole of it, `written` only what stands in its own place."""

    name: str
    node: ConfigNode
    raw: ConfigNode
    zone: DefaultZone
    is_invalid: bool = False


def iter_schedule_sources(target_source: TargetSource, diagnostics: Diagnostics) -> Iterator[ScheduleSource]:
    """Those under `schedules:`, or else the one beside the target's name; then those that imports add."""
    target_level = _target_level_keys(target_source)
    trigger = next((child for name, child in target_level.items() if name in _TRIGGER_KEY_NAMES), None)
    defaults = _inherited_defaults(target_source)
    inherited = merge_nodes(defaults, drop_keys(target_level, *_TRIGGER_KEY_NAMES))
    listed = _listed_schedules(target_source, diagnostics)
    for name, written in listed.items():
        yield ScheduleSource(name=name, node=_merge_inherited(inherited, written), raw=written, zone=target_source.zone)
    if trigger is not None and listed:
        message = "A trigger cannot stand beside the name of a target that also has schedules."
        diagnostics.error(
            Code.CONFLICTING_KEYS, message, trigger.report_location, "Move it into schedules, under a name."
        )
    elif trigger is not None:
        node = replace(merge_nodes(defaults, target_level), key=target_source.node.key)
        yield ScheduleSource(name=DEFAULT_SCHEDULE_NAME, node=node, raw=target_source.node, zone=target_source.zone)
    for name, imported in target_source.imported.items():
        # The folder's own rule about zones outranks the fleet's defaults (SEMANTICS 38).
        node = _merge_inherited(drop_keys(inherited, "timezone"), imported.node)
        is_refused = imported.is_invalid
        yield ScheduleSource(name=name, node=node, raw=imported.node, zone=imported.zone, is_invalid=is_refused)


def _inherited_defaults(target_source: TargetSource) -> ConfigNode | None:
    """What the fleet says for schedules that say nothing. About the budget, their target may have said it."""
    if target_source.defaults is None or target_source.node.child(BUDGET.name) is None:
        return target_source.defaults
    return drop_keys(target_source.defaults, BUDGET.name)


def _merge_inherited(inherited: ConfigNode, written: ConfigNode) -> ConfigNode:
    """The schedule over what it inherits.

    A call or a message brings its own work. With the agent's work_source it would be skipped whenever the
    queue is empty, and nobody would get an answer.
    """
    if written.find(("type",)).value in _KINDS_WITH_OWN_WORK:
        inherited = drop_keys(inherited, "work_source")
    return replace(merge_nodes(inherited, written), key=written.key)


def _listed_schedules(target_source: TargetSource, diagnostics: Diagnostics) -> dict[str, ConfigNode]:
    listed = target_source.node.child("schedules")
    if listed is None or listed.value is None:
        return {}
    if not isinstance(listed.value, dict):
        diagnostics.add(wrong_type_error(listed, "a mapping from names to schedules"), listed)
        return {}
    return listed.value


def _target_level_keys(target_source: TargetSource) -> ConfigNode:
    """What the target says about its schedules beside its own name. A budget there is its own: they share it."""
    names = set(SCHEDULE.by_name) - {BUDGET.name}
    if target_source.kind is TargetKind.AGENT:
        names -= _AGENT_KEY_NAMES
    found = select_keys(target_source.node, names)
    return found if found is not None else ConfigNode({}, target_source.node.location)
