"""The manifests of a run: a Job that starts `herdbeat exec` once, and the Secret with its token. Pure.

Nothing in the Job is secret. The pod mounts the Secret as a file, so it cannot begin before its token is there, and
the token is in no environment, argument or label.
"""

import base64
import math
from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePosixPath

from herdbeat.executors.base import RemoteJob

Manifest = Mapping[str, object]

CONTAINER = "herdbeat-exec"
STOP_GRACE = timedelta(seconds=30)
"""From TERM to KILL, so that `herdbeat exec` can end its program and report that."""
KEPT_AFTER_END = timedelta(hours=1)
"""How long an ended Job stays for people to look at."""
DEADLINE_MARGIN = timedelta(minutes=5)
"""The timeout of the run is ours. The cluster's own deadline only ends what we no longer can."""
_NOBODY = 65532
_HOME = "/tmp"  # noqa: S108  an empty folder of the pod, and all that it can write to


def build_job(job: RemoteJob, *, namespace: str, image: str) -> Manifest:
    """Return the Job. Retries are ours, so it has one pod and that pod one start."""
    limit = job.timeout + job.resources.start_timeout + DEADLINE_MARGIN
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.name, "namespace": namespace, "labels": dict(job.labels)},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": math.ceil(limit.total_seconds()),
            "ttlSecondsAfterFinished": int(KEPT_AFTER_END.total_seconds()),
            "template": {"metadata": {"labels": dict(job.labels)}, "spec": _build_pod(job, image)},
        },
    }


def build_secret(job: RemoteJob, *, namespace: str, job_uid: str) -> Manifest:
    """Return the Secret with the token. The cluster removes it together with its Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": job.name,
            "namespace": namespace,
            "labels": dict(job.labels),
            "ownerReferences": [owner],
        },
        "data": {PurePosixPath(job.token_file).name: base64.b64encode(job.token.encode()).decode()},
    }


def _build_pod(job: RemoteJob, image: str) -> Manifest:
    pod: dict[str, object] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": int(STOP_GRACE.total_seconds()),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "fsGroup": _NOBODY,  # or the user above could not read its token
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_build_container(job, image)],
        "volumes": [
            {"name": "token", "secret": {"secretName": job.name, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    if job.resources.node_selector:
        pod["nodeSelector"] = dict(job.resources.node_selector)
    return pod


def _build_container(job: RemoteJob, image: str) -> Manifest:
    return {
        "name": CONTAINER,
        "image": image,
        "command": list(job.argv),
        "env": [{"name": "HOME", "value": _HOME}],
        "workingDir": _HOME,
        "resources": _build_limits(job),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "token", "mountPath": str(PurePosixPath(job.token_file).parent), "readOnly": True},
            {"name": "tmp", "mountPath": _HOME},
        ],
    }


def _build_limits(job: RemoteJob) -> Manifest:
    """Return requests and limits, which are the same: a run gets what it asks for, and no more."""
    wanted = job.resources
    amounts: dict[str, str] = {}
    if wanted.cpus is not None:
        amounts["cpu"] = f"{math.ceil(wanted.cpus * 1000)}m"
    if wanted.memory is not None:
        amounts["memory"] = str(wanted.memory)
    if wanted.gpu:
        amounts["nvidia.com/gpu"] = str(math.ceil(wanted.gpu))  # a cluster hands out whole ones
    return {"requests": dict(amounts), "limits": dict(amounts)} if amounts else {}
