"""Tokens of the server: make the text, keep only its hash, revoke it."""

import hashlib
import secrets
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.token import MAX_TOKEN_NAME_CHARS, TOKEN_PREFIX, TokenRole, TokenScope
from herdbeat.errors import Conflict, NotFound, UsageError, truncate_for_message
from herdbeat.service.commands.base import Actor, CreatedToken, CreateToken, RevokedToken, RevokeToken, Scope
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import Transaction

_RANDOM_BYTES = 20
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@")

_OPERATE = frozenset({Scope.READ, Scope.TRIGGER, Scope.CONTROL})
_SCOPES: dict[TokenRole, frozenset[Scope]] = {
    TokenRole.READ: frozenset({Scope.READ}),
    TokenRole.OPERATE: _OPERATE,
    TokenRole.ADMIN: frozenset(Scope) - {Scope.EXEC},
    TokenRole.AGENT: _OPERATE | {Scope.SELF},
    TokenRole.HOOK: frozenset(),
    TokenRole.EXEC: frozenset({Scope.EXEC}),
}


class MintedToken(NamedTuple):
    """A new token: the text that its owner keeps, and the hash that the ledger keeps."""

    text: str
    digest: str


def mint_token() -> MintedToken:
    text = f"{TOKEN_PREFIX}{secrets.token_hex(_RANDOM_BYTES)}"
    return MintedToken(text=text, digest=hash_token(text))


def hash_token(text: str) -> str:
    """Return the hash. A plain one is enough: the text has 160 random bits, and no dictionary contains it."""
    return hashlib.sha256(text.encode()).hexdigest()


def parse_token_scope(text: str) -> TokenScope:
    """Raises UsageError for a text that is no scope."""
    scope = TokenScope.parse(text)
    if scope is None:
        hint = "Use read, operate, admin, agent:TARGET, hook:TARGET/SCHEDULE or exec:ray."
        raise UsageError(f'"{truncate_for_message(text)}" is not a scope.', hint=hint)
    return scope


def build_actor(name: str, scope: TokenScope) -> Actor:
    """Return who acts with a token. An agent's token acts as that agent; all others act for the person who has them."""
    if scope.role is TokenRole.AGENT:
        who, target = f"agent:{scope.subject}", scope.subject
    elif scope.role is TokenRole.EXEC:
        who, target = f"exec:{name}", scope.subject
    else:
        who, target = f"human:{name}", ""
    return Actor(name=who, scopes=_SCOPES[scope.role], target=target, is_remote=True)


def create_token(
    tx: Transaction,
    now: datetime,
    who: str,
    command: CreateToken,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> CreatedToken:
    """Raises UsageError for a bad name, scope or end, Conflict if a token of that name is in force."""
    scope = parse_token_scope(command.grants)
    _require_valid(now, command)
    tx.lock_definitions()
    if tx.token_in_force(command.name, now):
        hint = f"Choose another name, or revoke it first: herdbeat token revoke {command.name}"
        raise Conflict(f'There is already a token "{command.name}".', hint=hint)
    tx.revoke_token(command.name, who, now)  # one that has expired gives its name to the new one
    tx.add_token(command.name, command.digest, str(scope), by=who, now=now, expires_at=command.expires_at)
    after = {"scope": str(scope), "reason": command.reason}
    tx.add_changes([Change(at=now, who=who, what=ChangeKind.ADD, subject=f"token:{command.name}", after=after)])
    return CreatedToken(name=command.name, scope=str(scope), expires_at=command.expires_at)


def _require_valid(now: datetime, command: CreateToken) -> None:
    if not 0 < len(command.name) <= MAX_TOKEN_NAME_CHARS or not _NAME_CHARS.issuperset(command.name):
        hint = f"Use up to {MAX_TOKEN_NAME_CHARS} letters, digits and the characters - _ . @"
        raise UsageError(f'"{truncate_for_message(command.name)}" is not a name for a token.', hint=hint)
    if command.expires_at is not None and command.expires_at <= now:
        raise UsageError("The token would have expired already.", hint="Give an end in the future, such as 90d.")


def revoke_token(
    tx: Transaction,
    now: datetime,
    who: str,
    command: RevokeToken,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> RevokedToken:
    """Raises NotFound if no token of that name is left to revoke."""
    if not tx.revoke_token(command.name, who, now):
        hint = "List the tokens: herdbeat token list"
        raise NotFound(f'There is no token "{truncate_for_message(command.name)}" to revoke.', hint=hint)
    after = {"reason": command.reason} if command.reason else None
    tx.add_changes([Change(at=now, who=who, what=ChangeKind.REMOVE, subject=f"token:{command.name}", after=after)])
    return RevokedToken(name=command.name)
