"""One run of an endpoint, from its job to its outcome."""

import asyncio
from contextlib import closing
from dataclasses import replace

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.base import Job
from herdbeat.runners.http.addresses import EgressAllowlist
from herdbeat.runners.http.client import CallProgress, HttpClient, HttpResponse
from herdbeat.runners.http.failure import CallFailed
from herdbeat.runners.http.names import HostLookup, lookup_host
from herdbeat.runners.http.report import response_to_outcome
from herdbeat.runners.http.request import build_request, find_secrets
from herdbeat.runners.log import RunLog
from herdbeat.runners.settings import RunnerSettings

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
