"""Discord: signatures by the vectors of RFC 8032, interactions, and messages of the gateway."""

from types import SimpleNamespace
from typing import Any

import pytest

from herdbeat.chat.discord import GatewayMessage, is_signed, parse_interaction, parse_message
from herdbeat.chat.discord_gateway import read_message

KEY = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
RFC_SIGNATURE = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d2"
    "91612bb0c00"
)
PING_SIGNATURE = (
    "f469ecef789749220e905777fb1f6bc03b827ddd6097c3fc0a7924131c221ab14abed319656685a311beeb741a33ee88a5e14858e3aa0c3d1efc6"
    "6804188b00e"
)


def test_the_vector_of_the_rfc_is_valid() -> None:
    assert is_signed(KEY, "", RFC_SIGNATURE, b"r")
    assert is_signed(KEY, "1700000000", PING_SIGNATURE, b'{"type":1}')


@pytest.mark.parametrize(
    ("key", "timestamp", "signature", "body"),
    [
        (KEY, "1700000001", PING_SIGNATURE, b'{"type":1}'),
        (KEY, "1700000000", PING_SIGNATURE, b'{"type":2}'),
        (KEY, "1700000000", RFC_SIGNATURE, b'{"type":1}'),
        (KEY, "1700000000", "", b'{"type":1}'),
        (KEY, "1700000000", "zz" * 64, b'{"type":1}'),
        ("", "1700000000", PING_SIGNATURE, b'{"type":1}'),
        ("00" * 32, "1700000000", PING_SIGNATURE, b'{"type":1}'),
    ],
)
def test_everything_else_is_not(key: str, timestamp: str, signature: str, body: bytes) -> None:
    assert not is_signed(key, timestamp, signature, body)


def interaction(**changes: Any) -> dict[str, Any]:
    data = {"name": "ask", "options": [{"name": "text", "value": "how are you"}]}
    member = {"user": {"id": "7"}}
    return {"type": 2, "id": "100", "channel_id": "5", "member": member, "data": data, "token": "t", **changes}


def test_a_command_is_a_post() -> None:
    post = parse_interaction(interaction())

    assert post is not None
    assert (post.channel, post.user, post.text, post.event_id) == ("5", "7", "how are you", "discord:5:100:100")


def test_a_command_in_a_thread_belongs_to_it() -> None:
    post = parse_interaction(interaction(channel_id="9", channel={"id": "9", "type": 11, "parent_id": "5"}))

    assert post is not None
    assert (post.channel, post.thread) == ("5", "9")


@pytest.mark.parametrize("data", [{"type": 3}, {"type": 2}, {"type": 2, "data": {}}, {}])
def test_other_interactions_are_no_posts(data: dict[str, object]) -> None:
    assert parse_interaction(data) is None


def test_verbs_are_commands_of_their_own() -> None:
    post = parse_interaction(interaction(data={"name": "run", "options": [{"name": "name", "value": "backup"}]}))

    assert post is not None
    assert post.text == "run backup"


def test_a_message_of_the_gateway_is_read() -> None:
    bot = SimpleNamespace(id=1)
    thread = SimpleNamespace(id=50, parent_id=5, type=SimpleNamespace(value=11))
    author = SimpleNamespace(id=7, bot=False)
    message = SimpleNamespace(
        id=60, channel=thread, guild=object(), author=author, content="<@1> hi", mentions=[bot], webhook_id=None
    )

    read = read_message(message, bot)
    post = parse_message(read)

    assert (post.channel, post.thread, post.text, post.mentions_bot, post.is_by_bot) == ("5", "50", "hi", True, False)


def test_the_first_message_of_a_conversation_knows_its_thread() -> None:
    message = GatewayMessage(
        id="60",
        channel="5",
        parent="",
        author="7",
        text="<@!1> hi",
        bot_user="1",
        is_by_bot=False,
        is_direct=False,
        mentions_bot=True,
    )

    assert parse_message(message).thread == "60"  # Discord gives a thread the id of the message that began it
