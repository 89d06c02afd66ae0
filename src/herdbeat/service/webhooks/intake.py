"""One webhook call: from raw bytes to an event for a schedule, a reply, or the reason why it is refused. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from urllib.parse import parse_qsl

from herdbeat.domain.webhook import GENERIC_PRESET, HookMethod, WebhookAuth
from herdbeat.domain.webhook_call import IncomingEvent
from herdbeat.errors import HerdbeatError
from herdbeat.rules.evaluate import evaluate
from herdbeat.rules.expression import Expression, parse_expression
from herdbeat.service.webhooks.signatures import (
    PRESETS,
    Encoding,
    SignaturePreset,
    SignatureRefused,
    VerifiedCall,
    build_generic_preset,
    clean_delivery_id,
    look_up,
    parse_payload,
    verify_call,
)
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.timestamps import format_timestamp

EVENT_ROOTS = ("payload", "headers")
_HIDDEN_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-gitlab-token"})
_FORM_TYPE = "application/x-www-form-urlencoded"


class RefusalReason(StrEnum):
    """Why a call was refused. The operator sees it, the caller never does."""

    UNKNOWN = "unknown"
    DISABLED = "disabled"
    NOT_PROVEN = "not_proven"
    TOO_LARGE = "too_large"
    QUEUE_FULL = "queue_full"
    NO_ANSWER = "no_answer"
    REPLAYED = "replayed"


class CallRefused(Exception):
    """The call gets no beat. `detail` is for the operator."""

    def __init__(self, reason: RefusalReason, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSchedule:
    """A schedule as the receiver of its calls needs it. `id_text` is `target/name`, also for a default schedule."""

    id: int
    label: str
    id_text: str
    auth: WebhookAuth
    enabled: bool = True
    when: str | None = None
    dedup: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """What arrived. `token_name` is the valid hook token of the caller, if it has one.

    `random_id` identifies the call if its sender gives no id: every repetition of it is then a call of its own.
    """

    headers: Sequence[tuple[str, str]]
    body: bytes
    received_at: datetime
    token_name: str = ""
    random_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """An answer without a beat: to a ping, or to the challenge with which Slack proves that the address is ours."""

    content: Mapping[str, str]


def build_preset(auth: WebhookAuth) -> SignaturePreset:
    if auth.preset != GENERIC_PRESET:
        return PRESETS[auth.preset]
    return build_generic_preset(
        header=auth.header,
        signed=auth.signed,
        encoding=Encoding(auth.encoding),
        prefix=auth.prefix,
        timestamp_header=auth.timestamp_header,
        delivery_header=auth.delivery_header,
    )


def read_call(hook: HookSchedule, secrets: Sequence[str], call: HookCall) -> IncomingEvent | HookReply:
    """Verify a call, and return its event or its reply. Raises CallRefused."""
    if not hook.enabled or hook.auth.method is HookMethod.OFF:
        raise CallRefused(RefusalReason.DISABLED)
    verified, is_signed = _verify(hook.auth, secrets, call)
    headers = {name.lower(): value for name, value in call.headers if name.lower() not in _HIDDEN_HEADERS}
    payload = verified.payload if verified.payload is not None else _read_other(call.body, headers)
    reply = _find_reply(hook.auth, verified, payload)
    if reply is not None:
        return reply
    delivery_id, is_id_signed = _find_delivery_id(hook, verified, payload, headers)
    event_id = delivery_id or clean_delivery_id(headers.get("idempotency-key", "")) or call.random_id
    stored = {
        "payload": payload,
        "delivery_id": event_id,
        "event": verified.event,
        "received_at": format_timestamp(call.received_at),
    }
    return IncomingEvent(
        schedule=hook.id,
        event_id=event_id,
        data=dump_sanitized(stored),
        origin=f"token:{call.token_name}" if call.token_name else f"webhook:{_name_sender(hook.auth)}",
        digest=verified.digest if is_signed and not is_id_signed else "",
        is_filtered=not meets_condition(hook.when, payload, headers),
    )


def meets_condition(when: str | None, payload: object, headers: Mapping[str, str]) -> bool:
    """Whether an event may run. A condition that cannot be decided, such as one about a missing value, is not met."""
    if when is None:
        return True
    try:
        expression = _parse_condition(when)
    except HerdbeatError:
        return False
    return evaluate(expression, {"payload": payload, "headers": dict(headers)}).value is True


@lru_cache(maxsize=1_000)
def _parse_condition(when: str) -> Expression:
    return parse_expression(when, EVENT_ROOTS)


def _verify(auth: WebhookAuth, secrets: Sequence[str], call: HookCall) -> tuple[VerifiedCall, bool]:
    """Return the call, and whether its content is signed."""
    if auth.method is HookMethod.SIGNATURE:
        preset = build_preset(auth)
        try:
            return verify_call(preset, secrets, call.headers, call.body, call.received_at), preset.signed is not None
        except SignatureRefused as refused:
            raise CallRefused(RefusalReason.NOT_PROVEN, refused.reason) from refused
    if auth.method is HookMethod.TOKEN and not call.token_name:
        raise CallRefused(RefusalReason.NOT_PROVEN, "there is no valid token of the scope hook:TARGET/SCHEDULE")
    plain = VerifiedCall(
        payload=parse_payload(call.body), delivery_id="", event="", digest="", is_delivery_signed=False
    )
    return plain, False


def _read_other(body: bytes, headers: Mapping[str, str]) -> object:
    """Return a body that is not JSON: the fields of a form, GitHub's JSON inside of one, or the text."""
    if not body:
        return None
    text = body.decode("utf-8", "replace")
    if not headers.get("content-type", "").startswith(_FORM_TYPE):
        return text
    fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1_000)) if text.count("&") < 1_000 else {}
    inner = parse_payload(fields["payload"].encode()) if set(fields) == {"payload"} else None
    return inner if inner is not None else fields


def _find_reply(auth: WebhookAuth, verified: VerifiedCall, payload: object) -> HookReply | None:
    if auth.method is not HookMethod.SIGNATURE:
        return None
    if auth.preset == "github" and verified.event == "ping":
        return HookReply(content={"status": "ping"})
    challenge = look_up(payload, "challenge")
    is_challenge = auth.preset == "slack" and look_up(payload, "type") == "url_verification"
    return HookReply(content={"challenge": challenge}) if is_challenge and isinstance(challenge, str) else None


def _find_delivery_id(
    hook: HookSchedule, verified: VerifiedCall, payload: object, headers: Mapping[str, str]
) -> tuple[str, bool]:
    """Return the id of the delivery, and whether the signature covers it. The schedule's `dedup` comes first."""
    root, _, path = (hook.dedup or "").partition(".")
    if root == "payload" and isinstance(found := look_up(payload, path), str | int) and str(found):
        return clean_delivery_id(str(found)), True
    if root == "headers" and headers.get(path.lower()):
        return clean_delivery_id(headers[path.lower()]), False
    return verified.delivery_id, verified.is_delivery_signed and bool(verified.delivery_id)


def _name_sender(auth: WebhookAuth) -> str:
    return auth.preset if auth.method is HookMethod.SIGNATURE else auth.method
