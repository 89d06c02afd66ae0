"""What we send to Kubernetes, judged by others: the official schemas, and kubectl as a client of the tests' cluster."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support.http_endpoints import CERTIFICATE
from tests.support.kubernetes_api import KubernetesCluster, serve_kubernetes
from tests.system.parts import read_states

from herdbeat.clock import SystemClock
from herdbeat.domain.executor import KubernetesSettings, Resources
from herdbeat.executors.base import RemoteJob, make_job_name
from herdbeat.executors.kubernetes.executor import KubernetesExecutor
from herdbeat.executors.kubernetes.manifest import build_job, build_secret

ROOT = Path(__file__).parents[2]
VERSIONS = ("1.25", "1.30", "1.34", "1.37")
FULL = Resources(
    cpus=0.25, memory=2 * 1024**3, gpu=1, image="agents:2", node_selector={"kubernetes.io/arch": "amd64", "pool": "gpu"}
)
COUNT = "import sys\nfor n in range(3): print('line', n, flush=True)\nsys.stdin.close()"
WAIT = "import signal; print('waiting', flush=True); signal.pause()"
PLAIN = Resources()


def make_job(resources: Resources = PLAIN, *, code: str = COUNT) -> RemoteJob:
    return RemoteJob(
        name=make_job_name("k3f9x2", 2**62, "0123abcd"),
        run_id=2**62,
        store_id="k3f9x2",
        argv=(sys.executable, "-c", code),
        resources=resources,
        timeout=timedelta(hours=1),
        token_file="/var/run/herdbeat/token",
        token="t0ken",
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("resources", [PLAIN, FULL], ids=["plain", "full"])
def test_manifests_follow_the_official_schemas(resources: Resources, version: str) -> None:
    job = make_job(resources)

    for manifest in (
        build_job(job, namespace="agents", image="agents:1"),
        build_secret(job, namespace="agents", job_uid="8e2c1c1e-0000-4000-8000-000000000000"),
    ):
        kubernetes_validate.validate(json.loads(json.dumps(manifest)), version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_role_of_deploy_follows_the_official_schemas(version: str) -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes-rbac.yaml").read_text(encoding="utf-8")))

    assert [each["kind"] for each in documents] == ["ServiceAccount", "Role", "RoleBinding"]
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


class Kubectl:
    """The program of somebody else, asked about what our executor has made."""

    def __init__(self, cluster: KubernetesCluster, config: Path) -> None:
        self._argv = [read_states()["kubectl"].program, f"--kubeconfig={config}", f"--namespace={cluster.namespace}"]
        self._home = config.parent

    async def __call__(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            *arguments,
            env={"HOME": str(self._home), "PATH": "/usr/bin:/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, problems = await process.communicate()
        assert process.returncode == 0, problems.decode()
        return printed.decode()

    async def get(self, *arguments: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(await self("get", *arguments, "--output=json"))["items"]
        return items


@pytest.fixture
async def cluster() -> AsyncIterator[KubernetesCluster]:
    """Over TLS, because kubectl sends no token in plain text."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(CERTIFICATE)
    async with serve_kubernetes(KubernetesCluster(), tls) as cluster:
        yield cluster


@pytest.fixture
def config(cluster: KubernetesCluster, tmp_path: Path) -> Path:
    path = tmp_path / "config"
    context = {"cluster": "test", "user": "test", "namespace": cluster.namespace}
    server = {"server": cluster.url, "certificate-authority": str(CERTIFICATE)}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": context}],
                "clusters": [{"name": "test", "cluster": server}],
                "users": [{"name": "test", "user": {"token": "operator"}}],
            }
        )
    )
    return path


@pytest.fixture
async def executor(cluster: KubernetesCluster, config: Path) -> AsyncIterator[KubernetesExecutor]:
    settings = KubernetesSettings(namespace=cluster.namespace, image="agents:1", kubeconfig=str(config))
    executor = KubernetesExecutor(settings, {}, SystemClock())
    yield executor
    await executor.close()


@pytest.mark.needs("kubectl")
async def test_kubectl_sees_the_job_its_pod_and_its_output(
    cluster: KubernetesCluster, executor: KubernetesExecutor, config: Path
) -> None:
    kubectl, job = Kubectl(cluster, config), make_job()
    await executor.submit(job)
    await cluster.wait_until(lambda: len(cluster.containers) == 1)

    assert await kubectl("logs", "--follow", f"pod/{next(iter(cluster.containers))}") == "line 0\nline 1\nline 2\n"
    await cluster.wait_until(lambda: "conditions" in cluster.objects["jobs"][job.name]["status"])
    [listed] = await kubectl.get("jobs", "--selector=app.kubernetes.io/managed-by=herdbeat")
    [pod] = await kubectl.get("pods", f"--selector=job-name={job.name}")
    assert listed["status"]["conditions"][0]["type"] == "Complete"
    assert pod["status"]["phase"] == "Succeeded"


@pytest.mark.needs("kubectl")
async def test_a_job_that_kubectl_deletes_is_lost_and_its_token_with_it(
    cluster: KubernetesCluster, executor: KubernetesExecutor, config: Path
) -> None:
    kubectl, job = Kubectl(cluster, config), make_job(code=WAIT)
    await executor.submit(job)
    await cluster.wait_until(lambda: len(cluster.list_running()) == 1)

    await kubectl("delete", "job", job.name, "--cascade=foreground", "--wait=false")

    assert (await executor.get_status(job.name)).reason == "The cluster no longer has the Job."
    assert cluster.list_running() == []
    assert await kubectl.get("secrets") == []


@pytest.mark.needs("kubectl")
async def test_kubectl_sees_nothing_after_a_cancel(
    cluster: KubernetesCluster, executor: KubernetesExecutor, config: Path
) -> None:
    kubectl, job = Kubectl(cluster, config), make_job(code=WAIT)
    await executor.submit(job)
    await cluster.wait_until(lambda: len(cluster.list_running()) == 1)

    await executor.cancel(job.name)

    assert await kubectl.get("jobs") == await kubectl.get("pods") == await kubectl.get("secrets") == []
