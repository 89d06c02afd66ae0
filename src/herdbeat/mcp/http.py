"""The MCP server at `/mcp` of the server: streamable HTTP, every request with its own token."""

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from herdbeat.errors import MissingExtra
from herdbeat.mcp.toolbox import ToolHost
from herdbeat.service.commands.base import Actor, Forbidden, Scope
from herdbeat.service.run_tokens import ToolUser, find_agent_user, find_run_user, is_run_token

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MCP_PATH = "/mcp"
MAX_BODY_BYTES = 256 * 1024
_USER_KEY = "herdbeat.tool_user"


class HttpToolHost(ToolHost, Protocol):
    """A fleet that knows tokens."""

    def log_in(self, request: Request, token: str) -> Actor:
        """Return who has this token. Raises HerdbeatError if it is not valid."""


def add_mcp(app: FastAPI, host: HttpToolHost) -> None:
    """Add the endpoint. Its protocol is imported and started by the first request."""
    app.router.routes.append(Route(MCP_PATH, endpoint=McpEndpoint(host)))


class McpEndpoint:
    """An ASGI application for all requests of the protocol. No session outlives a request: each has its token."""

    def __init__(self, host: HttpToolHost) -> None:
        self._host = host
        self._manager: StreamableHTTPSessionManager | None = None
        self._serving: asyncio.Task[None] | None = None
        self._start_lock = asyncio.Lock()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        user = await run_in_threadpool(self._find_user, Request(scope))
        manager = self._manager or await self._start()
        await manager.asgi_app({**scope, _USER_KEY: user}, receive, send)

    def _find_user(self, request: Request) -> ToolUser:
        """Raises HerdbeatError for a request without a valid token, and for one that opens no tools."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if is_run_token(token):
            with self._host.open() as handle:
                user = find_run_user(handle.require_reader(), token)
            if user is not None:
                return user
        return self._find_token_user(self._host.log_in(request, token))

    def _find_token_user(self, actor: Actor) -> ToolUser:
        """An agent's token has the tools of its agent; every other one that may read looks at the fleet."""
        if actor.target:
            with self._host.open() as handle:
                return find_agent_user(handle.require_reader(), actor.target)
        if Scope.READ not in actor.scopes:
            raise Forbidden("This token opens no tools.", hint="Use a token with the scope read or agent:NAME.")
        return ToolUser(actor=Actor(name=actor.name, scopes=frozenset({Scope.READ}), is_remote=True))

    async def _start(self) -> "StreamableHTTPSessionManager":
        async with self._start_lock:
            if self._manager is None:
                manager = await run_in_threadpool(self._build)
                is_ready = asyncio.Event()
                self._serving = asyncio.create_task(_serve(manager, is_ready), name="mcp")
                await is_ready.wait()
                self._manager = manager
        return self._manager

    def _build(self) -> "StreamableHTTPSessionManager":
        """Import the protocol, which takes a while, and build its server."""
        try:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415
            from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

            from herdbeat.mcp.protocol import build_server  # noqa: PLC0415 -- the extra
        except ModuleNotFoundError as error:
            raise MissingExtra("The MCP server", "mcp") from error
        return StreamableHTTPSessionManager(
            build_server(self._host, _get_user),
            json_response=True,
            stateless=True,
            max_request_body_size=MAX_BODY_BYTES,
            # The server has checked Host and token already, for every request.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )


async def _serve(manager: "StreamableHTTPSessionManager", is_ready: asyncio.Event) -> None:
    async with manager.run():
        is_ready.set()
        await asyncio.Event().wait()


def _get_user(request: Any) -> ToolUser:
    user = request.scope[_USER_KEY]
    assert isinstance(user, ToolUser)
    return user
