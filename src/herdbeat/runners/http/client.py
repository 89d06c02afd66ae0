"""Sends requests and reads what comes back, within bounds. The one module that holds open connections."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import aiohttp

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.base import Job
from herdbeat.runners.http.egress import (
    EgressAllowlist,
    EgressGuard,
    HostLookup,
    ThreadedResolver,
    lookup_host,
    track_attempt,
)
from herdbeat.runners.http.request import HttpRequest, build_request, find_secrets
from herdbeat.runners.http.response import (
    CallFailed,
    explain_broken_response,
    explain_request_error,
    response_to_outcome,
)
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings

MAX_REDIRECTS = 5
_IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""The run has one deadline for everything, and whoever awaits us keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What an endpoint said. Of a body longer than the cap this is the beginning."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_truncated: bool
    redirects: int


@dataclass(slots=True)
class CallProgress:
    """How far a call has come, for who has to tell of one that was cut off."""

    host: str = ""
    status: int | None = None
    received: int = 0


class HttpClient:
    """One per node. Needs a running loop; `close` it at the end.

    A kept connection may be closed by its server in the very moment it is used again, which happens when a server
    keeps connections for five seconds and a schedule comes every five seconds. aiohttp then sends the request once
    more, but only where that is safe. So a POST gets a connection of its own each time: it never fails for that.
    """

    def __init__(self, allowed: EgressAllowlist, lookup: HostLookup, *, max_concurrent: int, body_cap: int) -> None:
        self._body_cap = body_cap
        self._resolver = ThreadedResolver(lookup, max_concurrent)
        guard = EgressGuard(allowed)
        self._keepalive_session = self._session(guard, force_close=False)
        self._single_use_session = self._session(guard, force_close=True)

    async def call(self, request: HttpRequest, progress: CallProgress) -> HttpResponse:
        """The answer, whatever its status. Raises CallFailed if there is none."""
        for redirects in range(MAX_REDIRECTS + 1):
            progress.host = request.host
            found = await self._send(request, progress, redirects)
            if isinstance(found, HttpResponse):
                return found
            request = found
        raise CallFailed(
            f"It was redirected more than {MAX_REDIRECTS} times, the last time to {request.host}."
            " Write the url that it ends at, or mend the circle."
        )

    async def close(self) -> None:
        await self._keepalive_session.close()
        await self._single_use_session.close()
        await self._resolver.close()

    def _session(self, guard: EgressGuard, *, force_close: bool) -> aiohttp.ClientSession:
        # No limit of its own: how much goes on at once is decided by the room of node and targets.
        connector = aiohttp.TCPConnector(
            resolver=self._resolver, socket_factory=guard, limit=0, force_close=force_close
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # what one endpoint sets is not another's to send
            timeout=_NO_TIMEOUT,
            trust_env=False,  # a proxy would do the connecting, past the guard
        )

    async def _send(self, request: HttpRequest, progress: CallProgress, redirects: int) -> HttpResponse | HttpRequest:
        """One request: its answer, or the request that follows from it."""
        session = self._keepalive_session if request.method in _IDEMPOTENT_METHODS else self._single_use_session
        with track_attempt(request.host) as attempt:
            try:
                response = await session.request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    data=request.body,
                    allow_redirects=False,
                )
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise explain_request_error(error, attempt) from error
        try:
            progress.status = response.status
            redirect = _redirect_request(request, response)
            return redirect or await self._read(response, progress, redirects)
        finally:
            response.close()  # does nothing if it was read to its end: then its connection is kept already

    async def _read(self, response: aiohttp.ClientResponse, progress: CallProgress, redirects: int) -> HttpResponse:
        body, cap = bytearray(), self._body_cap
        try:
            # What is read here is already decompressed, a quarter of a megabyte at most at a time: a bomb that would
            # become gigabytes is left lying after its first pieces.
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


def _redirect_request(request: HttpRequest, response: aiohttp.ClientResponse) -> HttpRequest | None:
    """The request that an answer asks for instead; None if it is the answer itself."""
    location = response.headers.get("Location")
    if response.status not in (301, 302, 303, 307, 308) or location is None or not request.can_follow_redirects:
        return None
    try:
        return request.follow_redirect(location)
    except ValueError as error:
        sentence = f"{request.host} redirects to something that is not an http address. Write the url that is meant."
        raise CallFailed(sentence, response.status) from error


# One run of an endpoint, from its job to its outcome.


REDACTED = b"***"
_OK_NOTE = "The ok expression was not looked at: this version judges by the status alone."


class EndpointCaller:
    """Needs a running loop. Cancelled, a run closes its connection before the cancellation goes on."""

    def __init__(self, settings: RunnerSettings, clock: Clock, lookup: HostLookup = lookup_host) -> None:
        self._settings = settings
        self._clock = clock
        allowed = EgressAllowlist.parse(settings.egress_allow)
        self._client = HttpClient(allowed, lookup, max_concurrent=settings.max_concurrent, body_cap=settings.body_cap)

    async def run(self, job: Job) -> Outcome:
        spec, settings = job.target.spec, self._settings
        assert isinstance(spec, EndpointSpec)
        with closing(RunLog(settings.state_dir, job.claim.run_id, self._clock, settings.log_cap)) as run_log:
            try:
                response = await self._call(job, spec, run_log)
            except CallFailed as error:
                return Outcome(status=RunStatus.FAILED, code=error.status, error=str(error))
            outcome = response_to_outcome(
                _redact_secrets(response, find_secrets(spec.headers)), settings, run_log, self._clock.now()
            )
        return replace(outcome, summary=f"{outcome.summary} {_OK_NOTE}".strip()) if spec.ok else outcome

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, job: Job, spec: EndpointSpec, run_log: RunLog) -> HttpResponse:
        progress = CallProgress()
        try:
            request = build_request(spec, job.prompt, job.beat_key)
        except ValueError as error:
            raise CallFailed("The request cannot be made. Look for what HTTP does not take in url and body.") from error
        try:
            return await self._client.call(request, progress)
        except asyncio.CancelledError:
            run_log.note(f"cancelled: {_describe_progress(progress)}")
            raise


def _redact_secrets(response: HttpResponse, secrets: tuple[bytes, ...]) -> HttpResponse:
    """The answer without our own secrets in it: an endpoint that echoes its request must not publish them."""
    body = response.body
    for each in secrets:
        body = body.replace(each, REDACTED)
    return response if body is response.body else replace(response, body=body)


def _describe_progress(progress: CallProgress) -> str:
    if progress.status is None:
        return f"no answer has come from {progress.host}"
    return f"{progress.host} has answered {progress.status} and {progress.received} bytes of its body"
