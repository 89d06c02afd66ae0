"""The MCP server on standard input and output: for the CLI of an agent, which starts it, or for a person's program."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from herdbeat.bootstrap.config import detect_system_zone, find_bare_ledger, load_config
from herdbeat.bootstrap.handle import FleetHandle, build_handle, open_bare_ledger, open_state_dir
from herdbeat.clock import SystemClock
from herdbeat.errors import ConfigError, HerdbeatError, MissingExtra, NotFound, UsageError
from herdbeat.redaction import redact
from herdbeat.service.commands.base import Actor, Command, Forbidden, Scope
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.run_tokens import RUN_TOKEN_VARIABLE, ToolUser, find_agent_user, find_run_user

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LedgerHost:
    """A fleet from outside of the process that runs it. Every call reads on a connection of its own."""

    handle: FleetHandle

    @contextmanager
    def open(self) -> Iterator[FleetHandle]:
        handle = self.handle.use_ledger_clock()
        if not handle.has_ledger:
            raise NotFound("This fleet has never been started.", hint="Start it with: herdbeat up")
        with closing(handle.open_reader()) as reader:
            yield replace(handle, reader=reader, now=handle.clock.now())

    def deliver(self, actor: Actor, command: Command[R]) -> Delivery[R]:
        return self.handle.use_ledger_clock().dispatcher.deliver(actor, command)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioIdentity:
    """Who uses the server: the run of a token, an agent by its name, or a program that only looks."""

    token: str = ""
    agent: str = ""
    read_only: bool = False

    def find_user(self, host: LedgerHost) -> ToolUser:
        """Raises Forbidden for a token whose run has ended, NotFound, AmbiguousSchedule."""
        if self.read_only:
            return ToolUser(actor=Actor(name="program", scopes=frozenset({Scope.READ})))
        with host.open() as handle:
            reader = handle.require_reader()
            if self.agent:
                return find_agent_user(reader, self.agent)
            user = find_run_user(reader, self.token)
        if user is None:
            raise Forbidden("The run of this token is not active.", hint="Only an active run can use these tools.")
        return user


def read_identity(environ: Mapping[str, str], agent: str, *, read_only: bool) -> StdioIdentity:
    """Return who starts the server. A flag beats the environment. Raises UsageError if neither says it."""
    token = environ.get(RUN_TOKEN_VARIABLE, "")
    if agent and read_only:
        raise UsageError("--as and --read-only cannot be combined.", hint="Use one of them.")
    if not agent and not read_only and not token:
        raise UsageError(
            "It is not clear for whom the tools are.",
            hint="Use --as AGENT or --read-only. Agents that herdbeat starts need neither.",
        )
    return StdioIdentity(token="" if agent or read_only else token, agent=agent, read_only=read_only)


def serve_stdio(handle: FleetHandle, identity: StdioIdentity) -> None:
    """Serve until standard input ends. Raises MissingExtra without the `mcp` package."""
    host = LedgerHost(handle)
    try:
        import anyio  # noqa: PLC0415
        from mcp.server.stdio import stdio_server  # noqa: PLC0415

        from herdbeat.mcp.protocol import build_server  # noqa: PLC0415 -- the extra
    except ModuleNotFoundError as error:
        raise MissingExtra("The MCP server", "mcp") from error

    def find_user(request: Any) -> ToolUser:  # noqa: ARG001 -- there is one user
        return identity.find_user(host)

    async def serve() -> None:
        server = build_server(host, find_user)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    identity.find_user(host)  # said now, and not at the first call
    anyio.run(serve)


def main(words: Sequence[str] | None = None) -> int:
    """Serve a fleet: of a state directory, as the CLI of an agent asks for it, or of fleet files. Return the status."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)  # standard output is the protocol's
    try:
        given = _parse_words(sys.argv[1:] if words is None else words)
        identity = read_identity(os.environ, given.agent, read_only=given.read_only)
        serve_stdio(_open_handle(given), identity)
    except HerdbeatError as error:
        sys.stderr.write(redact(f"{error.message} {error.hint}".strip()) + "\n")
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    return 0


def _parse_words(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="herdbeat mcp", add_help=False)
    parser.add_argument("--state", default="")
    parser.add_argument("--config", default=None)
    parser.add_argument("--as", dest="agent", default="")
    parser.add_argument("--read-only", action="store_true")
    return parser.parse_args(words)


def _open_handle(given: argparse.Namespace) -> FleetHandle:
    """Raises ConfigError if there are no files, or they define no fleet."""
    clock = SystemClock()
    if given.state:
        return open_state_dir(Path(given.state), clock)
    place = (given.config, os.environ, Path.cwd())
    if (bare := find_bare_ledger(*place)) is not None:
        return open_bare_ledger(bare, detect_system_zone(os.environ), clock)
    loaded = load_config(*place)
    if loaded.fleet is None:
        raise ConfigError(loaded.errors)
    return build_handle(loaded.fleet, clock)
