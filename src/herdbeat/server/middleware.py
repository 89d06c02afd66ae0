"""Middleware: a request id and security headers for every answer; checks of Host and size for every request."""

import asyncio
import platform
from http import HTTPStatus
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from herdbeat.domain.fleet import ServerSettings
from herdbeat.error_codes import Code
from herdbeat.server.auth import is_allowed_host
from herdbeat.server.problems import build_problem

MAX_BODY_BYTES = 1024 * 1024
MAX_HELD_BODY_BYTES = 64 * 1024 * 1024
"""Bytes of bodies that all requests together may hold. They are read before the sender is authenticated: without a
limit, thousands of connections with a body each filled the memory of the machine, which is that of the node, too.
"""

_CALL_PATHS = ("/hooks/", "/webhooks/")
"""Their receiver has a limit of its own, and keeps a record of calls that exceed it."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class GuardMiddleware:
    """Refuses foreign hosts and large bodies before anything reads them. It buffers nothing: streams stay streams."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, *, checks_host: bool) -> None:
        self._app = app
        self._settings = settings
        self._checks_host = checks_host
        self._machine = platform.node()
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._settings.base_path and not scope.get("root_path"):
            # A proxy may leave our base path in the path or remove it: routes match either way, links carry it.
            scope["root_path"] = self._settings.base_path
        request_id = uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        seen_bytes = 0

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._complete_headers(message, request_id)
            await send(message)

        is_call = scope["path"].removeprefix(self._settings.base_path).startswith(_CALL_PATHS)

        async def receive_limited() -> Message:
            nonlocal seen_bytes
            message = await receive()
            size = len(message.get("body", b""))
            seen_bytes, self._held_bytes = seen_bytes + size, self._held_bytes + size
            if not is_call and seen_bytes > MAX_BODY_BYTES:
                raise _build_body_too_large_error()
            if size and self._held_bytes > MAX_HELD_BODY_BYTES:
                raise HTTPException(429, "Too many large requests are open.", headers={"Retry-After": "5"})
            return message

        refusal = self._find_refusal(Request(scope), headers, is_call=is_call)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive_limited, send_guarded)
        finally:
            self._held_bytes -= seen_bytes

    def _complete_headers(self, message: Message, request_id: str) -> None:
        answer = MutableHeaders(scope=message)
        for name, value in SECURITY_HEADERS.items():
            answer.setdefault(name, value)
        answer["X-Request-Id"] = request_id
        if message["status"] == HTTPStatus.TEMPORARY_REDIRECT and "location" in answer:
            answer["Location"] = self._find_public_path(answer["location"])

    def _find_public_path(self, location: str) -> str:
        """Return where a path without or with its last slash is, without a host: behind a proxy, ours is not theirs."""
        parts, base = urlsplit(location), self._settings.base_path
        path = f"{base}/{parts.path.removeprefix(base).lstrip('/')}"
        return f"{path}?{parts.query}" if parts.query else path

    def _find_refusal(self, request: Request, headers: Headers, *, is_call: bool) -> ASGIApp | None:
        hosts = headers.getlist("host")
        if self._checks_host and (len(hosts) != 1 or not is_allowed_host(hosts[0], self._settings, self._machine)):
            hint = "Use the address that the server prints, or set server.public_url."
            return build_problem(request, 403, Code.CROSS_SITE, "The Host header names another site.", hint)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy in front may have believed the other one: the rest of the body would be a request of its own.
            hint = "Send Content-Length or Transfer-Encoding."
            refusal = build_problem(request, 400, Code.USAGE, "The request has two lengths.", hint)
            refusal.headers["Connection"] = "close"
            return refusal
        if not is_call and _declared_bytes(headers) > MAX_BODY_BYTES:
            return _build_too_large_problem(request)
        return None


class HeadMiddleware:
    """Answers HEAD as GET, without the body: monitors, `curl -I` and checkers of links ask that way."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_answered = asyncio.Event()

        async def receive_end() -> Message:
            await is_answered.wait()  # a stream has no end of its own: it ends when its reader leaves
            return {"type": "http.disconnect"}

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                is_answered.set()

        await self._app({**scope, "method": "GET"}, receive_end, send_head)


def _build_body_too_large_error() -> HTTPException:
    """For a body without a declared length that turns out to be too long. FastAPI lets this type pass."""
    return HTTPException(413, f"The body is longer than {MAX_BODY_BYTES // 1024} KiB.")


def _declared_bytes(headers: Headers) -> int:
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _build_too_large_problem(request: Request) -> ASGIApp:
    detail = f"The body is longer than {MAX_BODY_BYTES // 1024} KiB."
    return build_problem(request, 413, Code.TOO_LARGE, detail, Code.TOO_LARGE.info.fix)
