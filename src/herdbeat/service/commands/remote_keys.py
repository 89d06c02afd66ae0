"""Which keys of a schedule or an endpoint may arrive from outside. All others are defined in files only.

A key that names a program (`precheck`), a secret (`*_env`, `*_file`) or a variable (`${NAME}`) would let a token read
or run what its owner cannot. So such keys are refused by their name, and values are never expanded.
"""

from collections.abc import Iterable, Mapping

from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, truncate_for_message

TRIGGER_KEYS = frozenset({"type", "interval", "every", "anchor", "cron", "expression", "at", "run_at"})
POLICY_KEYS = frozenset(
    {
        *("timezone", "catchup", "catchup_max", "grace", "max_late", "overlap", "jitter", "min_interval"),
        *("max_interval", "backoff", "retry", "timeout", "late_after", "pause_after_failures", "max_runs"),
        *("starts_at", "ends_at", "expires", "active_hours", "priority", "tags", "group", "first_run", "on_interrupt"),
    }
)
SCHEDULE_KEYS = TRIGGER_KEYS | POLICY_KEYS | {"prompt", "enabled"}
ENDPOINT_KEYS = frozenset({"name", "description", "url", "method", "headers", "body"})


class RefusedKey(HerdbeatError):
    """A key or a value that only files may have."""

    code = Code.INVALID_VALUE
    exit_status = 2
    http_status = 422


def check_remote_schedule(document: Mapping[str, object]) -> None:
    """Raises RefusedKey."""
    _check_keys(document, SCHEDULE_KEYS)


def check_remote_endpoint(document: Mapping[str, object], *, has_schedule: bool = True) -> None:
    """Raises RefusedKey, also for the keys of a schedule where only those of the endpoint are accepted."""
    _check_keys(document, ENDPOINT_KEYS | SCHEDULE_KEYS if has_schedule else ENDPOINT_KEYS)


def _check_keys(document: Mapping[str, object], allowed: Iterable[str]) -> None:
    refused = next((key for key in document if key not in allowed), None)
    if refused is not None:
        raise RefusedKey(
            f'The key "{truncate_for_message(refused)}" cannot be set through the server.',
            hint="Set it in the fleet file. The server takes the trigger, timing policies, tags, enabled and prompt.",
        )
    for key, value in document.items():
        _check_value(key, value, depth=0)


MAX_DEPTH = 20


def _check_value(key: str, value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RefusedKey(f'"{truncate_for_message(key)}" is nested too deeply.', hint="Write fewer levels.")
    if key.endswith(("_env", "_file")) or (isinstance(value, str) and "${" in value and key != "prompt"):
        raise RefusedKey(
            f'"{truncate_for_message(key)}" refers to a variable or a file of the machine.',
            hint="Write the value itself, or set the key in the fleet file.",
        )
    if isinstance(value, Mapping):
        for name, item in value.items():
            _check_value(str(name), item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_value(key, item, depth + 1)
