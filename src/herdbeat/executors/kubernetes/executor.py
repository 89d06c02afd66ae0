"""Kubernetes as an executor: a run is a Job with one pod, and a Secret that belongs to the Job."""

from collections.abc import Mapping

from herdbeat.clock import Clock
from herdbeat.domain.executor import KubernetesSettings
from herdbeat.executors.base import (
    LABEL_MANAGED_BY,
    LABEL_RUN,
    LABEL_STORE,
    MANAGED_BY,
    ExecutorError,
    RemoteJob,
    RemoteState,
    RemoteStatus,
    parse_job_name,
)
from herdbeat.executors.kubernetes.access import open_access
from herdbeat.executors.kubernetes.client import JobState, KubernetesClient, KubernetesRefused, PodState
from herdbeat.executors.kubernetes.manifest import build_job, build_secret

_CANNOT_START = frozenset(
    {"ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
"""What the kubelet does not get over by itself. It retries ErrImagePull, which may be a registry that is away."""


class KubernetesExecutor:
    """Submits runs to one namespace of a cluster. Keeps no state of its own but its connection.

    The access is opened by the first call, and again after it failed: a kubeconfig that is not there yet must not
    keep a node from starting.
    """

    def __init__(self, settings: KubernetesSettings, environ: Mapping[str, str], clock: Clock) -> None:
        self._settings = settings
        self._environ = environ
        self._clock = clock
        self._opened: KubernetesClient | None = None

    async def submit(self, job: RemoteJob) -> None:
        """Create the Job, then its Secret, for which the pod waits.

        So a crash in between starts nothing, and the next submit continues where this one ended; it brings another
        token, which replaces the first.
        """
        client, image = self._open(), job.resources.image or self._settings.image
        uid = await self._ensure_job(job, image)
        secret = build_secret(job, namespace=self._settings.namespace, job_uid=uid)
        try:
            await client.create_secret(secret)
        except KubernetesRefused as error:
            if error.reason != "AlreadyExists":
                raise
            await self._delete_secret(job.name)
            await client.create_secret(secret)

    async def get_status(self, name: str) -> RemoteStatus:
        try:
            client = self._open()
            job = await client.get_job(name)
            pods = await client.list_pods({"job-name": name})
        except KubernetesRefused as error:
            if error.status == 404:
                return RemoteStatus(state=RemoteState.UNKNOWN, reason="The cluster no longer has the Job.")
            return RemoteStatus(state=RemoteState.UNKNOWN, reason=error.message, is_reachable=False)
        except ExecutorError as error:
            return RemoteStatus(state=RemoteState.UNKNOWN, reason=error.message, is_reachable=False)
        return describe(job, pods)

    async def cancel(self, name: str) -> None:
        try:
            client = self._open()
            job = await client.get_job(name)
            if not job.has_ended and not job.is_deleted:
                await client.delete_job(name, job.uid)
            elif job.has_ended:
                await self._delete_secret(name)  # the Job stays for an hour to be looked at; its token need not
        except KubernetesRefused as error:
            # 409 is a uid that has changed: the Job that was meant is gone.
            if error.status not in (404, 409):
                raise

    async def list_leftovers(self, store_id: str) -> list[str]:
        jobs = await self._open().list_jobs({LABEL_MANAGED_BY: MANAGED_BY, LABEL_STORE: store_id})
        return [job.name for job in jobs if not job.has_ended and not job.is_deleted]

    async def check(self) -> str:
        """Ask for the version, then list our Jobs, which also shows that the account may."""
        client = self._open()
        version = await client.get_version()
        await client.list_jobs({LABEL_MANAGED_BY: MANAGED_BY})
        doubt = "" if client.is_verified else ", whose certificate is not verified"
        return f"Kubernetes {version}, namespace {self._settings.namespace}{doubt}"

    async def close(self) -> None:
        client, self._opened = self._opened, None
        if client is not None:
            await client.close()

    def _open(self) -> KubernetesClient:
        """Raises ExecutorError if there is no access to the cluster."""
        if self._opened is None:
            access = open_access(self._settings, self._clock, self._environ)
            self._opened = KubernetesClient(access, self._settings.namespace)
        return self._opened

    async def _ensure_job(self, job: RemoteJob, image: str) -> str:
        """Return the uid of the Job, made now or by a submit before. Raises ExecutorError if the name is not ours."""
        try:
            made = await self._open().create_job(build_job(job, namespace=self._settings.namespace, image=image))
        except KubernetesRefused as error:
            if error.reason != "AlreadyExists":
                raise
            made = await self._open().get_job(job.name)
        if made.labels.get(LABEL_STORE) != job.store_id or made.labels.get(LABEL_RUN) != str(job.run_id):
            raise ExecutorError(f"The cluster has a Job {job.name} that is not ours.", is_permanent=True)
        return made.uid

    async def _delete_secret(self, name: str) -> None:
        assert parse_job_name(name) is not None, "Secrets of others are never deleted"
        try:
            await self._open().delete_secret(name)
        except KubernetesRefused as error:
            if error.status != 404:
                raise


def describe(job: JobState, pods: list[PodState]) -> RemoteStatus:
    """Return what the cluster says about a Job and its pods, in a sentence. Pure."""
    pod = pods[-1] if pods else None
    where = pod.node if pod else ""
    if job.is_complete:
        return RemoteStatus(state=RemoteState.ENDED, code=0, where=where)
    if job.failed:
        code = pod.exit_code if pod else None
        return RemoteStatus(state=RemoteState.ENDED, code=code, reason=_describe_end(job, pod), where=where)
    if job.is_deleted:
        return RemoteStatus(state=RemoteState.ENDED, reason="The Job was deleted.", where=where)
    if pod is not None and pod.phase == "Running":
        return RemoteStatus(state=RemoteState.RUNNING, where=where)
    if pod is not None and pod.waiting in _CANNOT_START:
        return RemoteStatus(state=RemoteState.ENDED, reason=_describe_waiting(pod), where=where)
    return RemoteStatus(state=RemoteState.PENDING, reason=_describe_waiting(pod), where=where)


def _describe_end(job: JobState, pod: PodState | None) -> str:
    if job.failed == "DeadlineExceeded":
        return "The cluster ended the Job at its deadline."
    if pod is None:
        return f"The Job failed: {job.failed}. {job.failed_message}".strip()
    if pod.terminated == "OOMKilled":
        return "The container needed more memory than its limit (OOMKilled)."
    if pod.reason:
        return f"The pod ended: {pod.reason}. {pod.message}".strip()
    code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
    return f"The container ended{code}: {pod.terminated_message or pod.terminated or job.failed}".strip()


def _describe_waiting(pod: PodState | None) -> str:
    if pod is None:
        return "The cluster has not made the pod yet."
    if pod.waiting:
        return f"{pod.waiting}: {pod.waiting_message}".removesuffix(": ")
    if pod.condition:
        return f"{pod.condition}: {pod.condition_message}".removesuffix(": ")
    return "The pod is starting."
