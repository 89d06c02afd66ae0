"""Slack: its published signature, and its events as posts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.fake_slack import build_event

from herdbeat.chat.slack import is_signed, parse_event

# The example of Slack's own documentation.
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TIMESTAMP = "1531420618"
BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
THEN = datetime.fromtimestamp(1531420618, tz=UTC)


def test_the_published_signature_is_valid() -> None:
    assert is_signed(SECRET, TIMESTAMP, SIGNATURE, BODY, THEN)


@pytest.mark.parametrize(
    ("timestamp", "signature", "body", "late"),
    [
        (TIMESTAMP, SIGNATURE, BODY + b" ", 0),
        (TIMESTAMP, SIGNATURE[:-1] + "4", BODY, 0),
        (TIMESTAMP, SIGNATURE, BODY, 301),
        (TIMESTAMP, SIGNATURE, BODY, -301),
        ("1531420619", SIGNATURE, BODY, 0),
        ("", SIGNATURE, BODY, 0),
        ("9" * 30, SIGNATURE, BODY, 0),
        (TIMESTAMP, "", BODY, 0),
        (TIMESTAMP, "v0=\u0661", BODY, 0),
    ],
)
def test_everything_else_is_not(timestamp: str, signature: str, body: bytes, late: int) -> None:
    assert not is_signed(SECRET, timestamp, signature, body, THEN + timedelta(seconds=late))
    assert not is_signed("", timestamp, signature, body, THEN)


def test_a_mention_that_comes_as_two_events_is_one_post() -> None:
    mention = parse_event(build_event("<@U0BOT> do &lt;x&gt; &amp; y"))
    message = parse_event(build_event("<@U0BOT> do &lt;x&gt; &amp; y", type="message", channel_type="channel"))

    assert mention is not None
    assert message is not None
    assert mention.event_id == message.event_id
    assert mention.text == "do <x> & y"
    assert (mention.mentions_bot, message.mentions_bot, mention.is_direct) == (True, True, False)


def test_a_reply_belongs_to_the_thread_of_its_first_message() -> None:
    first = parse_event(build_event("<@U0BOT> hello", at="1700000000.000100"))
    reply = parse_event(build_event("<@U0BOT> more", at="1700000009.000100", thread_ts="1700000000.000100"))

    assert first is not None
    assert reply is not None
    assert (first.thread, reply.thread) == ("1700000000.000100", "1700000000.000100")


@pytest.mark.parametrize(
    "event",
    [
        build_event("hello", subtype="message_changed"),
        build_event("hello", type="reaction_added"),
        {"type": "event_callback", "event": None},
        {"type": "event_callback", "event": {"type": "message"}},
        {"type": "url_verification"},
        {},
    ],
)
def test_other_events_are_no_posts(event: dict[str, object]) -> None:
    assert parse_event(event) is None


@pytest.mark.parametrize("event", [{"bot_id": "B1"}, {"user": "U0BOT"}, {"user": None}])
def test_messages_of_bots_are_known_as_such(event: dict[str, Any]) -> None:
    post = parse_event(build_event("hello", **event))

    assert post is not None
    assert post.is_by_bot
