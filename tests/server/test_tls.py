"""HTTPS by files: a real server with a certificate of its own, and a command line that is told to trust it."""

import shutil
from pathlib import Path

import pytest
from tests.server.conftest import NOW
from tests.support.http_endpoints import CERTIFICATE
from tests.support.running_fleet import RunningFleet

from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

FLEET = """\
version: 1
timezone: UTC
server: { tls_cert: both.pem, tls_key: both.pem }
commands:
  - { name: tick, command: ["true"], every: 1h }
"""


def test_a_server_with_a_certificate_is_asked_over_https_and_trusted_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERDBEAT_NO_SERVER", raising=False)
    running = RunningFleet(tmp_path)
    running.write(FLEET)
    shutil.copy(CERTIFICATE, tmp_path / "both.pem")
    cli = CommandLine(folder=tmp_path, clock=FakeClock(NOW))

    with running.up("--port", "0") as feed:
        url = str(feed.until("server_ready")["url"])
        (tmp_path / "token").write_text(running.call("token", "create", "far").stdout, encoding="utf-8")
        asked = ("list", "--url", url, "--token-file", "token", "--json")
        untrusted, trusted = cli.run(*asked), cli.run(*asked, "--ca-file", "both.pem")
        missing = cli.run(*asked, "--ca-file", "nowhere.pem")
        plain = cli.run(*asked[:2], url.replace("https", "http"), *asked[3:])

    assert url.startswith("https://127.0.0.1:")
    assert [each["schedule"] for each in trusted.json()["items"]] == ["tick"]
    assert (untrusted.status, "--ca-file FILE" in untrusted.err) == (7, True)
    assert (missing.status, plain.status) == (2, 7)


@pytest.mark.parametrize(
    ("cert", "key", "reason"),
    [
        ("gone.pem", "both.pem", "there is no file"),
        ("both.pem", "gone.pem", "there is no file"),
        ("herdbeat.yaml", "both.pem", "cannot be used"),
        ("", "both.pem", "has no server.tls_cert"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named_before_anything_starts(
    tmp_path: Path, cert: str, key: str, reason: str
) -> None:
    """`up` printed the address, and then tracebacks of a server that ended again and again."""
    named = [f"{name}: {file}" for name, file in (("tls_cert", cert), ("tls_key", key)) if file]
    settings = "{ " + ", ".join(named) + " }"
    fleet = FLEET.replace("{ tls_cert: both.pem, tls_key: both.pem }", settings)
    (tmp_path / "herdbeat.yaml").write_text(fleet, encoding="utf-8")
    shutil.copy(CERTIFICATE, tmp_path / "both.pem")

    result = CommandLine(folder=tmp_path, clock=FakeClock(NOW)).run("serve", "--port", "0")

    assert (result.status, reason in result.err) == (2, True), result.err
    assert "relative to the fleet file" in result.err
