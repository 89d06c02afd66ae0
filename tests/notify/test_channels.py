import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path

import pytest
from tests.support.fault_fleet import wait_until

from herdbeat.notify.base import DeliveryFailed, OutgoingMessage
from herdbeat.notify.channels.command import list_arguments, run_command
from herdbeat.notify.channels.discord import build_discord
from herdbeat.notify.channels.email import build_email
from herdbeat.notify.channels.slack import build_slack, check_slack
from herdbeat.notify.channels.webhook import build_ntfy, build_webhook, sign

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TIMEOUT = timedelta(seconds=10)
HOSTILE = 'ok <!channel> <@U1> @everyone [x](http://evil) *b* "}\\ \r\nBcc: all@example.com\n.\n'


def build_message(spec: Mapping[str, object], text: str = HOSTILE, url: str = "") -> OutgoingMessage:
    return OutgoingMessage(id="msg_1", spec=spec, payload={"text": text, "url": url}, now=NOW)


def test_the_published_vector_of_standard_webhooks_is_reproduced() -> None:
    secret, at = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", datetime.fromtimestamp(1614265330, UTC)

    signature = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b'{"test": 2432232314}')

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_webhook_carries_the_id_the_time_and_the_signature_and_hostile_text_as_json() -> None:
    message = build_message({"url": "https://ops.example.com/in", "headers": {"X-Team": "ops"}})

    post = build_webhook(message, "a plain secret", TIMEOUT)

    assert json.loads(post.body)["text"] == HOSTILE
    assert post.headers["webhook-id"] == "msg_1"
    assert post.headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    assert post.headers["webhook-signature"] == sign("a plain secret", "msg_1", NOW, post.body)
    assert post.headers["X-Team"] == "ops"


def test_text_of_an_agent_cannot_mention_a_channel_of_slack() -> None:
    post = build_slack(build_message({"url": "https://hooks.example.com/x"}), "", TIMEOUT)

    content = json.loads(post.body)
    assert "<" not in content["text"]
    assert content["mrkdwn"] is False
    assert content["link_names"] is False


def test_a_bot_of_slack_posts_into_its_channel_with_its_token() -> None:
    post = build_slack(build_message({"channel_id": "C1"}), "xoxb-1", TIMEOUT, api="http://127.0.0.1:1/api")

    assert post.url == "http://127.0.0.1:1/api/chat.postMessage"
    assert post.headers["Authorization"] == "Bearer xoxb-1"
    assert json.loads(post.body)["channel"] == "C1"


def test_what_slack_refuses_with_status_200_has_failed() -> None:
    with pytest.raises(DeliveryFailed, match="channel_not_found"):
        check_slack({"ok": False, "error": "channel_not_found"})


def test_text_of_an_agent_cannot_mention_anybody_on_discord_nor_use_markup() -> None:
    post = build_discord(build_message({"url": "https://discord.example.com/w"}, HOSTILE * 30), "", TIMEOUT)

    content = json.loads(post.body)
    assert content["allowed_mentions"] == {"parse": []}
    assert "[x](" not in content["content"]
    assert len(content["content"]) <= 2_000


def test_text_of_an_agent_cannot_add_a_header_to_a_mail() -> None:
    spec = {"from": "herd@example.com", "to": ["ops@example.com"], "host": "mail.example.com"}
    message = build_message(spec, "failed\r\nBcc: all@example.com\r\n\r\nhello")

    mail = build_email(message)

    assert mail["Bcc"] is None
    assert mail["Subject"] == "[herdbeat] failed"
    assert "Bcc: all@example.com" in mail.get_content()  # as text
    assert "\nBcc:" not in mail.as_string().partition("\n\n")[0]


@pytest.mark.parametrize(
    "text", ["=?utf-8?q?x=0ABcc:_all@example.com?=", "=?utf-8?b?eApCY2M6IGFsbEBleGFtcGxlLmNvbQ==?=", "half \ud800 pair"]
)
def test_an_encoded_word_in_a_text_cannot_add_a_header_to_a_mail(text: str) -> None:
    spec = {"from": "herd@example.com", "to": ["ops@example.com"], "host": "mail.example.com"}

    mail = message_from_bytes(build_email(build_message(spec, text)).as_bytes())

    assert mail["Bcc"] is None
    assert set(mail) == {
        *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
        *("Content-Type", "Content-Transfer-Encoding", "MIME-Version"),
    }


def test_a_message_to_ntfy_is_json_so_that_no_text_becomes_a_header() -> None:
    post = build_ntfy(build_message({"topic": "herd"}), "tk_1", TIMEOUT)

    assert json.loads(post.body)["message"] == HOSTILE
    assert post.headers["Authorization"] == "Bearer tk_1"
    assert HOSTILE not in "".join(post.headers.values())


async def test_a_program_gets_the_payload_on_its_standard_input_and_only_its_environment(tmp_path: Path) -> None:
    message = build_message({"command": ["sh", "-c", "cat > got; env > environment"]})

    await run_command(message, {"PATH": "/usr/bin:/bin", "ONLY": "this"}, tmp_path, TIMEOUT)

    assert json.loads((tmp_path / "got").read_text())["text"] == HOSTILE
    environment = (tmp_path / "environment").read_text()
    assert "ONLY=this" in environment
    assert "HERDBEAT_MESSAGE=msg_1" in environment
    assert "USER=" not in environment


async def test_a_program_that_hangs_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    message = build_message({"command": "sleep 600 & echo $! > child; sleep 600"})

    with pytest.raises(DeliveryFailed, match="took longer than"):
        await run_command(message, {"PATH": "/usr/bin:/bin"}, tmp_path, timedelta(seconds=0.5))

    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_alive(child), lambda: f"{child} survives")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_program_that_fails_says_its_last_line(tmp_path: Path) -> None:
    message = build_message({"command": ["sh", "-c", "echo no such door >&2; exit 4"]})

    with pytest.raises(DeliveryFailed, match="exited with 4: no such door") as caught:
        await run_command(message, {"PATH": "/usr/bin:/bin"}, tmp_path, TIMEOUT)

    assert caught.value.is_final


def test_a_text_is_a_command_for_a_shell_and_a_list_is_not() -> None:
    assert list_arguments("a | b") == ["/bin/sh", "-c", "a | b"]
    assert list_arguments(["a", "| b"]) == ["a", "| b"]
