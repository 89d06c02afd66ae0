"""Sends the requests of endpoints, and reads their responses up to a limit."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from aiohttp import ClientPayloadError
from aiohttp.http import HttpProcessingError, RawResponseMessage

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.redaction import MASK, find_secrets
from herdbeat.runners.base import Job, mark_unstarted
from herdbeat.runners.http.addresses import EgressAllowlist
from herdbeat.runners.http.connection import EndpointConnection, ResponseReader, open_connection
from herdbeat.runners.http.egress import ConnectAttempt, HostLookup, HostResolver, guarded_socket, lookup_host
from herdbeat.runners.http.request import HttpRequest, build_request
from herdbeat.runners.http.response import (
    CallFailed,
    check_ok,
    explain_broken_response,
    explain_connect_error,
    explain_lookup_error,
    explain_missing_response,
    explain_unsendable,
    response_to_outcome,
)
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings

MAX_REDIRECTS = 5


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
    is_sent: bool = False
    status: int | None = None
    received: int = 0

    def describe(self) -> str:
        if not self.is_sent:
            return f"no request was sent: there was no connection to {self.host}"
        if self.status is None:
            return f"no answer from {self.host}"
        return f"{self.host} answered {self.status} and sent {self.received} bytes of the body"


class EndpointCaller:
    """Executes runs of endpoints. Needs a running loop; `close` it at the end.

    A cancelled run closes its connection first. Every request uses a new connection. A server may close a kept one at
    the moment it is used again (it keeps connections for five seconds, and a schedule runs every five seconds), and
    then nobody knows whether the request was executed: to repeat it may execute it twice, not to repeat it fails a
    run for nothing. The executor enforces one deadline for the whole run, so there is no other timeout.
    """

    def __init__(self, settings: RunnerSettings, clock: Clock, lookup: HostLookup = lookup_host) -> None:
        self._settings = settings
        self._clock = clock
        self._resolver = HostResolver(lookup, settings.max_concurrent)
        self._allowed = EgressAllowlist.parse(settings.egress_allow)

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

    def close(self) -> None:
        self._resolver.close()

    def set_egress(self, allow: tuple[str, ...]) -> None:
        """Use another list for every connection from now on."""
        self._allowed = EgressAllowlist.parse(allow)

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
        except asyncio.CancelledError as error:
            run_log.note(f"cancelled: {progress.describe()}")
            if not progress.is_sent:
                mark_unstarted(error, "its request was sent")
            raise
        raise CallFailed(
            f"The request was redirected more than {MAX_REDIRECTS} times, the last time to {request.host}."
            " Use the final URL, or fix the redirect loop."
        )

    async def _send(self, request: HttpRequest, progress: CallProgress, redirects: int) -> HttpResponse | HttpRequest:
        """Send one request; return its response, or the request to which it redirects."""
        try:
            data = request.to_bytes()
        except ValueError as error:
            raise explain_unsendable(error, request.host) from error
        connection = await self._connect(request, len(data))
        reader = ResponseReader(connection, has_body=request.method != "HEAD")
        try:
            try:
                progress.is_sent = True
                await connection.send(data)
                head = await reader.read_head()
            except (OSError, HttpProcessingError) as error:
                raise explain_missing_response(error, request.host) from error
            progress.status = head.code
            return _redirect_request(request, head) or await self._read(reader, head, progress, redirects)
        finally:
            reader.close()
            connection.close()

    async def _connect(self, request: HttpRequest, request_bytes: int) -> EndpointConnection:
        host, port = request.host, request.url.port
        try:
            addresses = await self._resolver.resolve(host, port or 0)
        except OSError as error:
            raise explain_lookup_error(error, host) from error
        attempt = ConnectAttempt(host=host)
        try:
            return await open_connection(
                addresses,
                partial(guarded_socket, self._allowed, attempt),
                tls_host=host.rstrip(".") if request.url.scheme == "https" else None,
                request_bytes=request_bytes,
            )
        except OSError as error:
            if attempt.blocked:
                raise CallFailed(attempt.describe_block()) from error
            raise explain_connect_error(error, host, port) from error

    async def _read(
        self, reader: ResponseReader, head: RawResponseMessage, progress: CallProgress, redirects: int
    ) -> HttpResponse:
        body, cap = bytearray(), self._settings.body_cap
        try:
            # A part is decompressed already: reading stops at the cap, so a compression bomb never expands to its
            # gigabytes.
            while len(body) <= cap and (part := await reader.read_body(cap + 1 - len(body))):
                body += part
                progress.received = len(body)
        except (OSError, ClientPayloadError, HttpProcessingError) as error:
            raise explain_broken_response(error, head.code, len(body)) from error
        return HttpResponse(
            status=head.code,
            reason=head.reason or "",
            headers=head.headers,
            body=bytes(body[:cap]),
            is_truncated=len(body) > cap,
            redirects=redirects,
        )


def _redirect_request(request: HttpRequest, response: RawResponseMessage) -> HttpRequest | None:
    """Return the request to which a response redirects; None if it does not, or must not be followed."""
    location = response.headers.get("Location")
    if response.code not in (301, 302, 303, 307, 308) or location is None or not request.can_follow_redirects:
        return None
    try:
        return request.follow_redirect(location)
    except ValueError as error:
        sentence = f"{request.host} redirects to a URL that is not http or https. Use the final URL."
        raise CallFailed(sentence, response.code) from error


def _redact_secrets(response: HttpResponse, secrets: Collection[str]) -> HttpResponse:
    """Remove the request's secrets from a response: an endpoint that echoes its request must not publish them."""
    body = response.body
    for secret in sorted(secrets, key=len, reverse=True):
        body = body.replace(secret.encode(), MASK.encode())
    return response if body is response.body else replace(response, body=body)
