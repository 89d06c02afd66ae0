"""The whole API of a live server under random requests: no failure of ours, no broken promise, no late beat."""

import json
from pathlib import Path

import pytest
import requests
from tests.support.api_fuzzer import send_all_requests
from tests.support.running_fleet import RunningFleet

FLEET = """\
version: 1
timezone: UTC
commands:
  - { name: tick, command: ["true"], every: 1s }
  - { name: hook, command: ["true"], type: webhook, auth: none }
"""
EXAMPLES = 60


@pytest.fixture(autouse=True)
def _with_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERDBEAT_NO_SERVER", raising=False)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_random_requests_find_no_failure(tmp_path: Path) -> None:
    running = RunningFleet(tmp_path)
    running.write(FLEET)

    with running.up("--port", "0") as feed:
        url = str(feed.until("server_ready")["url"]).rstrip("/")
        token = json.loads(running.call("token", "create", "storm", "--scope", "admin", "--json").stdout)["token"]
        with requests.Session() as session:
            session.headers["Authorization"] = f"Bearer {token}"
            document = session.get(f"{url}/api/v1/openapi.json", timeout=60).json()
            del document["paths"]["/api/v1/session"]["post"]  # ten wrong tokens lock this address out for a minute
            asked = send_all_requests(
                document, lambda case: case.call(base_url=url, session=session), EXAMPLES, is_random=True
            )
            alive = session.get(f"{url}/api/v1/status", timeout=60)
        feed.process.terminate()

    assert len(asked) > 60
    assert alive.status_code == 200
