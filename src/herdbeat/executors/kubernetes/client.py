"""The calls of Kubernetes' REST interface that runs need: Jobs, their pods, the logs of those, and Secrets."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from herdbeat.executors.base import ExecutorError
from herdbeat.executors.kubernetes.access import ClusterAccess
from herdbeat.executors.kubernetes.manifest import Manifest
from herdbeat.threads import host_lookup

REQUEST_TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
PAGE_SIZE = 500
_QUOTA = "exceeded quota"


class KubernetesRefused(ExecutorError):
    """The cluster has answered, and refused. `status` is that of HTTP, `reason` the word of the cluster."""

    def __init__(self, message: str, *, status: int, reason: str, hint: str = "") -> None:
        # 429 and 5xx say "later"; 401 may be a credential that has just ended.
        # So may a quota, which is a 403 like a missing permission, and differs from that by its text only.
        is_later = status in (401, 408, 409, 429) or (status == 403 and _QUOTA in message)
        is_permanent = 400 <= status < 500 and not is_later
        super().__init__(message, hint=hint, is_permanent=is_permanent)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """What matters of a pod. `waiting` and `terminated` are reasons of its container, `condition` of its placement."""

    name: str
    phase: str
    node: str = ""
    reason: str = ""
    message: str = ""
    waiting: str = ""
    waiting_message: str = ""
    terminated: str = ""
    terminated_message: str = ""
    exit_code: int | None = None
    condition: str = ""
    condition_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What matters of a Job. `failed` is the reason of its failure, empty while it has not failed."""

    name: str
    uid: str
    labels: Mapping[str, str]
    active: int = 0
    is_complete: bool = False
    is_deleted: bool = False
    failed: str = ""
    failed_message: str = ""

    @property
    def has_ended(self) -> bool:
        return self.is_complete or bool(self.failed)


class KubernetesClient:
    """The calls of one namespace. Needs a running loop at the first request; `close` it at the end.

    Every call sends one request, and a second one only if the first was refused because the credential had ended.
    """

    def __init__(self, access: ClusterAccess, namespace: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._access = access
        self._jobs = f"/apis/batch/v1/namespaces/{quote(namespace)}/jobs"
        self._core = f"/api/v1/namespaces/{quote(namespace)}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    @property
    def is_verified(self) -> bool:
        return self._access.is_verified

    async def create_job(self, manifest: Manifest) -> JobState:
        return _to_job(await self._request("POST", self._jobs, body=manifest))

    async def get_job(self, name: str) -> JobState:
        return _to_job(await self._request("GET", f"{self._jobs}/{quote(name)}"))

    async def delete_job(self, name: str, uid: str) -> None:
        """Delete this very Job with its pod and its Secret. A Job of the same name that was made later stays."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",  # the default of batch/v1 would leave the pod running
            "preconditions": {"uid": uid},
        }
        await self._request("DELETE", f"{self._jobs}/{quote(name)}", body=body)

    async def list_jobs(self, labels: Mapping[str, str]) -> list[JobState]:
        return [_to_job(each) for each in await self._list(self._jobs, labels)]

    async def list_pods(self, labels: Mapping[str, str]) -> list[PodState]:
        return [_to_pod(each) for each in await self._list(f"{self._core}/pods", labels)]

    async def create_secret(self, manifest: Manifest) -> None:
        await self._request("POST", f"{self._core}/secrets", body=manifest)

    async def delete_secret(self, name: str) -> None:
        await self._request("DELETE", f"{self._core}/secrets/{quote(name)}")

    async def get_version(self) -> str:
        version = _mapping(await self._request("GET", "/version")).get("gitVersion")
        return str(version or "an unknown version")

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _list(self, path: str, labels: Mapping[str, str]) -> list[object]:
        """Return all pages. A list that has changed too much meanwhile (410) begins anew, once."""
        try:
            return await self._list_pages(path, labels)
        except KubernetesRefused as error:
            if error.status != 410:
                raise
            return await self._list_pages(path, labels)

    async def _list_pages(self, path: str, labels: Mapping[str, str]) -> list[object]:
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        query = {"labelSelector": selector, "limit": str(PAGE_SIZE)}
        items: list[object] = []
        while True:
            page = _mapping(await self._request("GET", path, query=query))
            items += page.get("items") or []
            following = _mapping(page.get("metadata")).get("continue")
            if not following:
                return items
            query = {**query, "continue": str(following)}

    async def _request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: object = None
    ) -> object:
        raw = await self._send(method, path, query=query, body=body)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ExecutorError(f"The cluster's answer to {method} {path} is not JSON.") from error

    async def _send(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: object = None
    ) -> bytes:
        try:
            return await self._send_once(method, path, query, body)
        except KubernetesRefused as error:
            if error.status != 401:
                raise
        self._access.credentials.expire()
        return await self._send_once(method, path, query, body)

    async def _send_once(self, method: str, path: str, query: Mapping[str, str] | None, body: object) -> bytes:
        identity = await self._access.credentials.get()
        headers = {"Accept": "application/json", "User-Agent": "herdbeat"}
        if identity.token:
            headers["Authorization"] = f"Bearer {identity.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with self._open().request(
                method,
                self._access.server + path,
                params=query,
                headers=headers,
                data=None if body is None else json.dumps(body).encode(),
                allow_redirects=False,  # a token must not travel to another host
                ssl=identity.tls if identity.tls is not None else True,
                server_hostname=self._access.server_name or None,
            ) as response:
                raw = await _read(response)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise ExecutorError(_describe_failure(self._access.server, error)) from error
        if response.status >= 300:
            raise _refusal(method, path, response.status, raw)
        return raw

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Without the environment's proxies: an API server is a neighbour. A connection of its own for each
            # request: a kept one may have just been closed, and then it is not known whether the request arrived.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True, resolver=host_lookup()),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


# --- answers


async def _read(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    while chunk := await response.content.readany():
        raw += chunk
        if len(raw) > MAX_ANSWER_BYTES:
            raise ValueError("too large")
    return bytes(raw)


def _describe_failure(server: str, error: BaseException) -> str:
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return f"The cluster at {server} did not answer in time."
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"The certificate of {server} is not valid: {error.certificate_error}."
    why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else type(error).__name__
    return f"The cluster at {server} cannot be reached: {why}."


def _refusal(method: str, path: str, status: int, raw: bytes) -> KubernetesRefused:
    """Kubernetes answers with a Status object. A proxy in front of it may not."""
    try:
        answer = _mapping(json.loads(raw))
    except (ValueError, RecursionError):
        answer = {}
    reason = str(answer.get("reason") or "")
    message = str(answer.get("message") or f"{method} {path} was answered with {status}")[:500]
    hint = "" if _QUOTA in message else _HINTS.get(status, "")
    return KubernetesRefused(f"The cluster refused: {message}", status=status, reason=reason, hint=hint)


_HINTS = {
    401: "Check the credentials of executors.kubernetes: kubectl auth whoami",
    403: "The account needs the role of deploy/kubernetes-rbac.yaml.",
    404: "Check that the namespace exists.",
    422: "The cluster does not accept the resources of this target.",
}


def _mapping(value: object) -> dict[str, Any]:
    """The cluster's JSON, of which nothing is certain; typed values leave this module."""
    return value if isinstance(value, dict) else {}


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _to_job(value: object) -> JobState:
    answer = _mapping(value)
    metadata, status = _mapping(answer.get("metadata")), _mapping(answer.get("status"))
    true = {_text(each, "type"): each for each in map(_mapping, status.get("conditions") or []) if _is_true(each)}
    failed = true.get("Failed") or {}
    return JobState(
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        labels={str(key): str(each) for key, each in _mapping(metadata.get("labels")).items()},
        active=status["active"] if isinstance(status.get("active"), int) else 0,
        is_complete="Complete" in true,
        is_deleted=bool(metadata.get("deletionTimestamp")),
        failed=(_text(failed, "reason") or "Failed") if failed else "",
        failed_message=_text(failed, "message"),
    )


def _is_true(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True"


def _to_pod(value: object) -> PodState:
    answer = _mapping(value)
    metadata, spec, status = (_mapping(answer.get(key)) for key in ("metadata", "spec", "status"))
    containers = [_mapping(each) for each in status.get("containerStatuses") or []]
    state = _mapping(containers[0].get("state")) if containers else {}
    waiting, terminated = _mapping(state.get("waiting")), _mapping(state.get("terminated"))
    conditions = [_mapping(each) for each in status.get("conditions") or []]
    unplaced = next((c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"), {})
    code = terminated.get("exitCode")
    return PodState(
        name=_text(metadata, "name"),
        phase=_text(status, "phase"),
        node=_text(spec, "nodeName"),
        reason=_text(status, "reason"),
        message=_text(status, "message"),
        waiting=_text(waiting, "reason"),
        waiting_message=_text(waiting, "message"),
        terminated=_text(terminated, "reason"),
        terminated_message=_text(terminated, "message"),
        exit_code=code if isinstance(code, int) else None,
        condition=_text(unplaced, "reason"),
        condition_message=_text(unplaced, "message"),
    )
