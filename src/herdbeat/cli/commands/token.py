"""`herdbeat token create`, `list` and `revoke`: who may use the server from outside."""

from datetime import datetime

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, open_fleet_to_extend
from herdbeat.cli.output.render import Notice, Output, SecretLine
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.token import TokenRecord
from herdbeat.durations import parse_duration
from herdbeat.service.commands.base import CreateToken, RevokeToken, result_to_json
from herdbeat.service.commands.tokens import mint_token
from herdbeat.service.serialize import serialize_token

DEFAULT_LIFETIME = "90d"
NEVER = "never"
MAX_TOKENS = 1_000

_HEADINGS = ["TOKEN", "SCOPE", "STATE", "CREATED", "BY", "EXPIRES"]


def run_create(args: ParsedArgs, context: Context) -> Output:
    handle, minted = open_fleet_to_extend(args, context), mint_token()
    command = CreateToken(
        name=args.positionals[0],
        grants=args.value(flags.SCOPE) or "read",
        digest=minted.digest,
        expires_at=_parse_expiry(args, handle),
        reason=parse_reason(args),
    )
    created = handle.dispatcher.run(current_actor(context), command)
    until = "never expires" if created.expires_at is None else f"expires {_format_moment(handle, created.expires_at)}"
    lines = [
        SecretLine(minted.text),
        Notice(f"Token {printable(created.name)} ({created.scope}, {until}). This is the only time it is shown."),
        Notice(f"undo: herdbeat token revoke {printable(created.name)}"),
    ]
    data = {**result_to_json(created), "token": minted.text}
    return Output(json=lambda: data, lines=lines, is_compact=True, shows_secret=True)


def run_list(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    tokens = [] if handle.reader is None else handle.reader.tokens(MAX_TOKENS)
    lines: list[str] = [Notice("No tokens.")]
    if tokens:
        rows = [_HEADINGS, *(_token_row(handle, each) for each in tokens)]
        lines = context.terminal.format_table(rows, shrink=(0, 4))
    return Output(json=lambda: {"items": [serialize_token(each, handle.now) for each in tokens]}, lines=lines)


def run_revoke(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    command = RevokeToken(name=args.positionals[0], reason=parse_reason(args))
    revoked = handle.dispatcher.run(current_actor(context), command)
    line = f"Revoked {printable(revoked.name)}. Its sessions and streams end within 30 seconds."
    return Output(json=lambda: result_to_json(revoked), lines=[Notice(line)], is_compact=True)


def _parse_expiry(args: ParsedArgs, handle: FleetHandle) -> datetime | None:
    text = args.value(flags.EXPIRES) or DEFAULT_LIFETIME
    return None if text == NEVER else handle.clock.now() + parse_duration(text)


def _token_row(handle: FleetHandle, token: TokenRecord) -> list[str]:
    state = "valid" if token.is_valid(handle.now) else "revoked" if token.revoked_at else "expired"
    expires = "never" if token.expires_at is None else _format_moment(handle, token.expires_at)
    created = _format_moment(handle, token.created_at)
    return [printable(token.name), printable(token.scope), state, created, printable(token.created_by), expires]


def _format_moment(handle: FleetHandle, moment: datetime) -> str:
    return format_time(moment, handle.now, handle.zone)
