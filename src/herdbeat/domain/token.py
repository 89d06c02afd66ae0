"""Tokens: what a program or a browser shows to the server, and what each one may do."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

TOKEN_PREFIX = "hbt_"  # noqa: S105 -- how every token begins, so that scanners for secrets recognise one
RUN_TOKEN_PREFIX = f"{TOKEN_PREFIX}run_"
TAKE_TOKEN_PREFIX = f"{TOKEN_PREFIX}take_"
EXEC_SECRET_PREFIX = f"{TOKEN_PREFIX}exec_"
MAX_TOKEN_NAME_CHARS = 64


class TokenRole(StrEnum):
    """The first word of a token's scope."""

    READ = "read"
    OPERATE = "operate"  # run, pause, hint, cancel, create schedules
    ADMIN = "admin"  # prompts, configuration and tokens too
    AGENT = "agent"  # agent:<name>: look at and operate the schedules of one target
    HOOK = "hook"  # hook:<target>/<schedule>: call one webhook
    EXEC = "exec"  # exec:<executor>: take runs that are submitted to that engine, and nothing else


_ROLES_WITH_SUBJECT = frozenset({TokenRole.AGENT, TokenRole.HOOK, TokenRole.EXEC})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScope:
    """What a token may do. `subject` is the target of an agent's token, or the schedule of a webhook's."""

    role: TokenRole
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.role}:{self.subject}" if self.subject else str(self.role)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the scope: `read`, `operate`, `admin`, `agent:NAME`, `hook:NAME`, `exec:ray`; None for other texts."""
        word, _, subject = text.partition(":")
        if word not in set(TokenRole):
            return None
        role = TokenRole(word)
        return cls(role=role, subject=subject) if bool(subject) == (role in _ROLES_WITH_SUBJECT) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token in the ledger: everything but its text, of which only the hash is kept."""

    id: int
    name: str
    scope: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str = ""

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
