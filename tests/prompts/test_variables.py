"""The table of prompt variables."""

from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.prompts.variables import (
    AGENTD_VARIABLES,
    OWN_VARIABLES,
    VARIABLES,
    ValueTrust,
    find_variable,
    find_variables,
)
from herdbeat.triggers import Chat, Cron, Delay, Interval, Manual, Webhook

AGENTD_WORDS = """
    title body url labels assignee source_id metadata fire_time cron_expression run_at workflow_id head_ref base_ref
    is_draft delivery_id timestamp github_event action issue_number pr_number linear_url event_type agent_id
    source_workflow_id dispatch_id status original_source_id identifier state priority team team_name project
    linear_id gitlab_project_id gitlab_iid source_branch target_branch merge_status draft queue_name queue_task_id
    queue_priority composite_sub_source_ids sub_title question_id category question answer
"""


@pytest.mark.parametrize("word", AGENTD_WORDS.split())
def test_every_variable_of_agentds_triggers_is_known(word: str) -> None:
    assert find_variables(word)


@pytest.mark.parametrize(
    ("name", "kind", "has_work", "known"),
    [
        ("date", TriggerKind.CHAT, False, True),
        ("cron_expression", TriggerKind.CRON, False, True),
        ("cron_expression", TriggerKind.INTERVAL, False, False),
        ("run_at", TriggerKind.DELAY, False, True),
        ("payload", TriggerKind.WEBHOOK, False, True),
        ("payload.a.b.0", TriggerKind.WEBHOOK, False, True),
        ("payload.a", TriggerKind.CRON, False, False),
        ("payload.", TriggerKind.WEBHOOK, False, False),
        ("payloads", TriggerKind.WEBHOOK, False, False),
        ("message.text", TriggerKind.CHAT, False, True),
        ("issue.title", TriggerKind.CRON, True, True),
        ("issue.title", TriggerKind.CRON, False, False),
        ("linear_url", TriggerKind.WEBHOOK, False, True),
        ("linear_id", TriggerKind.INTERVAL, True, True),
        ("linear_id", TriggerKind.INTERVAL, False, False),
    ],
)
def test_a_variable_is_known_on_the_schedules_that_provide_it(
    name: str, kind: TriggerKind, has_work: bool, known: bool
) -> None:
    assert (find_variable(name, kind, has_work=has_work) is not None) is known


def test_no_name_is_in_the_table_twice() -> None:
    counts = Counter(row.name for row in VARIABLES)

    assert counts.total() == len(counts) == len(OWN_VARIABLES) + len(AGENTD_VARIABLES)


def test_every_variable_has_a_meaning_and_kinds() -> None:
    assert all(row.meaning and row.kinds for row in VARIABLES)


TRIGGERS: tuple[Trigger, ...] = (
    Interval.parse("5m"),
    Cron.parse("0 9 * * *", ZoneInfo("UTC")),
    Delay.parse("2026-12-01T09:00:00Z"),
    Webhook(),
    Chat(),
    Manual(),
)


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.kind)
def test_every_variable_of_a_trigger_is_in_the_table(trigger: Trigger) -> None:
    variables = trigger.variables(datetime(2026, 3, 26, tzinfo=UTC), "triage/standup")

    assert [name for name in variables if find_variable(name, trigger.kind, has_work=False) is None] == []


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.kind)
def test_every_clock_variable_of_the_table_is_provided_by_its_trigger(trigger: Trigger) -> None:
    variables = trigger.variables(datetime(2026, 3, 26, tzinfo=UTC), "triage/standup")
    of_the_schedule = {"date", "time", "agent", "schedule"}

    promised = {
        row.name
        for row in VARIABLES
        if row.trust is ValueTrust.TRUSTED and trigger.kind in row.kinds and "." not in row.name
    }

    assert promised - of_the_schedule <= variables.keys()
