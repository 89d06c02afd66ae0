"""Ray Jobs: runs on a Ray cluster, over the REST interface of its dashboard.

Ray runs the command line in a shell on one of its machines, and shows it to all who can open the dashboard. So
it has the number of the run, the address of our server and the path of a token file, and no secret.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import aiohttp

from herdbeat.domain.executor import RaySettings
from herdbeat.errors import truncate_for_message
from herdbeat.executors.base import (
    LABEL_RUN,
    LABEL_STORE,
    ExecutorError,
    RemoteJob,
    RemoteState,
    RemoteStatus,
    build_job_name_prefix,
)
from herdbeat.threads import host_lookup

REQUEST_TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024
_STATES = {
    "PENDING": RemoteState.PENDING,
    "RUNNING": RemoteState.RUNNING,
    "STOPPED": RemoteState.ENDED,
    "SUCCEEDED": RemoteState.ENDED,
    "FAILED": RemoteState.ENDED,
}
_EXISTS = "already exists"
_NOT_FOUND = 404
_SERVER_ERROR = 500
_FIRST_ERROR = 300
"""A redirect, too: it is not followed, so nothing was done."""

_LATER = frozenset({408, 425, 429})
"""What a proxy in front of Ray says about itself, and not about the job."""


class RayExecutor:
    """The jobs of one cluster. Needs a running loop; `close` it at the end."""

    def __init__(self, settings: RaySettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None

    async def submit(self, job: RemoteJob) -> None:
        status, text = await self._request("POST", "/api/jobs/", _build_request(job))
        if status < _FIRST_ERROR:
            _require_acceptance(job, status, text)
            return
        if _EXISTS in text:
            await self._require_ours(job)
            return
        message = f"Ray refused the job (HTTP {status}): {_summarize(text)}"
        raise ExecutorError(message, is_permanent=status < _SERVER_ERROR and status not in _LATER)

    async def _require_ours(self, job: RemoteJob) -> None:
        """Raises ExecutorError if the job of that name is not ours, by its labels; else we have sent it before."""
        known = await self._find(job.name)
        metadata = known.get("metadata") if known is not None else None
        if known is not None and (not isinstance(metadata, dict) or not job.labels.items() <= metadata.items()):
            hint = "Find out who has submitted it."
            raise ExecutorError(f"Ray has a job {job.name} that is not ours.", hint=hint, is_permanent=True)

    async def get_status(self, name: str) -> RemoteStatus:
        try:
            known = await self._find(name)
        except ExecutorError as error:
            return RemoteStatus(state=RemoteState.UNKNOWN, reason=error.message, is_reachable=False)
        if known is None:
            return RemoteStatus(state=RemoteState.UNKNOWN, reason="it no longer knows the job")
        return _read_status(known)

    async def cancel(self, name: str) -> None:
        status, text = await self._request("POST", f"/api/jobs/{name}/stop")
        if status >= _FIRST_ERROR and status != _NOT_FOUND and "does not exist" not in text:
            raise ExecutorError(f"Ray did not stop {name} (HTTP {status}): {_summarize(text)}")

    async def list_leftovers(self, store_id: str) -> list[str]:
        status, text = await self._request("GET", "/api/jobs/")
        jobs = _parse(text)
        if status >= _FIRST_ERROR or not isinstance(jobs, list):
            raise ExecutorError(f"Ray did not list its jobs (HTTP {status}): {_summarize(text)}")
        names = [str(each.get("submission_id")) for each in jobs if isinstance(each, dict) and _is_active(each)]
        return [name for name in names if name.startswith(build_job_name_prefix(store_id))]

    async def check(self) -> str:
        status, text = await self._request("GET", "/api/version")
        version = _parse(text)
        if status >= _FIRST_ERROR or not isinstance(version, dict):
            raise ExecutorError(f"{self._settings.url} is no dashboard of Ray (HTTP {status}).", hint="Correct url.")
        return f"Ray {version.get('ray_version', '?')} at {self._settings.url}"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _find(self, name: str) -> dict[str, Any] | None:
        """Return what Ray knows of a job; None if it knows none. Raises ExecutorError."""
        status, text = await self._request("GET", f"/api/jobs/{name}")
        if status == _NOT_FOUND:
            return None
        known = _parse(text)
        if status >= _FIRST_ERROR or not isinstance(known, dict):
            raise ExecutorError(f"Ray did not answer about {name} (HTTP {status}): {_summarize(text)}")
        return known

    async def _request(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Return status and text of the answer. Raises ExecutorError if there is none."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=host_lookup()),
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.request(
                method, f"{self._settings.url}{path}", json=body, headers=self._headers(), allow_redirects=False
            ) as answer:
                data = await answer.content.read(MAX_ANSWER_BYTES)
                while not answer.content.at_eof() and len(data) < MAX_ANSWER_BYTES:
                    data += await answer.content.read(MAX_ANSWER_BYTES)
                return answer.status, data.decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = str(error) or type(error).__name__
            raise ExecutorError(
                f"The head of Ray at {self._settings.url} does not answer: {what}.", hint="Is the cluster running?"
            ) from error

    def _headers(self) -> dict[str, str]:
        token = self._environ.get(self._settings.auth_env, "") if self._settings.auth_env else ""
        return {"Authorization": f"Bearer {token}"} if token else {}


def _build_request(job: RemoteJob) -> dict[str, object]:
    resources = job.resources
    request: dict[str, object] = {
        "entrypoint": shlex.join(job.argv),
        "submission_id": job.name,
        "metadata": {**job.labels, "job_name": job.name},
        "entrypoint_num_cpus": 1 if resources.cpus is None else resources.cpus,
    }
    if resources.gpu is not None:
        request["entrypoint_num_gpus"] = resources.gpu
    if resources.memory is not None:
        request["entrypoint_memory"] = resources.memory
    if resources.node_selector:
        request["entrypoint_label_selector"] = dict(resources.node_selector)
    return request


def _require_acceptance(job: RemoteJob, status: int, text: str) -> None:
    """Raises ExecutorError if it is not Ray that answers, but for example the page of a proxy that wants a login."""
    answer = _parse(text)
    if not isinstance(answer, dict) or job.name not in (answer.get("submission_id"), answer.get("job_id")):
        message = f"This is no answer of Ray to a job (HTTP {status}): {_summarize(text)}"
        raise ExecutorError(message, hint="Is there a proxy in front of it that wants a login?")


def _read_status(known: Mapping[str, Any]) -> RemoteStatus:
    state = _STATES.get(str(known.get("status")), RemoteState.UNKNOWN)
    code, node = known.get("driver_exit_code"), known.get("driver_node_id")
    message = _summarize(str(known.get("message") or ""))
    if state is RemoteState.PENDING and "waiting for" in message.lower():
        message = f"no room: {message}"
    return RemoteStatus(
        state=state,
        code=code if isinstance(code, int) else None,
        reason=message,
        where=f"node {str(node)[:12]}" if node else "",
    )


def _is_active(job: Mapping[str, Any]) -> bool:
    metadata = job.get("metadata")
    is_ours = isinstance(metadata, dict) and LABEL_STORE in metadata and LABEL_RUN in metadata
    return is_ours and _STATES.get(str(job.get("status"))) in (RemoteState.PENDING, RemoteState.RUNNING)


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _summarize(text: str) -> str:
    """Return the last line that says something: Ray answers errors with a whole traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return truncate_for_message(lines[-1] if lines and "Traceback" in text else " ".join(lines), 300)
