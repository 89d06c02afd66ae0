"""Endpoints under a real `herdbeat up`: responses are shown as they are, and secrets nowhere."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.commands.test_up import UpFleet
from tests.support.running_fleet import RunningFleet

SECRET = "hush-hush-0123456789"
FLEET = """\
version: 1
fleet: {{ name: my-fleet }}
timezone: UTC
egress: {{ allow: [127.0.0.1] }}
endpoints:
  - name: queue
    url: "{url}/queue"
    headers: {{ Authorization: "Bearer ${{QUEUE_TOKEN}}" }}
    type: manual
  - {{ name: echo, url: "{url}/echo", headers: {{ X-Api-Key: "${{QUEUE_TOKEN}}" }}, type: manual }}
  - {{ name: slow, url: "{url}/slow", timeout: 1s, type: manual }}
  - {{ name: down, url: "{url}/down", type: manual }}
  - {{ name: metadata, url: "http://169.254.169.254/latest/meta-data", type: manual }}
"""


class Handler(BaseHTTPRequestHandler):
    release = threading.Event()

    def do_GET(self) -> None:
        answers = {
            "/queue": (200, b'{"queue_depth": 7}', "application/json"),
            "/echo": (500, str(self.headers).encode(), "text/plain"),
            "/down": (503, b"the queue is down", "text/plain"),
        }
        if self.path == "/slow":
            self.release.wait(60)
            return
        status, body, content_type = answers[self.path]
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@contextmanager
def serving() -> Iterator[str]:
    Handler.release.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            Handler.release.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UpFleet]:
    monkeypatch.setenv("QUEUE_TOKEN", SECRET)
    with serving() as url:
        found = UpFleet(tmp_path)
        (tmp_path / "herdbeat.yaml").write_text(FLEET.format(url=url), encoding="utf-8")
        yield found


def test_the_views_show_the_response_of_an_endpoint(fleet: UpFleet) -> None:
    names = ("queue", "slow", "down", "metadata")
    with fleet.up():
        codes = [fleet.call("run", name, "--wait").returncode for name in names]
        runs = {str(run["schedule"]).partition("/")[0]: run for run in fleet.answer("runs")["items"]}  # type: ignore[attr-defined]
        shown = fleet.call("runs").stdout
        why = fleet.call("explain", runs["queue"]["id"]).stdout

    assert codes == [0, 5, 5, 5]
    assert {name: run["code"] for name, run in runs.items()} == {
        "queue": 200,
        "slow": None,
        "down": 503,
        "metadata": None,
    }
    assert runs["down"]["error"] == "503 Service Unavailable: the queue is down"
    assert runs["slow"]["status"] == "timed_out"
    assert str(runs["metadata"]["error"]).startswith(
        "169.254.169.254 was not called because it is a link-local address"
    )
    assert "✓ 200" in shown
    assert "succeeded with 200" in why


def test_a_secret_of_a_header_is_shown_nowhere(fleet: UpFleet) -> None:
    with fleet.up() as process:
        waited = [fleet.call("run", name, "--wait") for name in ("queue", "echo")]
        waited += [fleet.call("config", "show"), fleet.call("runs"), fleet.call("status"), fleet.call("down")]
        rest, complaints = process.communicate(timeout=60)

    texts = [each.stdout + each.stderr for each in waited] + [rest, complaints]
    texts += [path.read_text() for path in fleet.state_dir.glob("logs/*/*.jsonl")]
    assert "X-Api-Key: ***" in texts[1]
    assert not [text for text in texts if SECRET in text]


def test_a_change_of_the_allowed_addresses_acts_without_a_restart(tmp_path: Path) -> None:
    fleet = RunningFleet(tmp_path)
    with serving() as url:
        endpoint = f"endpoints: [{{ name: queue, url: '{url}/queue', type: manual }}]\n"
        fleet.write(endpoint)
        doctor = fleet.call("doctor")
        with fleet.up() as feed:
            fleet.call("run", "queue")
            blocked = feed.until("run_finished")
            fleet.write("egress: { allow: [127.0.0.1] }\n" + endpoint)
            applied = fleet.call("apply")
            fleet.call("run", "queue")
            allowed = feed.until("run_finished")
            fleet.write(endpoint + "# not any more\n")
            fleet.call("apply")
            fleet.call("run", "queue")
            again = feed.until("run_finished")

    assert "egress.allow" in str(blocked["error"])
    assert (allowed["status"], allowed["error"]) == ("succeeded", "")
    assert "egress" not in applied.stderr
    assert again["status"] == "failed"
    assert "✗ egress" in doctor.stdout
