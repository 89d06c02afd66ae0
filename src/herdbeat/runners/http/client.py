"""Sends the requests of endpoints, reads their responses up to a limit, and holds the open connections."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import aiohttp

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.redaction import MASK, find_secrets
from herdbeat.runners.base import Job
from herdbeat.runners.http.addresses import EgressAllowlist
from herdbeat.runners.http.egress import (
    HostLookup,
    ThreadedResolver,
    guarded_socket,
    lookup_host,
    track_attempt,
)
from herdbeat.runners.http.request import HttpRequest, build_request
from herdbeat.runners.http.response import (
    CallFailed,
    check_ok,
    explain_broken_response,
    explain_request_error,
    response_to_outcome,
)
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings

MAX_REDIRECTS = 5
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""The executor enforces one deadline for the whole run, so aiohttp needs no timeout of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response of an endpoint. `body` is cut off at the cap."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_truncated: bool
    redirects: int


@dataclass(slots=True)
class CallProgress:
    """How far a call has come, to describe a call that was cancelled."""

    host: str = ""
    status: int | None = None
    received: int = 0


class EndpointCaller:
    """Executes runs of endpoints, with the connections of a node. Needs a running loop; `close` it at the end.

    A cancelled run closes its connection first. Every request uses a new connection. A server may close a kept one at
    the moment it is used again (it keeps connections for five seconds, and a schedule runs every five seconds), and
    then nobody knows whether the request was executed: to repeat it may execute it twice, not to repeat it fails a
    run for nothing. A new connection costs a third of a millisecond, both sides together, and a TLS handshake.
    """

    def __init__(self, settings: RunnerSettings, clock: Clock, lookup: HostLookup = lookup_host) -> None:
        self._settings = settings
        self._clock = clock
        self._resolver = ThreadedResolver(lookup, settings.max_concurrent)
        self._allowed = EgressAllowlist.parse(settings.egress_allow)
        self._session = self._open_session()

    async def run(self, job: Job) -> Outcome:
        spec, settings = job.target.spec, self._settings
        assert isinstance(spec, EndpointSpec)
        with settings.open_log(job.claim.run_id, self._clock) as run_log:
            try:
                response = await self._call(job, spec, run_log)
            except CallFailed as error:
                return Outcome(status=RunStatus.FAILED, code=error.status, error=str(error))
            secrets = find_secrets({"url": spec.url, "headers": spec.headers, "body": spec.body})
            response = _redact_secrets(response, secrets)
            outcome = response_to_outcome(response, settings, run_log, self._clock.now())
        return check_ok(outcome, spec.ok) if spec.ok else outcome

    async def close(self) -> None:
        await self._session.close()
        await self._resolver.close()

    def set_egress(self, allow: tuple[str, ...]) -> None:
        """Use another list for every connection from now on."""
        self._allowed = EgressAllowlist.parse(allow)

    def _open_session(self) -> aiohttp.ClientSession:
        # Without a connection limit: the capacity of node and targets already limits concurrent runs.
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            socket_factory=lambda info: guarded_socket(self._allowed, info),
            limit=0,
            force_close=True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # a cookie of one endpoint must not be sent to another
            timeout=_NO_TIMEOUT,
            trust_env=False,  # a proxy would open the connections itself and so bypass the guard
            middlewares=(_send_once,),
        )

    async def _call(self, job: Job, spec: EndpointSpec, run_log: RunLog) -> HttpResponse:
        """Return the response, whatever its status, after redirects. Raises CallFailed if there is none."""
        progress = CallProgress()
        try:
            request = build_request(spec, job.prompt, job.beat_key)
        except ValueError as error:
            raise CallFailed(
                "The request is invalid. Check url and body for characters that HTTP does not allow."
            ) from error
        try:
            for redirects in range(MAX_REDIRECTS + 1):
                progress.host = request.host
                result = await self._send(request, progress, redirects)
                if isinstance(result, HttpResponse):
                    return result
                request = result
        except asyncio.CancelledError:
            what = f"{progress.host} answered {progress.status} and sent {progress.received} bytes of the body"
            run_log.note(f"cancelled: {what if progress.status else f'no answer from {progress.host}'}")
            raise
        raise CallFailed(
            f"The request was redirected more than {MAX_REDIRECTS} times, the last time to {request.host}."
            " Use the final URL, or fix the redirect loop."
        )

    async def _send(self, request: HttpRequest, progress: CallProgress, redirects: int) -> HttpResponse | HttpRequest:
        """Send one request; return its response, or the request to which it redirects."""
        with track_attempt(request.host) as attempt:
            try:
                response = await self._session.request(
                    request.method, request.url, headers=request.headers, data=request.body, allow_redirects=False
                )
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise explain_request_error(error, attempt) from error
        try:
            progress.status = response.status
            return _redirect_request(request, response) or await self._read(response, progress, redirects)
        finally:
            response.close()

    async def _read(self, response: aiohttp.ClientResponse, progress: CallProgress, redirects: int) -> HttpResponse:
        body, cap = bytearray(), self._settings.body_cap
        try:
            # Chunks are decompressed already, and at most a quarter of a megabyte each: reading stops at the cap, so a
            # compression bomb never expands to its gigabytes.
            while len(body) <= cap and (chunk := await response.content.readany()):
                body += chunk
                progress.received = len(body)
        except (aiohttp.ClientError, OSError) as error:
            raise explain_broken_response(error, response.status, len(body)) from error
        return HttpResponse(
            status=response.status,
            reason=response.reason or "",
            headers=response.headers,
            body=bytes(body[:cap]),
            is_truncated=len(body) > cap,
            redirects=redirects,
        )


class ConnectionDropped(aiohttp.ClientConnectionError):
    """The connection broke after the request was sent, and before its response."""


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a request. It repeats GET, PUT and DELETE, on a new connection, if the first one
    is dropped without a response: an endpoint that works and then dies would work twice for one attempt.
    """
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise  # never connected, so nothing was sent; aiohttp does not repeat it either
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionDropped(str(error)) from error


def _redirect_request(request: HttpRequest, response: aiohttp.ClientResponse) -> HttpRequest | None:
    """Return the request to which a response redirects; None if it does not, or must not be followed."""
    location = response.headers.get("Location")
    if response.status not in (301, 302, 303, 307, 308) or location is None or not request.can_follow_redirects:
        return None
    try:
        return request.follow_redirect(location)
    except ValueError as error:
        sentence = f"{request.host} redirects to a URL that is not http or https. Use the final URL."
        raise CallFailed(sentence, response.status) from error


def _redact_secrets(response: HttpResponse, secrets: Collection[str]) -> HttpResponse:
    """Remove the request's secrets from a response: an endpoint that echoes its request must not publish them."""
    body = response.body
    for secret in sorted(secrets, key=len, reverse=True):
        body = body.replace(secret.encode(), MASK.encode())
    return response if body is response.body else replace(response, body=body)
