"""The table of trigger kinds, and the contract that all of them keep."""

import json
from datetime import UTC, datetime

import pytest

from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.timestamps import parse_zone
from herdbeat.triggers import KINDS, Chat, Cron, Delay, Interval, Manual, Webhook, load_trigger

NOW = datetime(2026, 4, 1, 9, tzinfo=UTC)
ONE_OF_EACH: list[Trigger] = [
    Interval.parse("5m"),
    Cron.parse("0 9 * * MON-FRI", parse_zone("Europe/Berlin")),
    Delay(NOW, arm=3),
    Webhook(),
    Chat(),
    Manual(),
]


def test_every_kind_is_in_the_table() -> None:
    assert list(KINDS) == list(TriggerKind)
    assert [trigger.kind for trigger in ONE_OF_EACH] == list(TriggerKind)


@pytest.mark.parametrize("trigger", ONE_OF_EACH, ids=lambda trigger: str(trigger.kind))
def test_a_stored_trigger_comes_back_equal(trigger: Trigger) -> None:
    stored = json.dumps({"kind": trigger.kind, "options": dict(trigger.options())})

    again = load_trigger(**json.loads(stored))

    assert again == trigger
    assert hash(again) == hash(trigger)


@pytest.mark.parametrize("trigger", ONE_OF_EACH, ids=lambda trigger: str(trigger.kind))
def test_every_kind_provides_the_variables_of_the_table(trigger: Trigger) -> None:
    variables = trigger.variables(NOW, "scout/triage")

    assert variables["fire_time"] == "2026-04-01T09:00:00Z"
    assert variables["source_id"] == trigger.dedup_id(NOW, "scout/triage")
    assert [variables[name] for name in ("body", "url", "labels", "assignee")] == [""] * 4


def test_a_workflow_id_is_a_uuid_that_stays_with_the_schedule() -> None:
    first, again, other = (
        trigger.variables(NOW, schedule)["workflow_id"]
        for trigger, schedule in [(Webhook(), "a/b"), (Manual(), "a/b"), (Manual(), "a/c")]
    )

    assert first == again == "0b40688c-891e-527b-ad8b-fba3103bf651"
    assert other != first
