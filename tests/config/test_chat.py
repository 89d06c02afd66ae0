"""The `chat` block of an agent gives it a chat schedule, as in herdctl, unless it has one."""

from datetime import timedelta

import pytest
from tests.support.config_folder import ConfigFolder


@pytest.mark.parametrize(
    ("agent", "kinds"),
    [
        ("chat: { slack: { channels: [] } }", {"chat": "chat"}),
        ("chat: { discord: { guilds: [] } }, every: 5m, prompt: look", {"chat": "chat", "default": "interval"}),
        ("chat: { slack: {} }, schedules: { talk: { type: chat } }", {"talk": "chat"}),
        ("chat: { other: {} }, every: 5m", {"default": "interval"}),
    ],
)
def test_an_agent_with_a_chat_block_has_a_chat_schedule(
    folder: ConfigFolder, agent: str, kinds: dict[str, str]
) -> None:
    fleet = folder.read_all(f"agents: [{{ name: a, budget: {{ runs_per_day: 9 }}, {agent} }}]").fleet

    assert fleet is not None
    assert {each.name: str(each.trigger.kind) for each in fleet.schedules} == kinds
    assert all(each.prompt is None for each in fleet.schedules if each.name == "chat")


def test_a_conversation_can_be_resumed_as_long_as_the_block_says(folder: ConfigFolder) -> None:
    chat = "chat: { slack: { session_expiry_hours: 2 } }"
    fleet = folder.read_all(f"agents: [{{ name: a, budget: {{ runs_per_day: 9 }}, {chat} }}]").fleet

    assert fleet is not None
    (schedule,) = fleet.schedules
    assert schedule.session_timeout == timedelta(hours=2)
