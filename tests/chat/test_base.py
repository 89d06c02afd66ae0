"""Who may talk to an agent, and which words are commands."""

from dataclasses import replace
from typing import Any

import pytest

from herdbeat.chat.base import ChatVerb, VerbKind, parse_verb, read_connectors
from herdbeat.domain.chat import ChatPlatform, ChatPost

POST = ChatPost(platform=ChatPlatform.SLACK, channel="C1", id="1", thread="1", user="U1", text="hello")
MENTION = replace(POST, mentions_bot=True)
DIRECT = replace(POST, channel="D1", is_direct=True)


def hears(block: dict[str, Any], post: ChatPost) -> bool:
    (connector,) = read_connectors("a", {"slack": block})
    return connector.hears(post)


@pytest.mark.parametrize(
    ("block", "post", "is_heard"),
    [
        ({"channels": [{"id": "C1"}]}, MENTION, True),
        ({"channels": [{"id": "C1"}]}, POST, False),
        ({"channels": [{"id": "C1", "mode": "auto"}]}, POST, True),
        ({"channels": [{"id": "C1", "mode": "channel"}]}, POST, True),
        ({"channels": [{"id": "C2", "mode": "auto"}]}, MENTION, False),
        ({"channels": []}, MENTION, False),
        ({"channels": [{"id": "C1"}], "users": ["U1"]}, MENTION, True),
        ({"channels": [{"id": "C1"}], "users": ["U2"]}, MENTION, False),
        ({"channels": [{"id": "C1"}]}, replace(MENTION, is_by_bot=True), False),
        ({"channels": [{"id": "C1"}]}, replace(MENTION, text="  "), False),
        ({}, DIRECT, True),
        ({"dm": {"enabled": False}}, DIRECT, False),
        ({"dm": {"allowlist": ["U2"]}}, DIRECT, False),
        ({"dm": {"blocklist": ["U1"]}}, DIRECT, False),
        ({"dm": {"mode": "mention"}}, DIRECT, False),
        ({"channels": "nonsense", "dm": 7, "users": 3}, MENTION, False),
    ],
)
def test_an_agent_hears_what_its_block_allows(block: dict[str, Any], post: ChatPost, is_heard: bool) -> None:
    assert hears(block, post) is is_heard


def test_the_blocks_of_herdctl_are_read_unchanged() -> None:
    block = {
        "slack": {"bot_token_env": "A", "app_token_env": "B", "channels": [{"id": "C1", "name": "#x", "mode": "auto"}]},
        "discord": {
            "bot_token_env": "D",
            "session_expiry_hours": 2,
            "guilds": [{"id": "1", "channels": [{"id": "5", "mode": "mention", "context_messages": 10}]}],
            "presence": {"activity_type": "watching"},
        },
    }

    slack, discord = read_connectors("a", block)

    assert (slack.bot_token_env, slack.app_token_env, dict(slack.channels)) == ("A", "B", {"C1": "auto"})
    assert (discord.bot_token_env, dict(discord.channels)) == ("D", {"5": "mention"})


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("status", ChatVerb(kind=VerbKind.STATUS)),
        (" STOP ", ChatVerb(kind=VerbKind.STOP)),
        ("run backup/nightly", ChatVerb(kind=VerbKind.RUN, name="backup/nightly")),
        ("pause backup", ChatVerb(kind=VerbKind.PAUSE, name="backup")),
        ("pause backup for 2h", ChatVerb(kind=VerbKind.PAUSE, name="backup", lasts="2h")),
        ("snooze backup 30m", ChatVerb(kind=VerbKind.SNOOZE, name="backup", lasts="30m")),
        (
            "pause backup from tomorrow 22:00 until 02:00",
            ChatVerb(kind=VerbKind.PAUSE, name="backup", begins="tomorrow 22:00", ends="02:00"),
        ),
        ("Pause backup from 22:00 for 3h", ChatVerb(kind=VerbKind.PAUSE, name="backup", begins="22:00", lasts="3h")),
        ("pauses", ChatVerb(kind=VerbKind.PAUSES)),
        ("pauses cancel 3", ChatVerb(kind=VerbKind.CANCEL_PAUSE, name="3")),
        ("pause backup from 22:00", None),
        ("pauses are good", None),
        ("run the tests please", None),
        ("stop that", None),
        ("what is the status", None),
        ("run", None),
        ("run backup for 2h", None),
    ],
)
def test_a_word_is_a_command_only_if_it_is_the_whole_message(text: str, verb: ChatVerb | None) -> None:
    assert parse_verb(text) == verb
