"""How the callers of a webhook prove who they are, as configured. It has the names of variables, never a secret."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Self


class HookMethod(StrEnum):
    SIGNATURE = "signature"  # the sender signs the body
    TOKEN = "token"  # noqa: S105 -- a word; a bearer token of the scope hook:TARGET/SCHEDULE
    NONE = "none"  # written out: anybody who reaches the server may call
    OFF = "off"  # `webhooks.enabled: false`: nobody may


GENERIC_PRESET = "generic"
PRESET_NAMES = (
    *("github", "standard", "gitlab", "linear", "slack", "stripe", "sentry", "pagerduty"),
    GENERIC_PRESET,
)
DEFAULT_MAX_BODY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAuth:
    """The method, and for signatures the preset and the variables that hold its secrets: two while one is replaced.

    The keys from `header` on describe the `generic` preset. `has_file_secret` says that the file itself has the secret:
    it is read from there, because a secret is not written to the ledger.
    """

    method: HookMethod = HookMethod.SIGNATURE
    preset: str = "github"
    secret_env: tuple[str, ...] = ()
    has_file_secret: bool = False
    header: str = ""
    signed: str = "{body}"
    encoding: str = "hex"
    prefix: str = ""
    timestamp_header: str = ""
    delivery_header: str = ""

    @property
    def has_secret(self) -> bool:
        return bool(self.secret_env) or self.has_file_secret

    def to_options(self) -> dict[str, str]:
        """Return the values that are no defaults, as texts: `from_options(a.to_options()) == a`."""
        default = type(self)()
        changed = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _to_text(value) for name, value in changed.items() if value != getattr(default, name)}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        texts = {each.name: options[each.name] for each in fields(cls) if each.name in options}
        return cls(
            method=HookMethod(texts.pop("method", HookMethod.SIGNATURE)),
            secret_env=tuple(filter(None, texts.pop("secret_env", "").split(","))),
            has_file_secret=texts.pop("has_file_secret", "") == "true",
            **texts,
        )


def _to_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
