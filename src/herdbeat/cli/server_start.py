"""Starting the server beside a fleet: its socket, the check of its address, and the lines that say where it is."""

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from herdbeat.bootstrap.handle import build_handle
from herdbeat.bootstrap.server_process import (
    bind_server_socket,
    complete_server_spec,
    describe_holder,
    format_server_url,
    is_loopback,
    require_certificate,
)
from herdbeat.bootstrap.server_spec import ServerSpec, build_server_spec
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.log_setup import choose_format
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import Conflict, UsageError

NO_SERVER_VARIABLE = "HERDBEAT_NO_SERVER"
MAX_SHOWN_HOOKS = 5


@dataclass(frozen=True, slots=True)
class BoundServer:
    """A server that is about to start: what it needs to know, and the socket that it listens on."""

    spec: ServerSpec
    listener: socket.socket
    hooks: tuple[str, ...] = ()
    is_port_given: bool = False

    @property
    def url(self) -> str:
        return format_server_url(self.spec.settings, self.spec.port)

    @property
    def local_url(self) -> str:
        """The address for programs of this machine, whatever the public one is."""
        return format_server_url(replace(self.spec.settings, public_url=""), self.spec.port)

    def lines(self) -> Iterator[str]:
        """Say where it is; and how to get in, if not everybody on this machine may."""
        if self.spec.port != self.spec.settings.port and not self.is_port_given:
            taken = self.spec.settings.port
            yield f"port {taken} is in use{describe_holder(taken)}; the next free one is {self.spec.port}"
        yield f"dashboard: {self.url}"
        if self.spec.settings.is_published or self.spec.has_isolation or not is_loopback(self.spec.settings.host):
            yield f"login (works once): {self.url}/login?code={self.spec.login_code}"
        for label in self.hooks[:MAX_SHOWN_HOOKS]:
            yield f"webhook: POST {self.url}/hooks/{label}"
        if len(self.hooks) > MAX_SHOWN_HOOKS:
            yield f"and {len(self.hooks) - MAX_SHOWN_HOOKS} more webhooks: POST {self.url}/hooks/TARGET/SCHEDULE"


def bind_server(
    fleet: Fleet, config: str | None, args: ParsedArgs, context: Context, *, has_files: bool
) -> BoundServer:
    """Bind the socket of the server.

    Raises Conflict if the port is taken, or nobody could log in, UsageError for a certificate that cannot be used.
    """
    settings = fleet.server
    require_certificate(settings, fleet.home)
    if not is_loopback(settings.host) and settings.proxy_auth is None:
        _require_token(fleet, context)
    hooks = tuple(each.id for each in fleet.schedules if each.trigger.kind is TriggerKind.WEBHOOK and each.enabled)
    port = _parse_port(args)
    listener = bind_server_socket(settings, port, has_callers=bool(hooks))
    spec = build_server_spec(fleet, config, context.environ, context.folder, has_files=has_files)
    spec = replace(spec, log_format=choose_format(args, context, fleet))
    return BoundServer(complete_server_spec(spec, listener), listener, hooks, is_port_given=port is not None)


def wants_server(args: ParsedArgs, context: Context) -> bool:
    return not args.has(flags.NO_SERVER) and not context.environ.get(NO_SERVER_VARIABLE)


def _parse_port(args: ParsedArgs) -> int | None:
    text = args.value(flags.PORT)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 65_536):
        raise UsageError(f'--port cannot be "{text[:20]}".', hint="Use a number from 1 to 65535; 0 takes any free one.")
    return int(text)


def _require_token(fleet: Fleet, context: Context) -> None:
    """Clients of any address other than loopback must authenticate."""
    handle = build_handle(fleet, context.clock).use_ledger_clock()
    if handle.has_ledger:
        with closing(handle.open_reader()) as reader:
            if any(token.is_valid(handle.now) for token in reader.tokens(1_000)):
                return
    raise Conflict(
        f"server.host is {fleet.server.host}, which others can reach, and there is no token.",
        hint="Create one first: herdbeat token create NAME --scope admin. Or use host: 127.0.0.1.",
    )
