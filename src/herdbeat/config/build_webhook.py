"""Webhook triggers: who may call a schedule, and how calls are signed."""

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema import schedule as keys
from herdbeat.config.schema.policies import DEDUP
from herdbeat.domain.webhook import GENERIC_PRESET, HookMethod, WebhookAuth
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError
from herdbeat.triggers import Webhook

_DEDUP_ROOTS = ("payload.", "headers.")
_AUTH_HINT = "Add auth: { preset: github, secret_env: HOOK_SECRET }, auth: { token: true }, or auth: none."


def build_webhook(fleet: ConfigNode, schedule: ConfigNode, diagnostics: Diagnostics) -> Webhook | None:
    """Return the trigger; None after a problem was reported."""
    errors_before = diagnostics.error_count
    _check_dedup(schedule, diagnostics)
    try:
        auth = _build_auth(fleet, schedule, diagnostics)
    except HerdbeatError:
        return None  # the check of all keys has reported it
    if diagnostics.error_count > errors_before:
        return None
    _warn_refused(auth, fleet, schedule, diagnostics)
    return Webhook(auth=auth)


def _build_auth(fleet: ConfigNode, schedule: ConfigNode, diagnostics: Diagnostics) -> WebhookAuth:
    block = schedule.child(keys.WEBHOOK_AUTH.name)
    if fleet.find(("webhooks", "enabled")).value is False:
        return WebhookAuth(method=HookMethod.OFF)
    inherited = WebhookAuth(
        secret_env=_find_default_secrets(fleet, schedule), has_file_secret=schedule.child(keys.SECRET.name) is not None
    )
    if block is None:
        return inherited
    if not isinstance(block.value, dict):
        return WebhookAuth(method=HookMethod.NONE)
    if keys.HOOK_TOKEN.get(block):
        _refuse_beside_token(block, diagnostics)
        return WebhookAuth(method=HookMethod.TOKEN)
    return _build_signature(block, inherited, diagnostics)


def _find_default_secrets(fleet: ConfigNode, schedule: ConfigNode) -> tuple[str, ...]:
    """Return the variable of the schedule, else the fleet's; none if the schedule has its secret in the file."""
    own = keys.SECRET_ENV.get(schedule)
    if own is not None or schedule.child(keys.SECRET.name) is not None:
        return (own,) if own else ()
    shared = fleet.find(("webhooks", "secret_env")).value
    return (shared,) if isinstance(shared, str) and shared else ()


def _build_signature(block: ConfigNode, inherited: WebhookAuth, diagnostics: Diagnostics) -> WebhookAuth:
    preset, written = keys.HOOK_PRESET.get(block) or "github", keys.HOOK_SECRETS.get(block)
    own = (written,) if isinstance(written, str) else written if isinstance(written, tuple) else ()
    secrets = tuple(str(each) for each in own) or inherited.secret_env
    if preset != GENERIC_PRESET:
        _refuse_generic_keys(block, preset, diagnostics)
        return WebhookAuth(preset=preset, secret_env=secrets, has_file_secret=inherited.has_file_secret)
    auth = WebhookAuth(
        preset=preset,
        secret_env=secrets,
        has_file_secret=inherited.has_file_secret,
        header=keys.HOOK_HEADER.get(block) or "",
        signed=keys.HOOK_SIGNED.get(block) or "{body}",
        encoding=keys.HOOK_ENCODING.get(block) or "hex",
        prefix=keys.HOOK_PREFIX.get(block) or "",
        timestamp_header=keys.HOOK_TIMESTAMP.get(block) or "",
        delivery_header=keys.HOOK_DELIVERY.get(block) or "",
    )
    _check_generic(block, auth, diagnostics)
    return auth


def _refuse_beside_token(block: ConfigNode, diagnostics: Diagnostics) -> None:
    for name, child in block.items():
        if name != keys.HOOK_TOKEN.name:
            message = f'"{name}" and "token" cannot be used together.'
            hint = "Callers with a token do not sign. Remove one of the two."
            diagnostics.error(Code.CONFLICTING_KEYS, message, child.report_location, hint)


def _refuse_generic_keys(block: ConfigNode, preset: str, diagnostics: Diagnostics) -> None:
    for key in keys.GENERIC_KEYS:
        child = block.child(key.name)
        if child is not None:
            message = f'"{key.name}" belongs to preset: generic; preset {preset} knows how its sender signs.'
            diagnostics.error(Code.CONFLICTING_KEYS, message, child.report_location, "Remove it, or use generic.")


def _check_generic(block: ConfigNode, auth: WebhookAuth, diagnostics: Diagnostics) -> None:
    if not auth.header:
        message, hint = 'Preset generic needs "header".', "Add the header that has the signature: header: X-Signature"
        diagnostics.error(Code.MISSING_KEY, message, block.report_location, hint)
    signed = block.find((keys.HOOK_SIGNED.name,))
    if "{body}" not in auth.signed:
        message, hint = "What is signed does not contain {body}.", 'Write for example "{timestamp}.{body}".'
        diagnostics.error(Code.INVALID_VALUE, message, signed.location, hint)
    for name, header, key in (
        ("{timestamp}", auth.timestamp_header, keys.HOOK_TIMESTAMP),
        ("{id}", auth.delivery_header, keys.HOOK_DELIVERY),
    ):
        if name in auth.signed and not header:
            message, hint = f'{name} is signed, but "{key.name}" is missing.', f"Add {key.name}, or remove {name}."
            diagnostics.error(Code.MISSING_KEY, message, signed.location, hint)


def _check_dedup(schedule: ConfigNode, diagnostics: Diagnostics) -> None:
    child = schedule.child(DEDUP.name)
    if child is not None and isinstance(child.value, str) and not child.value.startswith(_DEDUP_ROOTS):
        message = f'"{child.value}" does not name a value of the call.'
        hint = "Write for example payload.delivery_id or headers.x-request-id."
        diagnostics.error(Code.INVALID_VALUE, message, child.location, hint)


def _warn_refused(auth: WebhookAuth, fleet: ConfigNode, schedule: ConfigNode, diagnostics: Diagnostics) -> None:
    if auth.method is HookMethod.OFF:
        message, where = "webhooks.enabled is false: every call of this schedule is refused.", fleet.find(("webhooks",))
        diagnostics.warning(Code.NOT_SERVED, message, where.report_location, "Remove enabled: false.")
    elif auth.method is HookMethod.SIGNATURE and not auth.has_secret:
        message = "The webhook has no secret: every call is refused."
        diagnostics.warning(Code.NOT_SERVED, message, schedule.report_location, _AUTH_HINT)
