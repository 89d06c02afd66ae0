"""`webhook`, `chat` and `manual` triggers, which wait for an event."""

from datetime import UTC, datetime

import pytest

from herdbeat.domain.trigger import Trigger, TriggerKind, event_dedup_id
from herdbeat.triggers import Chat, Manual, Webhook

NOW = datetime(2026, 4, 1, 9, 0, 0, 250_000, tzinfo=UTC)
KINDS = [(Webhook(), TriggerKind.WEBHOOK), (Chat(), TriggerKind.CHAT), (Manual(), TriggerKind.MANUAL)]


@pytest.mark.parametrize(("trigger", "kind"), KINDS)
def test_the_clock_never_fires_an_event_trigger(trigger: Trigger, kind: TriggerKind) -> None:
    assert trigger.kind is kind
    assert kind.waits_for_event
    assert trigger.next_time(None, NOW) is None
    assert trigger.next_time(NOW, NOW) is None
    assert trigger.interval is None


@pytest.mark.parametrize(
    ("kind", "event", "dedup_id"),
    [
        (TriggerKind.WEBHOOK, "72d3162e-cc78", "webhook:72d3162e-cc78"),
        (TriggerKind.CHAT, "1712.0001", "chat:1712.0001"),
        (TriggerKind.MANUAL, "7f3k", "manual:7f3k"),
    ],
)
def test_the_dedup_id_contains_the_id_of_the_event(kind: TriggerKind, event: str, dedup_id: str) -> None:
    assert event_dedup_id(kind, event) == dedup_id


def test_a_one_shot_hint_on_an_event_kind_has_its_instant_as_id() -> None:
    assert Webhook().dedup_id(NOW, "devops/deploy") == "webhook:2026-04-01T09:00:00.250000Z"


@pytest.mark.parametrize(
    ("trigger", "title", "sentence"),
    [
        (Webhook(), "Webhook trigger", "on every accepted webhook call"),
        (Chat(), "Chat trigger", "on every message in its channel"),
        (Manual(), "Manual trigger", "only on request"),
    ],
)
def test_an_event_trigger_has_a_title_and_a_sentence(trigger: Trigger, title: str, sentence: str) -> None:
    assert trigger.variables(NOW, "devops/deploy")["title"] == title
    assert trigger.describe() == sentence
