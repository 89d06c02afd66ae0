"""Signatures of webhooks: published vectors verify, and every alteration is refused."""

from datetime import UTC, datetime, timedelta

import pytest

from herdbeat.service.webhooks.signatures import (
    PRESETS,
    Encoding,
    SignaturePreset,
    SignatureRefused,
    VerifiedCall,
    build_generic_preset,
    clean_delivery_id,
    sign_call,
    verify_call,
)

STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
STANDARD_BODY = b'{"test": 2432232314}'
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
GITHUB_SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
BODY = b'{"id": "evt_1", "event_id": "Ev1", "event": {"id": "P1"}, "webhookTimestamp": %d}' % (NOW.timestamp() * 1000)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def verify(
    preset: SignaturePreset, headers: dict[str, str], body: bytes, *secrets: str, now: datetime = NOW
) -> VerifiedCall:
    return verify_call(preset, secrets, headers.items(), body, now)


def test_the_published_vector_of_github_verifies() -> None:
    headers = {"X-Hub-Signature-256": GITHUB_SIGNATURE, "X-GitHub-Delivery": "d-1", "X-GitHub-Event": "push"}

    call = verify(PRESETS["github"], headers, b"Hello, World!", "It's a Secret to Everybody")

    assert (call.delivery_id, call.event, call.payload) == ("d-1", "push", None)


@pytest.mark.parametrize("family", ["webhook", "svix"])
def test_the_published_vector_of_standard_webhooks_verifies(family: str) -> None:
    headers = {name.replace("webhook", family): value for name, value in STANDARD_HEADERS.items()}

    call = verify(PRESETS["standard"], headers, STANDARD_BODY, STANDARD_SECRET, now=at(1614265330))

    assert (call.delivery_id, call.payload) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", {"test": 2432232314})


def test_the_published_vector_of_slack_verifies() -> None:
    headers = {
        "X-Slack-Request-Timestamp": "1531420618",
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }

    call = verify(PRESETS["slack"], headers, SLACK_BODY, "8f742231b10e8888abcd99yyyzzz85a5", now=at(1531420618))

    assert call.payload is None


@pytest.mark.parametrize(
    ("name", "delivery_id"),
    [
        ("github", "given"),
        ("standard", "given"),
        ("gitlab", "given"),
        ("linear", "given"),
        ("slack", "Ev1"),
        ("stripe", "evt_1"),
        ("sentry", "given"),
        ("pagerduty", "P1"),
    ],
)
def test_what_we_sign_for_a_sender_verifies_and_names_its_delivery(name: str, delivery_id: str) -> None:
    preset = PRESETS[name]
    headers = sign_call(preset, STANDARD_SECRET, BODY, "given", NOW)

    assert verify(preset, headers, BODY, STANDARD_SECRET).delivery_id == delivery_id


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "gitlab"])
def test_an_altered_body_is_refused(name: str) -> None:
    preset = PRESETS[name]
    headers = sign_call(preset, STANDARD_SECRET, BODY, "given", NOW)

    with pytest.raises(SignatureRefused, match="does not match"):
        verify(preset, headers, BODY + b" ", STANDARD_SECRET)


@pytest.mark.parametrize("name", PRESETS)
def test_another_secret_is_refused_and_an_older_live_one_is_accepted(name: str) -> None:
    preset = PRESETS[name]
    headers = sign_call(preset, STANDARD_SECRET, BODY, "given", NOW)

    with pytest.raises(SignatureRefused):
        verify(preset, headers, BODY, "another secret", "")

    assert verify(preset, headers, BODY, "a new secret", STANDARD_SECRET).delivery_id


@pytest.mark.parametrize("name", ["standard", "slack", "stripe", "linear"])
@pytest.mark.parametrize("shift", [timedelta(minutes=-6), timedelta(minutes=6)])
def test_an_old_or_future_timestamp_is_refused(name: str, shift: timedelta) -> None:
    preset = PRESETS[name]
    headers = sign_call(preset, STANDARD_SECRET, BODY, "given", NOW)

    with pytest.raises(SignatureRefused, match="timestamp"):
        verify(preset, headers, BODY, STANDARD_SECRET, now=NOW + shift)


@pytest.mark.parametrize("name", PRESETS)
def test_a_doubled_signature_header_is_refused(name: str) -> None:
    preset = PRESETS[name]
    headers = list(sign_call(preset, STANDARD_SECRET, BODY, "given", NOW).items())

    with pytest.raises(SignatureRefused, match="twice"):
        verify_call(preset, [STANDARD_SECRET], [(preset.headers[0].upper(), "x"), *headers], BODY, NOW)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("written", ["", "sha256=", "v1,", "v0=zz", "t=1,v1=", "é", "v1=" + "0" * 64])
def test_a_malformed_signature_is_refused(name: str, written: str) -> None:
    preset = PRESETS[name]
    headers = sign_call(preset, STANDARD_SECRET, BODY, "given", NOW) | {preset.headers[0]: written}

    with pytest.raises(SignatureRefused):
        verify(preset, headers, BODY, STANDARD_SECRET)


@pytest.mark.parametrize("name", PRESETS)
def test_a_call_without_a_configured_secret_is_refused(name: str) -> None:
    with pytest.raises(SignatureRefused, match="no secret"):
        verify(PRESETS[name], {}, BODY, "")


def test_one_of_several_signatures_suffices() -> None:
    headers = STANDARD_HEADERS | {"webhook-signature": f"v1a,AAAA v1,AAAA {STANDARD_HEADERS['webhook-signature']}"}

    call = verify(PRESETS["standard"], headers, STANDARD_BODY, STANDARD_SECRET, now=at(1614265330))

    assert call.delivery_id == STANDARD_HEADERS["webhook-id"]


def test_a_delivery_id_outside_of_the_signature_is_marked_so() -> None:
    headers = sign_call(PRESETS["github"], "s", BODY, "one", NOW)

    one = verify(PRESETS["github"], headers, BODY, "s")
    other = verify(PRESETS["github"], headers | {"x-github-delivery": "two"}, BODY, "s")

    assert one.delivery_id != other.delivery_id
    assert not one.is_delivery_signed
    assert one.digest == other.digest


@pytest.mark.parametrize("encoding", Encoding)
def test_any_other_sender_is_described_by_four_keys(encoding: Encoding) -> None:
    preset = build_generic_preset(
        header="X-Signature",
        signed="{timestamp}.{body}",
        encoding=encoding,
        prefix="sha256=",
        timestamp_header="X-Time",
        delivery_header="X-Id",
    )
    body = b"{body} {timestamp} not a template"
    headers = sign_call(preset, "s", body, "d-1", NOW)

    assert verify(preset, headers, body, "s").delivery_id == "d-1"


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * 100_000, b'{"a": 1e999}', b"", b"null"])
def test_a_signed_body_that_is_odd_is_still_a_call(body: bytes) -> None:
    headers = sign_call(PRESETS["github"], "s", body, "d-1", NOW)

    assert verify(PRESETS["github"], headers, body, "s").delivery_id == "d-1"


@pytest.mark.parametrize(
    ("given", "cleaned"), [("d-1", "d-1"), (" a\n\x1b[31mb ", "a [31mb"), ("x" * 180, "x" * 180), ("", "")]
)
def test_a_delivery_id_becomes_one_printable_line(given: str, cleaned: str) -> None:
    assert clean_delivery_id(given) == cleaned


def test_a_long_delivery_id_is_replaced_by_its_hash() -> None:
    assert clean_delivery_id("x" * 1_000).startswith("sha256-")
    assert clean_delivery_id("x" * 1_000) != clean_delivery_id("x" * 1_001)
