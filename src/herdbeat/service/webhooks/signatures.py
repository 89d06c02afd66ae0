"""Signatures of incoming webhooks: how each sender signs, as data, and one function that verifies them all. Pure.

The signature covers the bytes that arrived. Nothing of the body is parsed before it is verified, comparisons take
constant time, and the caller never learns which check failed.
"""

import base64
import binascii
import hmac
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256

MAX_DELIVERY_ID_LENGTH = 180
"""Characters of a delivery id. With the prefix of its dedup id it stays below the limit of 200 bytes."""

MAX_PAYLOAD_DEPTH = 64

_MAX_SIGNATURES = 10
_STANDARD_PREFIX = "whsec_"


class Encoding(StrEnum):
    HEX = "hex"
    BASE64 = "base64"


class SecretForm(StrEnum):
    """How the text of a secret becomes the key of the signature."""

    TEXT = "text"
    STANDARD = "standard"  # `whsec_` and base64: the decoded bytes are the key


@dataclass(frozen=True, slots=True, kw_only=True)
class SignaturePreset:
    """How one sender signs.

    `signed` is the signed content, with `{id}`, `{timestamp}` and `{body}`; without it the header holds the secret
    itself. `written` is how the header is written. `pattern` finds the signatures in it, and `in_header_timestamp` the
    time, where the header has both. A time in the body is named by `timestamp_path`, in milliseconds.

    `is_delivery_signed` says whether the delivery id is covered by the signature. Where it is not, the same signed body
    under another id is a replay.
    """

    name: str
    headers: tuple[str, ...]
    signed: str | None = "{body}"
    written: str = "{signature}"
    pattern: re.Pattern[str] = re.compile(r"(\S+)")
    encoding: Encoding = Encoding.HEX
    secret_form: SecretForm = SecretForm.TEXT
    timestamp_headers: tuple[str, ...] = ()
    in_header_timestamp: re.Pattern[str] | None = None
    timestamp_path: str = ""
    tolerance: timedelta = timedelta(minutes=5)
    delivery_headers: tuple[str, ...] = ()
    delivery_path: str = ""
    event_headers: tuple[str, ...] = ()
    is_delivery_signed: bool = False


PRESETS: Mapping[str, SignaturePreset] = {
    preset.name: preset
    for preset in (
        SignaturePreset(
            name="github",
            headers=("x-hub-signature-256",),
            written="sha256={signature}",
            pattern=re.compile(r"sha256=([0-9a-fA-F]{64})"),
            delivery_headers=("x-github-delivery",),
            event_headers=("x-github-event",),
        ),
        SignaturePreset(
            name="standard",
            headers=("webhook-signature", "svix-signature"),
            signed="{id}.{timestamp}.{body}",
            written="v1,{signature}",
            pattern=re.compile(r"v1,([A-Za-z0-9+/=]+)"),
            encoding=Encoding.BASE64,
            secret_form=SecretForm.STANDARD,
            timestamp_headers=("webhook-timestamp", "svix-timestamp"),
            delivery_headers=("webhook-id", "svix-id"),
            is_delivery_signed=True,
        ),
        SignaturePreset(
            name="gitlab",
            headers=("x-gitlab-token",),
            signed=None,
            delivery_headers=("idempotency-key", "webhook-id", "x-gitlab-event-uuid"),
            event_headers=("x-gitlab-event",),
        ),
        SignaturePreset(
            name="linear",
            headers=("linear-signature",),
            pattern=re.compile(r"([0-9a-fA-F]{64})"),
            timestamp_path="webhookTimestamp",
            tolerance=timedelta(seconds=60),
            delivery_headers=("linear-delivery",),
            event_headers=("linear-event",),
        ),
        SignaturePreset(
            name="slack",
            headers=("x-slack-signature",),
            signed="v0:{timestamp}:{body}",
            written="v0={signature}",
            pattern=re.compile(r"v0=([0-9a-fA-F]{64})"),
            timestamp_headers=("x-slack-request-timestamp",),
            delivery_path="event_id",
            is_delivery_signed=True,
        ),
        SignaturePreset(
            name="stripe",
            headers=("stripe-signature",),
            signed="{timestamp}.{body}",
            written="t={timestamp},v1={signature}",
            pattern=re.compile(r"(?:^|,)\s*v1=([0-9a-fA-F]{64})"),
            in_header_timestamp=re.compile(r"(?:^|,)\s*t=([0-9]{1,15})(?=,|$)"),
            delivery_path="id",
            is_delivery_signed=True,
        ),
        SignaturePreset(
            name="sentry",
            headers=("sentry-hook-signature",),
            pattern=re.compile(r"([0-9a-fA-F]{64})"),
            delivery_headers=("request-id",),
            event_headers=("sentry-hook-resource",),
        ),
        SignaturePreset(
            name="pagerduty",
            headers=("x-pagerduty-signature",),
            written="v1={signature}",
            pattern=re.compile(r"(?:^|,)\s*v1=([0-9a-fA-F]{64})"),
            delivery_path="event.id",
            is_delivery_signed=True,
        ),
    )
}
"""Svix signs as `standard` does, under its own header names. Facts of each sender are in the webhook recipes."""


def build_generic_preset(
    *,
    header: str,
    signed: str = "{body}",
    encoding: Encoding = Encoding.HEX,
    prefix: str = "",
    timestamp_header: str = "",
    delivery_header: str = "",
) -> SignaturePreset:
    """Return a preset for any other sender: a header, what is signed, and how the signature is written."""
    characters = "[0-9a-fA-F]{64}" if encoding is Encoding.HEX else "[A-Za-z0-9+/=]+"
    return SignaturePreset(
        name="generic",
        headers=(header.lower(),),
        signed=signed,
        written=prefix + "{signature}",
        pattern=re.compile(f"{re.escape(prefix)}({characters})"),
        encoding=encoding,
        timestamp_headers=(timestamp_header.lower(),) if timestamp_header else (),
        delivery_headers=(delivery_header.lower(),) if delivery_header else (),
        is_delivery_signed="{id}" in signed,
    )


class SignatureRefused(Exception):
    """The call is not proven to come from its sender. `reason` is for the operator, never for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCall:
    """A call whose signature holds.

    `delivery_id` is empty if the sender gave none. `payload` is the parsed body, or None if it is not JSON. `digest`
    identifies the signed content, to recognize a replay under another delivery id.
    """

    payload: object
    delivery_id: str
    event: str
    digest: str
    is_delivery_signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headers:
    """The headers of a call. One that stands twice is refused: proxies and frameworks disagree which one counts."""

    values: Mapping[str, str]
    doubled: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, str]]) -> "_Headers":
        values: dict[str, str] = {}
        doubled: set[str] = set()
        for name, value in pairs:
            lowered = name.lower()
            if lowered in values:
                doubled.add(lowered)
            values[lowered] = value
        return cls(values=values, doubled=frozenset(doubled))

    def first(self, names: Sequence[str]) -> str:
        for name in names:
            if name in self.doubled:
                raise SignatureRefused(f"the header {name} appears twice")
            if self.values.get(name):
                return self.values[name].strip()
        return ""


def verify_call(
    preset: SignaturePreset,
    secrets: Sequence[str],
    headers: Iterable[tuple[str, str]],
    body: bytes,
    now: datetime,
) -> VerifiedCall:
    """Return the call if one of the secrets has signed it. Raises SignatureRefused otherwise."""
    given = _Headers.from_pairs(headers)
    if not any(secrets):
        raise SignatureRefused("no secret is configured")
    written = given.first(preset.headers)
    if not written:
        raise SignatureRefused(f"the header {preset.headers[0]} is missing")
    delivery_id, timestamp = given.first(preset.delivery_headers), _find_timestamp(preset, given, written)
    content = _build_signed_content(preset.signed or "{body}", delivery_id, timestamp, body)
    if preset.signed is None:
        _require_token(secrets, written)
    else:
        _require_fresh(preset, timestamp, now)
        _require_signature(preset, secrets, written, content)
    payload = parse_payload(body)
    if preset.timestamp_path:
        _require_fresh(preset, _convert_milliseconds(look_up(payload, preset.timestamp_path)), now)
    return VerifiedCall(
        payload=payload,
        delivery_id=clean_delivery_id(delivery_id or str(look_up(payload, preset.delivery_path) or "")),
        event=given.first(preset.event_headers),
        digest=sha256(content).hexdigest(),
        is_delivery_signed=preset.is_delivery_signed,
    )


def sign_call(preset: SignaturePreset, secret: str, body: bytes, delivery_id: str, now: datetime) -> dict[str, str]:
    """Return the headers with which the sender of this preset would send the body: for tests of one's own set-up."""
    timestamp = str(int(now.timestamp()))
    headers = {preset.delivery_headers[0]: delivery_id} if preset.delivery_headers and delivery_id else {}
    if preset.timestamp_headers:
        headers[preset.timestamp_headers[0]] = timestamp
    if preset.signed is None:
        return headers | {preset.headers[0]: secret}
    digest = hmac.digest(
        _read_key(preset, secret), _build_signed_content(preset.signed, delivery_id, timestamp, body), "sha256"
    )
    text = digest.hex() if preset.encoding is Encoding.HEX else base64.b64encode(digest).decode()
    written = preset.written.replace("{timestamp}", timestamp).replace("{signature}", text)
    return headers | {preset.headers[0]: written}


def parse_payload(body: bytes) -> object:
    """Return the JSON of a body, or None if it is none, or is nested too deeply."""
    try:
        payload: object = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return None if _is_too_deep(payload) else payload


def _refuse_constant(name: str) -> object:
    raise ValueError(name)  # NaN and Infinity are no JSON, and no ledger holds them


def _is_too_deep(payload: object) -> bool:
    """Whether values are nested so deeply that other programs could not read them."""
    level: list[object] = [payload]
    for _ in range(MAX_PAYLOAD_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def look_up(payload: object, path: str) -> object:
    """Return what a dotted path names in the payload; None if it is not there."""
    value = payload if path else None
    for key in path.split(".") if path else ():
        value = value.get(key) if isinstance(value, dict) else None
    return value


def clean_delivery_id(text: str) -> str:
    """Return an id that fits into a dedup id: one printable line. A longer one is replaced by its hash."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line.encode()) <= MAX_DELIVERY_ID_LENGTH:
        return line
    return "sha256-" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _find_timestamp(preset: SignaturePreset, headers: _Headers, written: str) -> str:
    if preset.in_header_timestamp is None:
        return headers.first(preset.timestamp_headers)
    found = preset.in_header_timestamp.findall(written)
    if len(found) > 1:
        raise SignatureRefused("the signature has two timestamps")
    return found[0] if found else ""


def _require_fresh(preset: SignaturePreset, timestamp: str, now: datetime) -> None:
    """Refuse a time outside of the tolerance, in both directions: a recorded call must not work later."""
    is_timed = preset.timestamp_headers or preset.in_header_timestamp or (preset.timestamp_path and timestamp)
    if not is_timed:
        return
    if not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise SignatureRefused("the timestamp is missing or not a number")
    if abs(now.timestamp() - int(timestamp)) > preset.tolerance.total_seconds():
        raise SignatureRefused("the timestamp is too old or in the future")


def _convert_milliseconds(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**15:
        raise SignatureRefused("the timestamp in the body is missing or not a number")
    return str(int(value / 1000))


def _require_token(secrets: Sequence[str], written: str) -> None:
    matches = [hmac.compare_digest(secret.encode(), written.encode()) for secret in secrets if secret]
    if not any(matches):
        raise SignatureRefused("the token does not match")


def _require_signature(preset: SignaturePreset, secrets: Sequence[str], written: str, content: bytes) -> None:
    signatures = [_decode(preset.encoding, each) for each in preset.pattern.findall(written)[:_MAX_SIGNATURES]]
    if not any(signatures):
        raise SignatureRefused("the signature is not written as this sender writes it")
    expected = [hmac.digest(_read_key(preset, secret), content, "sha256") for secret in secrets if secret]
    # Every pair is compared, so that the time does not tell which secret is the live one.
    matches = [hmac.compare_digest(one, other) for one in expected for other in signatures]
    if not any(matches):
        raise SignatureRefused("the signature does not match")


def _build_signed_content(template: str, delivery_id: str, timestamp: str, body: bytes) -> bytes:
    """Fill the template, in one pass: braces in the body are data."""
    values = {"id": delivery_id.encode(), "timestamp": timestamp.encode(), "body": body}
    parts = re.split(r"\{(id|timestamp|body)\}", template)
    return b"".join(values[part] if number % 2 else part.encode() for number, part in enumerate(parts))


def _read_key(preset: SignaturePreset, secret: str) -> bytes:
    if preset.secret_form is SecretForm.TEXT:
        return secret.encode()
    text = secret.removeprefix(_STANDARD_PREFIX)
    return _decode_base64(text) or secret.encode()


def _decode(encoding: Encoding, text: str) -> bytes:
    if encoding is Encoding.BASE64:
        return _decode_base64(text)
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _decode_base64(text: str) -> bytes:
    """Return the bytes, or none at all. Senders leave the padding away."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
