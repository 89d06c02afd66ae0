"""The OpenAPI document, and everything it allows asked of the application: no failure of ours, no broken promise."""

import json
from pathlib import Path
from typing import Any

import pytest
import requests
from schemathesis.core.transport import Response
from tests.server.conftest import ServedFleet
from tests.support.api_fuzzer import send_all_requests
from tests.support.running_fleet import RunningFleet

from herdbeat.error_codes import Code
from herdbeat.server.app import API_PREFIX

LIVE_FLEET = """\
version: 1
timezone: UTC
server: { base_path: /ops }
commands:
  - { name: tick, command: ["true"], every: 1h }
  - { name: hook, command: ["true"], type: webhook, auth: none }
"""
KNOWN = {
    "target": "triage",
    "name": "issues",
    "schedule": "issues",
    "run_id": "0001",
    "beat_id": "0001",
    "hint_id": "1",
}


@pytest.fixture
def described(served: ServedFleet) -> dict[str, Any]:
    answer = served.client().get(f"{API_PREFIX}/openapi.json")
    assert answer.status == 200
    document: dict[str, Any] = answer.json()
    return document


def test_the_document_is_openapi_3_1_and_every_route_is_described(described: dict[str, Any]) -> None:
    operations = [each for path in described["paths"].values() for each in path.values()]

    assert described["openapi"].startswith("3.1")
    assert all(each.get("summary") and each.get("tags") for each in operations)
    assert len({each["operationId"] for each in operations}) == len(operations)


def test_a_generated_client_knows_the_credentials_and_has_short_names(described: dict[str, Any]) -> None:
    """There was no security scheme, and a request was called pause_api_v1_schedules__target___name__pause_post."""
    paths = described["paths"]

    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert {"token": []} in described["security"]
    assert paths["/hooks/{target}/{schedule}"]["post"]["security"] == []
    assert paths[f"{API_PREFIX}/schedules/{{target}}/{{name}}/pause"]["post"]["operationId"] == "schedules_pause"


def test_every_answer_of_a_request_that_succeeds_has_a_schema(described: dict[str, Any]) -> None:
    """That of a webhook, and of a run that is deduplicated, had none."""
    missing = [
        (method, path, status)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and not answer.get("content", {}).get("application/json", {"schema": 1}).get("schema")
    ]

    assert [each for each in missing if not each[1].startswith("/chat/")] == []
    assert "200" in described["paths"][f"{API_PREFIX}/schedules/{{target}}/{{name}}/runs"]["post"]["responses"]


def test_the_document_lists_every_problem_code(described: dict[str, Any]) -> None:
    assert set(described["components"]["schemas"]["Code"]["enum"]) == set(Code)


def test_whatever_is_asked_the_answer_keeps_the_description(served: ServedFleet) -> None:
    """Hypothesis fills in every parameter and body that the description allows, and some that it does not."""
    document = served.client().get(f"{API_PREFIX}/openapi.json").json()
    client = served.client()

    asked = send_all_requests(document, lambda case: send_case(client, case), examples=6)

    assert len(asked) > 60


@pytest.mark.parametrize("scope", ["read", "operate", "admin", "agent:triage", "hook:triage/issues"])
def test_whatever_a_token_asks_of_what_exists_the_answer_keeps_the_description(served: ServedFleet, scope: str) -> None:
    """Random names get 404 before anything happens: these are names of the fleet."""
    document = served.client().get(f"{API_PREFIX}/openapi.json").json()
    client = served.bearer(scope)

    asked = send_all_requests(document, lambda case: send_case(client, case), examples=1, known=KNOWN)

    assert len(asked) > 60


def test_a_live_server_under_a_base_path_keeps_the_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERDBEAT_NO_SERVER", raising=False)
    running = RunningFleet(tmp_path)
    running.write(LIVE_FLEET)
    with running.up("--port", "0") as feed:
        url = str(feed.until("server_ready")["url"]).rstrip("/")
        token = json.loads(running.call("token", "create", "storm", "--scope", "admin", "--json").stdout)["token"]
        with requests.Session() as session:
            session.headers["Authorization"] = f"Bearer {token}"
            document = session.get(f"{url}{API_PREFIX}/openapi.json", timeout=60).json()

            asked = send_all_requests(document, lambda case: case.call(base_url=url, session=session), examples=1)
            still_there = session.get(f"{url}{API_PREFIX}/status", timeout=60)
        feed.process.terminate()

    assert url.endswith("/ops")
    assert len(asked) > 60
    assert still_there.status_code == 200


def send_case(client: Any, case: Any) -> Any:
    """Send it to the application in this process, and return what schemathesis validates."""
    request = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1:3232")).prepare()
    body = request.body if isinstance(request.body, bytes) else str(request.body or "").encode()
    headers = {name: value if isinstance(value, str) else value.decode() for name, value in request.headers.items()}
    answer = client.send_raw(
        request.method,
        request.path_url,
        body,
        [("host", client.host), *client.headers.items(), *headers.items()],
    )
    return Response(
        status_code=answer.status,
        headers={name: [value] for name, value in answer.headers.items()},
        content=answer.body,
        request=request,
        elapsed=0.0,
        verify=False,
    )
