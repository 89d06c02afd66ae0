"""One run of an endpoint, from its job to its outcome."""

import asyncio
from contextlib import closing
from dataclasses import replace

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.base import Job
from herdbeat.runners.http.addresses import Allowed
from herdbeat.runners.http.client import Answer, Client, Progress
from herdbeat.runners.http.failure import CallFailed
from herdbeat.runners.http.names import Lookup, ask_the_system
from herdbeat.runners.http.report import report
from herdbeat.runners.http.request import build_request, secrets_of
from herdbeat.runners.log import RunLog
from herdbeat.runners.settings import RunnerSettings

HIDDEN = b"***"
_OK_NOTE = "The ok expression was not looked at: this version judges by the status alone."


class Calls:
    """Needs a running loop. Cancelled, a run closes its connection before the cancellation goes on."""

    def __init__(self, settings: RunnerSettings, clock: Clock, lookup: Lookup = ask_the_system) -> None:
        self._settings = settings
        self._clock = clock
        allowed = Allowed.parse(settings.egress_allow)
        self._client = Client(allowed, lookup, most=settings.max_concurrent, body_cap=settings.body_cap)

    async def run(self, job: Job) -> Outcome:
        spec, settings = job.target.spec, self._settings
        assert isinstance(spec, EndpointSpec)
        with closing(RunLog(settings.state_dir, job.claim.run_id, self._clock, settings.log_cap)) as words:
            try:
                answer = await self._call(job, spec, words)
            except CallFailed as error:
                return Outcome(status=RunStatus.FAILED, code=error.status, error=str(error))
            outcome = report(_hidden(answer, secrets_of(spec.headers)), settings, words, self._clock.now())
        return replace(outcome, summary=f"{outcome.summary} {_OK_NOTE}".strip()) if spec.ok else outcome

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, job: Job, spec: EndpointSpec, words: RunLog) -> Answer:
        progress = Progress()
        try:
            request = build_request(spec, job.prompt, job.beat_key)
        except ValueError as error:
            raise CallFailed("The request cannot be made. Look for what HTTP does not take in url and body.") from error
        try:
            return await self._client.call(request, progress)
        except asyncio.CancelledError:
            words.note(f"cancelled: {_so_far(progress)}")
            raise


def _hidden(answer: Answer, secrets: tuple[bytes, ...]) -> Answer:
    """The answer without our own secrets in it: an endpoint that echoes its request must not publish them."""
    body = answer.body
    for each in secrets:
        body = body.replace(each, HIDDEN)
    return answer if body is answer.body else replace(answer, body=body)


def _so_far(progress: Progress) -> str:
    if progress.status is None:
        return f"no answer has come from {progress.host}"
    return f"{progress.host} has answered {progress.status} and {progress.received} bytes of its body"
