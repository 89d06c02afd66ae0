"""Who we are at a cluster: service account, token, token file, client certificate, exec plugin."""

import base64
import datetime as dt
import re
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from tests.support.http_endpoints import CERTIFICATE
from tests.support.kubernetes_api import KubernetesCluster, serve_kubernetes

from herdbeat.clock import SystemClock
from herdbeat.domain.executor import KubernetesSettings
from herdbeat.executors.base import ExecutorError
from herdbeat.executors.kubernetes import access as module
from herdbeat.executors.kubernetes.access import ClusterAccess, open_access
from herdbeat.executors.kubernetes.client import KubernetesClient
from herdbeat.testing import FakeClock

SERVER = "https://127.0.0.1:6443"
PARTS = re.findall(rb"-----BEGIN (?:.|\n)+?-----END [A-Z ]+-----\n", CERTIFICATE.read_bytes())
AUTHORITY = next(part for part in PARTS if b"CERTIFICATE" in part)
KEY = next(part for part in PARTS if b"KEY" in part)
"""A certificate for 127.0.0.1 that is its own authority, and its key."""


def write_config(folder: Path, user: Mapping[str, object], **cluster: object) -> Path:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **cluster}}],
        "users": [{"name": "u", "user": dict(user)}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


def open_config(path: Path, **environment: str) -> ClusterAccess:
    return open_access(KubernetesSettings(kubeconfig=str(path)), SystemClock(), environment)


async def test_a_token_of_the_kubeconfig(tmp_path: Path) -> None:
    access = open_config(write_config(tmp_path, {"token": "abc"}))

    assert (await access.credentials.get()).token == "abc"
    assert (access.server, access.is_verified) == (SERVER, True)


async def test_a_token_file_is_relative_to_the_kubeconfig_and_read_anew(tmp_path: Path) -> None:
    access = open_config(write_config(tmp_path, {"tokenFile": "token"}))
    (tmp_path / "token").write_text("first\n")
    assert (await access.credentials.get()).token == "first"

    (tmp_path / "token").write_text("second\n")

    assert (await access.credentials.get()).token == "second"


async def test_a_node_inside_of_a_cluster_uses_the_service_account_of_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "token").write_text("mounted")
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", tmp_path)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}

    access = open_access(KubernetesSettings(), SystemClock(), environment)

    assert access.server == "https://[fd00::1]:6443"
    assert (await access.credentials.get()).token == "mounted"


def test_outside_of_a_cluster_a_kubeconfig_is_needed() -> None:
    with pytest.raises(ExecutorError, match="not inside of a cluster") as refused:
        open_access(KubernetesSettings(), SystemClock(), {})

    assert "kubeconfig" in refused.value.hint


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider is not supported"),
        ({"username": "admin"}, {}, "username is not supported"),
        ({"as": "admin"}, {}, "as is not supported"),
        ({"token": 5}, {}, "token must be a text"),
        ({}, {"server": "http://10.0.0.1"}, "must be an https address"),
        ({}, {"server": "tcp://x"}, "not an http or https address"),
        ({}, {"proxy-url": "http://127.0.0.1"}, "proxy-url is not supported"),
        ({}, {"certificate-authority-data": "%"}, "is not base64"),
        ({"client-certificate-data": "eA=="}, {}, "the certificates cannot be used"),
        ({"exec": {"apiVersion": "v0"}}, {}, "apiVersion must be one of"),
        (
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Always"}},
            {},
            "a plugin that asks a person",
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(
    tmp_path: Path, user: Mapping[str, object], cluster: Mapping[str, object], message: str
) -> None:
    path = write_config(tmp_path, user, **cluster)

    with pytest.raises(ExecutorError, match=message) as refused:
        open_config(path)

    assert str(path) in refused.value.message


@pytest.mark.parametrize("text", ["", "[", "- a", "a: b", "current-context: x\ncontexts: 5", "\x00", "{a: [}"])
def test_a_file_that_is_no_kubeconfig_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)

    with pytest.raises(ExecutorError):
        open_config(tmp_path / "config")


def test_a_missing_kubeconfig_is_said(tmp_path: Path) -> None:
    with pytest.raises(ExecutorError, match="No such file"):
        open_config(tmp_path / "nothing")


async def test_an_exec_plugin_is_asked_again_before_its_credential_ends(tmp_path: Path) -> None:
    clock, runs = FakeClock(dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC)), tmp_path / "runs"
    script = tmp_path / "plugin.py"
    script.write_text(f"""
import json, os
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["spec"] == {{"interactive": False}} and os.environ["REGION"] == "eu"
with open({str(runs)!r}, "a") as file:
    file.write("x")
count = len(open({str(runs)!r}).read())
ends = os.environ["ENDS"]
print(json.dumps({{"kind": "ExecCredential", "status": {{"token": f"t{{count}}", "expirationTimestamp": ends}}}}))
""")
    ends = (clock.now() + dt.timedelta(minutes=10)).isoformat()
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "REGION", "value": "eu"}, {"name": "ENDS", "value": ends}],
    }
    path = write_config(tmp_path, {"exec": plugin})
    access = open_access(KubernetesSettings(kubeconfig=str(path)), clock, {})

    assert [(await access.credentials.get()).token for _ in range(2)] == ["t1", "t1"]

    clock.advance(dt.timedelta(minutes=9, seconds=30))
    assert (await access.credentials.get()).token == "t2"

    access.credentials.expire()
    assert (await access.credentials.get()).token == "t3"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["/nothing/here"], "cannot be started"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with exit code 3"),
        ([sys.executable, "-c", "print('{}')"], "did not print a credential"),
        ([sys.executable, "-c", "print('[' * 100000)"], "did not print a credential"),
    ],
)
async def test_a_broken_plugin_is_said_in_words(tmp_path: Path, argv: list[str], message: str) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": argv[0], "args": argv[1:]}
    access = open_config(write_config(tmp_path, {"exec": plugin}))

    with pytest.raises(ExecutorError, match=message):
        await access.credentials.get()


async def test_a_client_certificate_opens_a_cluster_that_asks_for_one(tmp_path: Path) -> None:
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=AUTHORITY.decode())
    server_tls.verify_mode = ssl.CERT_REQUIRED
    server_tls.load_cert_chain(CERTIFICATE)

    async with serve_kubernetes(KubernetesCluster(), server_tls) as cluster:
        user = {"client-certificate-data": encode(AUTHORITY), "client-key-data": encode(KEY)}
        path = write_config(tmp_path, user, **{"server": cluster.url, "certificate-authority-data": encode(AUTHORITY)})
        client = KubernetesClient(open_config(path), cluster.namespace)
        assert await client.get_version() == "v1.34.1"
        await client.close()

        stranger = KubernetesClient(open_config(write_config(tmp_path, user, server=cluster.url)), cluster.namespace)
        with pytest.raises(ExecutorError, match="is not valid"):
            await stranger.get_version()
        await stranger.close()


async def test_a_refused_token_is_fetched_again_once(tmp_path: Path) -> None:
    async with serve_kubernetes(KubernetesCluster(tokens={"new"})) as cluster:
        path = write_config(tmp_path, {"exec": _plugin_that_prints(tmp_path, "old", "new")}, server=cluster.url)
        client = KubernetesClient(open_config(path), cluster.namespace)

        assert await client.get_version() == "v1.34.1"

        await client.close()
        assert [path for _, path in cluster.requests] == ["/version", "/version"]


def _plugin_that_prints(folder: Path, *tokens: str) -> Mapping[str, object]:
    left = folder / "tokens"
    left.write_text("\n".join(tokens))
    code = (
        f"import json, pathlib; p = pathlib.Path({str(left)!r}); t, *r = p.read_text().split('\\n');"
        "p.write_text('\\n'.join(r)); print(json.dumps({'status': {'token': t}}))"
    )
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", code]}


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
