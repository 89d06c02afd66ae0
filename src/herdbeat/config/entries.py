"""The schedules of a target as written, each with everything it inherits laid below it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from herdbeat.codes import Code
from herdbeat.config.drafts import Draft, FleetZone
from herdbeat.config.keys.agent import AGENT_KEYS
from herdbeat.config.keys.policies import BUDGET
from herdbeat.config.keys.schedule import SCHEDULE, TRIGGER_KEYS
from herdbeat.config.merge import merge, only, without
from herdbeat.config.report import Report
from herdbeat.config.wording import wrong_type
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.located import Located

_TRIGGER_NAMES = tuple(name for key in TRIGGER_KEYS for name in (key.name, *key.aliases))
_BRING_WORK = (TriggerKind.WEBHOOK, TriggerKind.CHAT)
_AGENT_NAMES = frozenset(key.name for key in AGENT_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One schedule: `node` is the whole of it, `written` only what stands in its own place."""

    name: str
    node: Located
    written: Located
    zone: FleetZone
    is_refused: bool = False


def entries(draft: Draft, report: Report) -> Iterator[Entry]:
    """Those under `schedules:`, or else the one beside the target's name; then those that imports add."""
    beside = _beside(draft)
    trigger = next((child for name, child in beside.items() if name in _TRIGGER_NAMES), None)
    defaults = _defaults(draft)
    inherited = merge(defaults, without(beside, *_TRIGGER_NAMES))
    listed = _listed(draft, report)
    for name, written in listed.items():
        yield Entry(name=name, node=_laid(inherited, written), written=written, zone=draft.zone)
    if trigger is not None and listed:
        message = "A trigger cannot stand beside the name of a target that also has schedules."
        report.error(Code.CONFLICTING_KEYS, message, trigger.label, "Move it into schedules, under a name.")
    elif trigger is not None:
        node = replace(merge(defaults, beside), key=draft.node.key)
        yield Entry(name=DEFAULT_NAME, node=node, written=draft.node, zone=draft.zone)
    for name, imported in draft.imported.items():
        # The folder's own rule about zones outranks the fleet's defaults (SEMANTICS 38).
        node = _laid(without(inherited, "timezone"), imported.node)
        is_refused = imported.is_refused
        yield Entry(name=name, node=node, written=imported.node, zone=imported.zone, is_refused=is_refused)


def _defaults(draft: Draft) -> Located | None:
    """What the fleet says for schedules that say nothing. About the budget, their target may have said it."""
    if draft.defaults is None or draft.node.child(BUDGET.name) is None:
        return draft.defaults
    return without(draft.defaults, BUDGET.name)


def _laid(inherited: Located, written: Located) -> Located:
    """The schedule over what it inherits.

    A call or a message brings its own work. With the agent's work_source it would be skipped whenever the
    queue is empty, and nobody would get an answer.
    """
    if written.find(("type",)).value in _BRING_WORK:
        inherited = without(inherited, "work_source")
    return replace(merge(inherited, written), key=written.key)


def _listed(draft: Draft, report: Report) -> dict[str, Located]:
    listed = draft.node.child("schedules")
    if listed is None or listed.value is None:
        return {}
    if not isinstance(listed.value, dict):
        report.misfit(wrong_type(listed, "a mapping from names to schedules"), listed)
        return {}
    return listed.value


def _beside(draft: Draft) -> Located:
    """What the target says about its schedules beside its own name. A budget there is its own: they share it."""
    names = set(SCHEDULE.by_name) - {BUDGET.name}
    if draft.kind is TargetKind.AGENT:
        names -= _AGENT_NAMES
    found = only(draft.node, names)
    return found if found is not None else Located({}, draft.node.place)
