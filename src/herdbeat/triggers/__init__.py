"""Trigger kinds: when a schedule is due. `KINDS` is the only list of them."""

from collections.abc import Mapping
from typing import Protocol

from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.event import Chat, Manual, Webhook
from herdbeat.triggers.interval import FixedRate, Interval


class TriggerType(Protocol):
    """The class of a trigger kind, which builds triggers from their stored options."""

    def from_options(self, options: Mapping[str, str], /) -> Trigger: ...


KINDS: dict[TriggerKind, TriggerType] = {
    TriggerKind.INTERVAL: Interval,
    TriggerKind.CRON: Cron,
    TriggerKind.DELAY: Delay,
    TriggerKind.WEBHOOK: Webhook,
    TriggerKind.CHAT: Chat,
    TriggerKind.MANUAL: Manual,
}


def load_trigger(kind: TriggerKind | str, options: Mapping[str, str]) -> Trigger:
    """Return the trigger of a stored kind and options: `load_trigger(t.kind, t.options()) == t`."""
    return KINDS[TriggerKind(kind)].from_options(options)


__all__ = [
    "KINDS",
    "Chat",
    "Cron",
    "Delay",
    "FixedRate",
    "Interval",
    "Manual",
    "TriggerType",
    "Webhook",
    "load_trigger",
]
