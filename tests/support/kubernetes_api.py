"""A Kubernetes cluster of one machine, for tests: the API's rules for Jobs, pods, logs and Secrets, and a kubelet that
starts the containers as processes.

It refuses what an API server refuses: wrong names, missing fields, unknown tokens, doubled names, a deletion whose uid
is another, a watch or a page that is too old. Deleting a Job without a propagation policy leaves its pod running, as
batch/v1 does.
"""

import asyncio
import base64
import itertools
import json
import os
import re
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiohttp import web

Json = dict[str, Any]
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KINDS = {"jobs": ("Job", "batch/v1"), "pods": ("Pod", "v1"), "secrets": ("Secret", "v1")}
VERSION = "v1.34.1"
WORKER = "worker-1"


class ApiError(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    def to_status(self) -> Json:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }


@dataclass(slots=True)
class Container:
    """A process that stands for the container of a pod."""

    process: asyncio.subprocess.Process
    log: Path


@dataclass
class KubernetesCluster:
    """The cluster's objects, and what a test may break in it.

    `missing_images` cannot be pulled. `capacity` is how many pods run at a time, `job_quota` how many Jobs the
    namespace may have. `fail_next` answers the next requests of a method and path suffix with an error instead, before
    or after they were executed.
    """

    namespace: str = "agents"
    tokens: set[str] = field(default_factory=lambda: {"operator"})
    node_labels: Mapping[str, str] = field(default_factory=lambda: {"kubernetes.io/os": "linux"})
    missing_images: set[str] = field(default_factory=set)
    capacity: int = 100
    job_quota: int = 1_000
    starts_containers: bool = True
    path: str = field(default_factory=lambda: os.environ["PATH"])
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)
    objects: dict[str, dict[str, Json]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    containers: dict[str, Container] = field(default_factory=dict)
    oldest_version: int = 0
    failures: list[BaseException] = field(default_factory=list)
    fail_next: list[tuple[str, str, int, bool]] = field(default_factory=list)
    _versions: "itertools.count[int]" = field(default_factory=lambda: itertools.count(100))
    _events: list[tuple[int, str, str, Json]] = field(default_factory=list)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="kube-")))

    # --- what tests do to it

    def compact(self) -> None:
        """Forget old versions: watches and pages from before get 410."""
        self.oldest_version = next(self._versions)

    async def kill_container(self, pod: str) -> None:
        self.containers[pod].process.kill()
        await self.containers[pod].process.wait()

    async def wait_until(self, is_true: Callable[[], bool], limit_s: float = 60) -> None:
        async with asyncio.timeout(limit_s), self._changed:
            await self._changed.wait_for(is_true)

    def list_running(self) -> list[str]:
        return [name for name, each in self.containers.items() if each.process.returncode is None]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for each in self.containers.values():
            if each.process.returncode is None:
                each.process.kill()
                await each.process.wait()
        assert self.failures == []

    # --- objects

    async def put(self, kind: str, value: Json, event: str) -> Json:
        version = next(self._versions)
        value["metadata"]["resourceVersion"] = str(version)
        name = value["metadata"]["name"]
        if event == "DELETED":
            self.objects[kind].pop(name, None)
        else:
            self.objects[kind][name] = value
        self._events.append((version, kind, event, deepcopy(value)))
        async with self._changed:
            self._changed.notify_all()
        return value

    def get(self, kind: str, name: str) -> Json:
        if name not in self.objects[kind]:
            raise ApiError(404, "NotFound", f'{kind} "{name}" not found')
        return self.objects[kind][name]

    async def create(self, kind: str, value: Json) -> Json:
        self._check_new(kind, value)
        metadata = value["metadata"]
        metadata.update(uid=str(uuid4()), namespace=self.namespace, creationTimestamp="2026-01-01T00:00:00Z")
        created = await self.put(kind, value, "ADDED")
        if kind == "jobs":
            created["status"] = {"active": 1}
            await self._create_pod(created)
        elif kind == "secrets" and not self._owner_exists(created):
            await self.put("secrets", created, "DELETED")  # the garbage collector
        return created

    def _check_new(self, kind: str, value: Json) -> None:
        expected_kind, version = _KINDS[kind]
        if value.get("kind") != expected_kind or value.get("apiVersion") != version:
            raise ApiError(400, "BadRequest", f"{kind}: the object is no {expected_kind} of {version}")
        metadata = value.get("metadata") or {}
        name = str(metadata.get("name", ""))
        if not _DNS_LABEL.fullmatch(name):
            raise ApiError(422, "Invalid", f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 label')
        if metadata.get("namespace", self.namespace) != self.namespace:
            raise ApiError(400, "BadRequest", "the namespace of the object does not match the request")
        for label in (metadata.get("labels") or {}).values():
            if not isinstance(label, str) or not _LABEL_VALUE.fullmatch(label):
                raise ApiError(422, "Invalid", f"metadata.labels: Invalid value: {label!r}")
        if name in self.objects[kind]:
            raise ApiError(409, "AlreadyExists", f'{kind} "{name}" already exists')
        if kind == "jobs" and len(self.objects[kind]) >= self.job_quota:
            text = f'jobs.batch "{name}" is forbidden: exceeded quota: team, requested: count/jobs.batch=1'
            raise ApiError(403, "Forbidden", text)
        if kind == "jobs" and not value["spec"]["template"]["spec"].get("restartPolicy") == "Never":
            raise ApiError(422, "Invalid", "spec.template.spec.restartPolicy: Required value")

    def _owner_exists(self, value: Json) -> bool:
        owners = value["metadata"].get("ownerReferences") or []
        uids = {each["metadata"]["uid"] for each in self.objects["jobs"].values()}
        return not owners or any(each["uid"] in uids for each in owners)

    async def delete(self, kind: str, name: str, options: Json) -> Json:
        value = self.get(kind, name)
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != value["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "the UID in the precondition does not match")
        if kind == "jobs":
            await self._delete_job(value, options.get("propagationPolicy", "Orphan"))
        else:
            await self.put(kind, value, "DELETED")
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    async def _delete_job(self, job: Json, policy: str) -> None:
        name = job["metadata"]["name"]
        pods = [each for each in self.objects["pods"].values() if each["metadata"]["labels"].get("job-name") == name]
        if policy == "Foreground":
            job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            await self.put("jobs", job, "MODIFIED")
        if policy in ("Foreground", "Background"):
            for pod in pods:
                await self._stop_pod(pod)
        await self.put("jobs", job, "DELETED")
        for secret in [each for each in self.objects["secrets"].values() if not self._owner_exists(each)]:
            await self.put("secrets", secret, "DELETED")

    async def _stop_pod(self, pod: Json) -> None:
        container = self.containers.get(pod["metadata"]["name"])
        if container is not None and container.process.returncode is None:
            container.process.terminate()
            try:
                async with asyncio.timeout(pod["spec"].get("terminationGracePeriodSeconds", 30)):
                    await container.process.wait()
            except TimeoutError:
                container.process.kill()
                await container.process.wait()
        await self.put("pods", pod, "DELETED")

    # --- the kubelet

    async def _create_pod(self, job: Json) -> None:
        name = f"{job['metadata']['name'][:57]}-{uuid4().hex[:5]}"
        template = deepcopy(job["spec"]["template"])
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
        }
        metadata = {
            **template.get("metadata", {}),
            "name": name,
            "namespace": self.namespace,
            "uid": str(uuid4()),
            "ownerReferences": [owner],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        metadata["labels"] = {**metadata.get("labels", {}), "job-name": job["metadata"]["name"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        pod["status"] = {"phase": "Pending"}
        await self.put("pods", pod, "ADDED")
        task = asyncio.create_task(self._run_pod(pod, job), name=f"pod {name}")
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    async def _run_pod(self, pod: Json, job: Json) -> None:
        spec, status = pod["spec"], pod["status"]
        if not (spec.get("nodeSelector") or {}).items() <= dict(self.node_labels).items():
            message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
            status["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            ]
            await self.put("pods", pod, "MODIFIED")
            return
        await self.wait_until(lambda: len(self.list_running()) < self.capacity, limit_s=600)
        spec["nodeName"] = WORKER
        if spec["containers"][0]["image"] in self.missing_images:
            await self._set_waiting(pod, "ImagePullBackOff", f"Back-off pulling image {spec['containers'][0]['image']}")
            return
        await self._set_waiting(pod, "ContainerCreating", "")
        secrets = [each["secret"]["secretName"] for each in spec.get("volumes", []) if "secret" in each]
        await self.wait_until(lambda: all(name in self.objects["secrets"] for name in secrets), limit_s=600)
        if self.starts_containers:
            await self._run_container(pod, job)

    async def _set_waiting(self, pod: Json, reason: str, message: str) -> None:
        waiting = {"reason": reason, "message": message} if message else {"reason": reason}
        pod["status"]["containerStatuses"] = [_container_status(pod, {"waiting": waiting})]
        await self.put("pods", pod, "MODIFIED")

    async def _run_container(self, pod: Json, job: Json) -> None:
        container, name = pod["spec"]["containers"][0], pod["metadata"]["name"]
        root = self._folder / name
        mounts = {each["mountPath"]: root / each["name"] for each in container.get("volumeMounts", [])}
        for each in pod["spec"].get("volumes", []):
            self._mount(root / each["name"], each)
        secrets = {mount: folder for mount, folder in mounts.items() if folder.name == "token"}
        argv = [_inside(argument, secrets) for argument in container["command"]]
        environment = {"PATH": self.path} | {
            each["name"]: _inside(each["value"], mounts) for each in container.get("env", [])
        }
        log = root / "log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *argv, env=environment, cwd=root, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL
            )
        self.containers[name] = Container(process, log)
        pod["status"].update(phase="Running", containerStatuses=[_container_status(pod, {"running": {}})])
        await self.put("pods", pod, "MODIFIED")
        code, reason = await self._wait_for_end(process, job)
        await self._end_pod(pod, job, code, reason)

    async def _wait_for_end(self, process: asyncio.subprocess.Process, job: Json) -> tuple[int, str]:
        try:
            async with asyncio.timeout(job["spec"].get("activeDeadlineSeconds")):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            return 137, "DeadlineExceeded"
        return (code, "") if code >= 0 else (128 - code, "")

    async def _end_pod(self, pod: Json, job: Json, code: int, reason: str) -> None:
        if pod["metadata"]["name"] not in self.objects["pods"]:
            return
        terminated = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
        pod["status"].update(
            phase="Succeeded" if code == 0 else "Failed",
            containerStatuses=[_container_status(pod, {"terminated": terminated})],
        )
        await self.put("pods", pod, "MODIFIED")
        if job["metadata"]["name"] in self.objects["jobs"]:
            kind = {"type": "Complete"} if code == 0 else {"type": "Failed", "reason": reason or "BackoffLimitExceeded"}
            job["status"] = {"conditions": [{**kind, "status": "True", "message": "Job has reached its end"}]}
            await self.put("jobs", job, "MODIFIED")

    def _mount(self, folder: Path, volume: Json) -> None:
        folder.mkdir(parents=True)
        if "secret" in volume:
            data = self.objects["secrets"][volume["secret"]["secretName"]]["data"]
            for key, value in data.items():
                (folder / key).write_bytes(base64.b64decode(value))

    # --- watching

    async def watch(self, kind: str, since: int, selector: str) -> AsyncIterator[Json]:
        if since and since < self.oldest_version:
            yield {"type": "ERROR", "object": ApiError(410, "Expired", "too old resource version").to_status()}
            return
        seen = since
        while True:
            for version, event_kind, event, value in list(self._events):
                if version > seen and event_kind == kind and _matches(value, selector):
                    yield {"type": event, "object": value}
                seen = max(seen, version)
            async with self._changed:
                await self._changed.wait()

    def newest_version(self) -> int:
        return max(self.oldest_version, self._events[-1][0] if self._events else 0)


def _container_status(pod: Json, state: Json) -> Json:
    container = pod["spec"]["containers"][0]
    is_ready = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _inside(text: str, mounts: Mapping[str, Path]) -> str:
    for mount, folder in mounts.items():
        if text == mount or text.startswith(f"{mount}/"):
            return str(folder) + text.removeprefix(mount)
    return text


def _matches(value: Json, selector: str) -> bool:
    labels = value["metadata"].get("labels") or {}
    wanted = [each.replace("==", "=").split("=", 1) for each in selector.split(",") if each]
    return all(labels.get(key) == expected for key, expected in wanted)


# --- HTTP


@asynccontextmanager
async def serve_kubernetes(
    cluster: KubernetesCluster, tls: ssl.SSLContext | None = None
) -> AsyncIterator[KubernetesCluster]:
    """Serve the cluster on a free port of loopback until the block ends."""
    runner = web.AppRunner(_build_app(cluster), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    cluster.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield cluster
    finally:
        await cluster.close()
        await runner.cleanup()


def _build_app(cluster: KubernetesCluster) -> web.Application:
    app = web.Application(middlewares=[_middleware(cluster)])
    namespace = "/namespaces/{namespace}"
    for kind, root in (("jobs", "/apis/batch/v1"), ("pods", "/api/v1"), ("secrets", "/api/v1")):
        path = f"{root}{namespace}/{kind}"
        app.router.add_get(path, _list(cluster, kind))
        app.router.add_post(path, _create(cluster, kind))
        app.router.add_get(path + "/{name}", _get(cluster, kind))
        app.router.add_delete(path + "/{name}", _delete(cluster, kind))
    app.router.add_get(f"/api/v1{namespace}/pods/{{name}}/log", _log(cluster))
    for path, answer in _DISCOVERY.items():
        app.router.add_get(path, _constant(answer))
    return app


def _middleware(cluster: KubernetesCluster) -> Callable[..., Awaitable[web.StreamResponse]]:
    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        cluster.requests.append((request.method, request.path))
        try:
            _authenticate(cluster, request)
            failure = _take_failure(cluster, request)
            _raise_if(failure is not None and failure[3], failure)
            answer = await handler(request)
            _raise_if(failure is not None, failure)
        except ApiError as error:
            return web.json_response(error.to_status(), status=error.code)
        return answer

    return guard


def _raise_if(is_due: bool, failure: tuple[str, str, int, bool] | None) -> None:
    if is_due and failure is not None:
        raise ApiError(failure[2], "InternalError", "the test said so")


def _take_failure(cluster: KubernetesCluster, request: web.Request) -> tuple[str, str, int, bool] | None:
    for each in cluster.fail_next:
        if each[0] == request.method and request.path.endswith(each[1]):
            cluster.fail_next.remove(each)
            return each
    return None


def _authenticate(cluster: KubernetesCluster, request: web.Request) -> None:
    has_certificate = request.transport is not None and bool(request.transport.get_extra_info("peercert"))
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if token not in cluster.tokens and not has_certificate:
        raise ApiError(401, "Unauthorized", "Unauthorized")
    namespace = request.match_info.get("namespace")
    if namespace is not None and namespace != cluster.namespace:
        raise ApiError(403, "Forbidden", f'jobs.batch is forbidden: cannot use namespace "{namespace}"')


def _list(cluster: KubernetesCluster, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        selector = request.query.get("labelSelector", "")
        if request.query.get("watch") in ("1", "true"):
            return await _stream_events(cluster, kind, request, selector)
        names = sorted(name for name, each in cluster.objects[kind].items() if _matches(each, selector))
        begin, version = _parse_page(cluster, request.query.get("continue"))
        names = [name for name in names if name > begin]
        limit = int(request.query.get("limit") or len(names) or 1)
        metadata: Json = {"resourceVersion": str(version)}
        if len(names) > limit:
            metadata["continue"] = base64.b64encode(f"{version}:{names[limit - 1]}".encode()).decode()
        items = [cluster.objects[kind][name] for name in names[:limit]]
        list_kind, api = _KINDS[kind]
        return web.json_response({"kind": f"{list_kind}List", "apiVersion": api, "metadata": metadata, "items": items})

    return handle


def _parse_page(cluster: KubernetesCluster, token: str | None) -> tuple[str, int]:
    if not token:
        return "", cluster.newest_version()
    version, _, begin = base64.b64decode(token).decode().partition(":")
    if int(version) < cluster.oldest_version:
        raise ApiError(410, "Expired", "The provided continue parameter is too old")
    return begin, int(version)


async def _stream_events(
    cluster: KubernetesCluster, kind: str, request: web.Request, selector: str
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    with suppress(ConnectionError):
        async for event in cluster.watch(kind, int(request.query.get("resourceVersion") or 0), selector):
            await response.write(json.dumps(event).encode() + b"\n")
    return response


def _create(cluster: KubernetesCluster, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        cluster.bodies.append(deepcopy(body))
        return web.json_response(await cluster.create(kind, body), status=201)

    return handle


def _get(cluster: KubernetesCluster, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(cluster.get(kind, request.match_info["name"]))

    return handle


def _delete(cluster: KubernetesCluster, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        options = dict(request.query) | (json.loads(raw) if raw else {})
        return web.json_response(await cluster.delete(kind, request.match_info["name"], options))

    return handle


def _log(cluster: KubernetesCluster) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        pod = cluster.get("pods", name)
        container = cluster.containers.get(name)
        if container is None:
            what = pod["spec"]["containers"][0]["name"]
            raise ApiError(400, "BadRequest", f'container "{what}" in pod "{name}" is waiting to start')
        if request.query.get("follow") in ("1", "true"):
            return await _follow(container, request)
        lines = container.log.read_bytes().splitlines(keepends=True)
        tail = request.query.get("tailLines")
        kept = b"".join(lines[-int(tail) :] if tail else lines)
        return web.Response(body=kept[: int(request.query.get("limitBytes") or len(kept))], content_type="text/plain")

    return handle


async def _follow(container: Container, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    with container.log.open("rb") as log:
        while True:
            has_ended = container.process.returncode is not None
            if chunk := log.read():
                await response.write(chunk)
            elif has_ended:
                return response
            else:
                await asyncio.wait([asyncio.ensure_future(container.process.wait())], timeout=0.05)


def _constant(answer: Json) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer)

    return handle


def _resource(name: str, kind: str, verbs: list[str], short: list[str] | None = None) -> Json:
    singular = kind.lower()
    named = {"name": name, "singularName": singular, "namespaced": True, "kind": kind, "verbs": verbs}
    return named | ({"shortNames": short} if short else {})


_VERBS = ["create", "delete", "get", "list", "watch"]
_DISCOVERY: dict[str, Json] = {
    "/version": {"major": "1", "minor": "34", "gitVersion": VERSION, "platform": "linux/amd64"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": "batch",
                "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"},
            }
        ],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            _resource("pods", "Pod", _VERBS, ["po"]),
            _resource("pods/log", "Pod", ["get"]),
            _resource("secrets", "Secret", _VERBS),
        ],
    },
    "/apis/batch/v1": {
        "kind": "APIResourceList",
        "groupVersion": "batch/v1",
        "resources": [_resource("jobs", "Job", _VERBS)],
    },
}


@contextmanager
def kubernetes_in_a_thread(cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """Serve the cluster from a thread of its own, for tests that wait for real processes."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serve_kubernetes(cluster):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="kubernetes", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield cluster
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
