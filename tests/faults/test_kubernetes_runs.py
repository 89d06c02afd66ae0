"""Runs on Kubernetes, from the outside: a real node, a real server, and a cluster whose pods are real processes."""

import base64
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.kubernetes_api import KubernetesCluster, kubernetes_in_a_thread
from tests.support.remote_fleet import SECRET_PROMPT, RemoteFleet, is_program_running, wait_for


class KubernetesFleet(RemoteFleet):
    """The same fleet, whose command runs in pods."""

    def __init__(self, folder: Path, cluster: KubernetesCluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.image = "agents:1"
        user = {"name": "test", "user": {"token": "operator"}}
        context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
        config = {"current-context": "test", "contexts": [context], "users": [user]}
        config["clusters"] = [{"name": "test", "cluster": {"server": cluster.url}}]
        (folder / "kubeconfig").write_text(json.dumps(config))

    def executor_lines(self) -> str:
        return f"""\
  kubernetes:
    namespace: {self.cluster.namespace}
    image: {self.image}
    kubeconfig: {self.folder / "kubeconfig"}
    command: [{sys.executable}, -m, herdbeat]
    lease: {self.lease}
"""

    def begin_in_pod(self) -> str:
        """Start a run, and return the name of its pod once its program has begun."""
        self.begin()
        [pod] = self.cluster.list_running()
        return pod


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[KubernetesFleet]:
    with kubernetes_in_a_thread(KubernetesCluster()) as cluster:
        yield KubernetesFleet(tmp_path, cluster)


def test_a_run_in_a_pod_is_recorded_like_a_local_one_and_the_cluster_learns_no_prompt(fleet: KubernetesFleet) -> None:
    fleet.release.touch()
    with fleet.up():
        fleet.start_run()
        ended = fleet.wait_status("succeeded", "failed", "interrupted")
        assert (ended["status"], ended["code"]) == ("succeeded", 0), ended
        log = fleet.log()
    assert "done" in log
    assert "runs on kubernetes" in log
    assert "begun with []" in log, "no token is in the environment of the program"
    assert len(fleet.starts()) == 1
    job, secret = fleet.cluster.bodies
    token = base64.b64decode(secret["data"]["token"]).decode()
    assert SECRET_PROMPT not in json.dumps(fleet.cluster.bodies)
    assert token not in json.dumps(job)
    assert token not in (fleet.folder / "up.log").read_text()
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": str(64 * 1024**2)}


def test_a_cancelled_run_leaves_no_program_and_no_token_in_the_cluster(fleet: KubernetesFleet) -> None:
    with fleet.up():
        fleet.begin_in_pod()
        fleet.ask(f"/runs/{fleet.newest()['id']}/cancel", {})
        assert fleet.wait_status("cancelled")
        wait_for(lambda: not fleet.cluster.list_running())
        wait_for(lambda: not is_program_running(fleet))
        wait_for(lambda: not fleet.cluster.objects["secrets"])
    assert len(fleet.starts()) == 1


def test_a_run_outlives_its_killed_node_and_the_next_node_records_its_end(fleet: KubernetesFleet) -> None:
    fleet.lease = "60s"
    with fleet.up() as node:
        fleet.begin_in_pod()
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
    with fleet.up():
        assert fleet.newest()["status"] == "running"
        fleet.release.touch()
        assert fleet.wait_status("succeeded", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1


def test_a_killed_pod_interrupts_its_run_and_is_not_started_again(fleet: KubernetesFleet) -> None:
    with fleet.up():
        pod = fleet.begin_in_pod()
        fleet.cluster.containers[pod].process.kill()
        fleet.wait_status("interrupted")
    wait_for(lambda: not is_program_running(fleet))
    assert len(fleet.starts()) == 1


def test_an_image_that_cannot_be_pulled_is_given_up_with_the_words_of_the_cluster(fleet: KubernetesFleet) -> None:
    fleet.cluster.missing_images.add("agents:2")
    fleet.image, fleet.start_timeout = "agents:2", "7s"
    with fleet.up():
        fleet.start_run()
        ended = fleet.wait_status("interrupted")
    assert "ImagePullBackOff" in ended["error"]
    assert fleet.starts() == []


def test_a_submit_whose_answers_are_lost_starts_one_program(fleet: KubernetesFleet) -> None:
    fleet.cluster.fail_next += [("POST", "/jobs", 503, False), ("POST", "/secrets", 503, False)]
    fleet.release.touch()
    with fleet.up():
        fleet.start_run()
        assert fleet.wait_status("succeeded", "failed", "interrupted")["status"] == "succeeded"
    assert len(fleet.starts()) == 1
