"""Runs as Jobs, against a server that keeps the rules of Kubernetes' API and starts containers as processes."""

import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.kubernetes_api import KubernetesCluster, serve_kubernetes

from herdbeat.clock import SystemClock
from herdbeat.domain.executor import KubernetesSettings, Resources
from herdbeat.executors.base import ExecutorError, RemoteJob, RemoteState, make_job_name
from herdbeat.executors.kubernetes.client import JobState, PodState
from herdbeat.executors.kubernetes.executor import KubernetesExecutor, describe

STORE = "k3f9x2"
PRINT_TOKEN = "import sys; print('token is', len(open(sys.argv[1]).read()), 'long')"
WAIT = "import signal; signal.pause()"


@pytest.fixture
async def cluster() -> AsyncIterator[KubernetesCluster]:
    async with serve_kubernetes(KubernetesCluster()) as cluster:
        yield cluster


@pytest.fixture
async def executor(cluster: KubernetesCluster, tmp_path: Path) -> AsyncIterator[KubernetesExecutor]:
    executor = open_executor(cluster, tmp_path)
    yield executor
    await executor.close()


def open_executor(cluster: KubernetesCluster, folder: Path, token: str = "operator") -> KubernetesExecutor:
    config = folder / "kubeconfig"
    config.write_text(f"""
apiVersion: v1
kind: Config
current-context: test
contexts: [{{ name: test, context: {{ cluster: test, user: test }} }}]
clusters: [{{ name: test, cluster: {{ server: "{cluster.url}" }} }}]
users: [{{ name: test, user: {{ token: {token} }} }}]
""")
    settings = KubernetesSettings(namespace=cluster.namespace, image="agents:1", kubeconfig=str(config))
    return KubernetesExecutor(settings, {}, SystemClock())


def make_job(run_id: int = 7, *, code: str = PRINT_TOKEN, token: str = "t0ken", **resources: object) -> RemoteJob:
    return RemoteJob(
        name=make_job_name(STORE, run_id, "0123abcd"),
        run_id=run_id,
        store_id=STORE,
        argv=(sys.executable, "-c", code, "/var/run/herdbeat/token"),
        resources=Resources(**resources),  # type: ignore[arg-type]
        timeout=timedelta(minutes=10),
        token_file="/var/run/herdbeat/token",
        token=token,
    )


async def test_a_job_runs_to_its_end_with_the_token_in_a_file(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    job = make_job()

    await executor.submit(job)
    await cluster.wait_until(lambda: "conditions" in cluster.objects["jobs"][job.name]["status"])

    status = await executor.get_status(job.name)
    assert (status.state, status.code, status.where) == (RemoteState.ENDED, 0, "worker-1")
    [container] = cluster.containers.values()
    assert container.log.read_text() == "token is 5 long\n"


async def test_a_repeated_submit_starts_one_container(cluster: KubernetesCluster, executor: KubernetesExecutor) -> None:
    job = make_job(code=WAIT)

    for token in ("first", "second", "third"):
        await executor.submit(make_job(code=WAIT, token=token))

    await cluster.wait_until(lambda: len(cluster.list_running()) == 1)
    assert len(cluster.objects["pods"]) == 1
    assert cluster.objects["secrets"][job.name]["data"] == {"token": "dGhpcmQ="}  # "third"


@pytest.mark.parametrize("is_executed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("path", ["/jobs", "/secrets"])
async def test_a_submit_that_failed_half_way_goes_on(
    cluster: KubernetesCluster, executor: KubernetesExecutor, path: str, is_executed: bool
) -> None:
    cluster.fail_next.append(("POST", path, 503, not is_executed))
    with pytest.raises(ExecutorError) as failed:
        await executor.submit(make_job())
    assert not failed.value.is_permanent

    await executor.submit(make_job())

    await cluster.wait_until(lambda: len(cluster.containers) == 1)
    assert len(cluster.objects["pods"]) == 1


async def test_a_quota_that_was_used_up_for_a_moment_failed_the_run(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    cluster.job_quota = 0

    with pytest.raises(ExecutorError, match="exceeded quota") as refused:
        await executor.submit(make_job())

    assert not refused.value.is_permanent
    assert refused.value.hint == "", "no role is missing"


async def test_a_pod_without_its_secret_does_not_begin(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    cluster.fail_next.append(("POST", "/secrets", 500, True))
    with pytest.raises(ExecutorError):
        await executor.submit(make_job())

    status = await executor.get_status(make_job().name)

    assert (status.state, status.reason) == (RemoteState.PENDING, "ContainerCreating")
    assert cluster.containers == {}


async def test_a_job_of_that_name_without_our_labels_is_not_ours(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    await executor.submit(make_job(code=WAIT))
    cluster.objects["jobs"][make_job().name]["metadata"]["labels"]["herdbeat.dev/store"] = "another"

    with pytest.raises(ExecutorError, match="is not ours") as refused:
        await executor.submit(make_job(code=WAIT))

    assert refused.value.is_permanent


async def test_cancel_ends_the_container_and_removes_job_pod_and_secret(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    job = make_job(code=WAIT)
    await executor.submit(job)
    await cluster.wait_until(lambda: len(cluster.list_running()) == 1)

    await executor.cancel(job.name)

    assert cluster.list_running() == []
    assert cluster.objects == {"jobs": {}, "pods": {}, "secrets": {}}
    status = await executor.get_status(job.name)
    assert (status.state, status.is_reachable) == (RemoteState.UNKNOWN, True)


async def test_cancel_of_an_ended_job_keeps_it_and_removes_its_token(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    job = make_job()
    await executor.submit(job)
    await cluster.wait_until(lambda: "conditions" in cluster.objects["jobs"][job.name]["status"])

    await executor.cancel(job.name)
    await executor.cancel(job.name)

    assert list(cluster.objects["jobs"]) == [job.name]
    assert cluster.objects["secrets"] == {}


async def test_cancel_of_an_unknown_job_is_no_error(cluster: KubernetesCluster, executor: KubernetesExecutor) -> None:
    await executor.cancel(make_job(99).name)

    assert ("DELETE", "/apis/batch/v1/namespaces/agents/jobs/" + make_job(99).name) not in cluster.requests


async def test_leftovers_are_the_open_jobs_of_this_ledger_over_all_pages(
    cluster: KubernetesCluster, executor: KubernetesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdbeat.executors.kubernetes.client.PAGE_SIZE", 2)
    cluster.starts_containers = False
    jobs = [make_job(run_id) for run_id in range(1, 6)]
    for job in jobs:
        await executor.submit(job)
    await executor.cancel(jobs[0].name)
    cluster.objects["jobs"][jobs[1].name]["metadata"]["labels"]["herdbeat.dev/store"] = "another"

    assert await executor.list_leftovers(STORE) == [each.name for each in jobs[2:]]


async def test_a_list_that_became_too_old_between_two_pages_begins_anew(
    cluster: KubernetesCluster, executor: KubernetesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdbeat.executors.kubernetes.client.PAGE_SIZE", 2)
    cluster.starts_containers = False
    jobs = [make_job(run_id) for run_id in range(1, 4)]
    for job in jobs:
        await executor.submit(job)
    client = executor._open()
    send, asked = client._send_once, []

    async def compact_after_first_page(*arguments: object) -> bytes:
        answer = await send(*arguments)  # type: ignore[arg-type]
        asked.append(arguments)
        if len(asked) == 1:
            cluster.compact()
        return answer

    monkeypatch.setattr(client, "_send_once", compact_after_first_page)

    assert await executor.list_leftovers(STORE) == [each.name for each in jobs]


async def test_a_full_or_unsuitable_cluster_is_pending_with_its_reason(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    job = make_job(node_selector={"gpu": "a100"})
    await executor.submit(job)
    await cluster.wait_until(lambda: any("conditions" in p["status"] for p in cluster.objects["pods"].values()))

    status = await executor.get_status(job.name)

    assert status.state is RemoteState.PENDING
    assert status.reason.startswith("Unschedulable: 0/1 nodes are available")


async def test_an_image_that_cannot_be_pulled_is_pending_with_its_reason(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    cluster.missing_images.add("agents:2")
    job = make_job(image="agents:2")
    await executor.submit(job)
    await cluster.wait_until(lambda: any("containerStatuses" in p["status"] for p in cluster.objects["pods"].values()))

    assert "ImagePullBackOff: Back-off pulling image agents:2" in (await executor.get_status(job.name)).reason


async def test_a_killed_container_ends_the_job_with_its_code(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    job = make_job(code=WAIT)
    await executor.submit(job)
    await cluster.wait_until(lambda: len(cluster.list_running()) == 1)
    [pod] = cluster.list_running()

    await cluster.kill_container(pod)
    await cluster.wait_until(lambda: "conditions" in cluster.objects["jobs"][job.name]["status"])

    status = await executor.get_status(job.name)
    assert (status.state, status.code) == (RemoteState.ENDED, 137)


async def test_an_unreachable_cluster_is_a_status_and_not_a_lost_job(
    cluster: KubernetesCluster, executor: KubernetesExecutor
) -> None:
    cluster.fail_next.append(("GET", make_job().name, 503, True))

    status = await executor.get_status(make_job().name)

    assert (status.state, status.is_reachable) == (RemoteState.UNKNOWN, False)


async def test_a_refused_token_is_said_with_its_fix(cluster: KubernetesCluster, tmp_path: Path) -> None:
    executor = open_executor(cluster, tmp_path, token="stranger")

    with pytest.raises(ExecutorError, match="Unauthorized") as refused:
        await executor.check()

    assert "kubectl auth whoami" in refused.value.hint
    await executor.close()


async def test_check_names_version_and_namespace(executor: KubernetesExecutor) -> None:
    assert await executor.check() == "Kubernetes v1.34.1, namespace agents"


async def test_no_token_is_anywhere_but_in_the_secret(cluster: KubernetesCluster, executor: KubernetesExecutor) -> None:
    await executor.submit(make_job(token="s3cr3t-value"))
    await cluster.wait_until(lambda: len(cluster.containers) == 1)

    job, secret = cluster.bodies
    assert "s3cr3t-value" not in str(job)
    assert (
        secret["metadata"]["ownerReferences"][0]["uid"] == cluster.objects["jobs"][make_job().name]["metadata"]["uid"]
    )
    assert secret["data"] == {"token": "czNjcjN0LXZhbHVl"}
    assert "s3cr3t-value" not in repr(make_job(token="s3cr3t-value"))


JOB = JobState(name="hb-a-1-00000000", uid="u", labels={})


@pytest.mark.parametrize(
    ("job", "pod", "state", "reason"),
    [
        (JobState(name="a", uid="u", labels={}, is_complete=True), None, RemoteState.ENDED, ""),
        (
            JobState(name="a", uid="u", labels={}, failed="DeadlineExceeded"),
            None,
            RemoteState.ENDED,
            "The cluster ended the Job at its deadline.",
        ),
        (
            JobState(name="a", uid="u", labels={}, failed="BackoffLimitExceeded"),
            PodState(name="p", phase="Failed", terminated="OOMKilled", exit_code=137),
            RemoteState.ENDED,
            "The container needed more memory than its limit (OOMKilled).",
        ),
        (
            JobState(name="a", uid="u", labels={}, failed="BackoffLimitExceeded"),
            PodState(name="p", phase="Failed", reason="Evicted", message="The node was low on memory."),
            RemoteState.ENDED,
            "The pod ended: Evicted. The node was low on memory.",
        ),
        (JOB, None, RemoteState.PENDING, "The cluster has not made the pod yet."),
        (
            JOB,
            PodState(name="p", phase="Pending", waiting="InvalidImageName", waiting_message="couldn't parse"),
            RemoteState.ENDED,
            "InvalidImageName: couldn't parse",
        ),
        (JobState(name="a", uid="u", labels={}, is_deleted=True), None, RemoteState.ENDED, "The Job was deleted."),
        (JOB, PodState(name="p", phase="Running", node="n"), RemoteState.RUNNING, ""),
    ],
)
def test_what_the_cluster_says_becomes_a_state_and_a_sentence(
    job: JobState, pod: PodState | None, state: RemoteState, reason: str
) -> None:
    status = describe(job, [pod] if pod else [])

    assert (status.state, status.reason) == (state, reason)


async def test_a_kubeconfig_that_is_not_there_yet_is_a_status_and_found_later(
    cluster: KubernetesCluster, tmp_path: Path
) -> None:
    executor = open_executor(cluster, tmp_path)
    (tmp_path / "kubeconfig").rename(tmp_path / "later")
    status = await executor.get_status(make_job().name)
    assert (status.state, status.is_reachable) == (RemoteState.UNKNOWN, False)
    assert "No such file" in status.reason

    (tmp_path / "later").rename(tmp_path / "kubeconfig")

    assert await executor.check() == "Kubernetes v1.34.1, namespace agents"
    await executor.close()
