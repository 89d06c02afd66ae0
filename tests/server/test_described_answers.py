"""Every answer is described: each key of it has a schema, each schema an example, and the examples fit the schemas."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from tests.server.conftest import ServedFleet, ServedHistory

from herdbeat.error_codes import Code
from herdbeat.server.app import API_PREFIX
from herdbeat.server.openapi.answers import ANSWERS
from herdbeat.server.openapi.document import JSON
from herdbeat.server.problems import MEDIA_TYPE

ASKED = [
    *("/status", "/next", "/changes", "/nodes?stopped=1", "/cost", "/cost?by=day", "/schedules", "/targets", "/runs"),
    *("/beats", "/attention", "/sessions", "/accounts", "/work?all=1", "/timeline", "/hints", "/rules", "/pauses"),
    *("/notifications", "/config", "/tokens", "/session", "/refused-calls"),
]
OF_FLEET = [
    *("/schedules/triage/issues", "/schedules/queue-depth/default/next", "/schedules/triage/issues/explain"),
    *("/schedules/triage/standup/explain?at=2026-03-26T08:00:00Z", "/schedules/triage/issues/stats"),
    *("/schedules/triage/issues/hints", "/targets/triage", "/runs/0001", "/beats/0001"),
]
NOT_OURS = ("/hooks", "/webhooks", "/chat", "/mcp")
"""What these answer is for the service that calls them, in its own words."""

CHANGES = [
    ("POST", "/schedules/triage/issues/pause", {"for": "1h"}),
    ("POST", "/schedules/triage/issues/hints", {"every": "1m"}),
    ("DELETE", "/schedules/triage/issues/hints", None),
    ("POST", "/schedules/backup/default/runs", {"reason": "now"}),
    ("POST", "/schedules/backup/default/backfill", {"from": "2026-03-25T00:00:00Z"}),
    ("POST", "/schedules/backup/default/backfill", {"from": "2026-03-25T00:00:00Z", "dry_run": True}),
    ("POST", "/schedules", {"schedule": "triage/new", "every": "5m"}),
    ("PATCH", "/schedules/triage/new", {"every": "6m"}),
    ("DELETE", "/schedules/triage/new", None),
    ("POST", "/targets", {"name": "probe", "url": "https://example.com/", "every": "5m"}),
    ("PATCH", "/targets/probe", {"url": "https://example.com/b"}),
    ("DELETE", "/targets/probe", None),
    ("POST", "/runs/0001/retry", {}),
    ("POST", "/runs/0001/ack", {}),
    ("POST", "/bulk", {"select": {"all": True}, "action": "resume"}),
    ("POST", "/bulk", {"select": {"all": True}, "action": "cancel"}),
    ("POST", "/bulk", {"select": {"all": True}, "action": "pause", "dry_run": True}),
    ("POST", "/preview", {"expression": "0 9 * * *"}),
    ("POST", "/config/plan", {}),
    ("POST", "/tokens", {"name": "x", "scope": "read"}),
    ("DELETE", "/tokens/x", None),
    ("POST", "/pauses", {"select": {"all": True}, "from": "2026-03-27T10:00:00Z", "for": "1h", "reason": "db"}),
    ("GET", "/pauses", None),
    ("DELETE", "/pauses/1", None),
    ("POST", "/notifications/ack", {}),
]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    served = ServedFleet(tmp_path_factory.mktemp("described"))
    found: dict[str, Any] = served.app.openapi()
    served.gateway.close()
    return found


def find_schema(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """Return the schema of the route that a request meets."""
    parts = path.partition("?")[0].strip("/").split("/")
    for (known, template), schema in ANSWERS.items():
        wanted = template.removeprefix(API_PREFIX).strip("/").split("/")
        is_same = len(wanted) == len(parts) and all(
            want == part or want.startswith("{") for want, part in zip(wanted, parts, strict=True)
        )
        if known == method.lower() and is_same and template in document["paths"]:
            return schema
    raise AssertionError(f"{method} {path} is not described")


def find_unknown_keys(document: dict[str, Any], schema: dict[str, Any], value: Any, place: str = "") -> Iterator[str]:
    """Yield the keys of an answer that its schema does not name."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(find_unknown_keys(document, each, value, place)) for each in schema["anyOf"]]
        yield from min(found, key=len)
    elif isinstance(value, dict) and "properties" in schema:
        for key, item in value.items():
            if key not in schema["properties"]:
                yield f"{place}/{key}"
            else:
                yield from find_unknown_keys(document, schema["properties"][key], item, f"{place}/{key}")
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from find_unknown_keys(document, schema["items"], item, f"{place}/{number}")


def check_answer(document: dict[str, Any], method: str, path: str, answer: Any) -> None:
    assert answer.status < 300, f"{method} {path}: {answer.text}"
    schema = find_schema(document, method, path)
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
    assert list(find_unknown_keys(document, schema, answer.json())) == []


@pytest.mark.parametrize("path", [*ASKED, *OF_FLEET])
def test_every_key_of_an_answer_is_described(served: ServedFleet, document: dict[str, Any], path: str) -> None:
    served.client().post("/api/v1/schedules/triage/issues/hints", {"every": "1m", "ttl": "1h", "reason": "watch"})

    check_answer(document, "GET", path, served.client().get(f"{API_PREFIX}{path}"))


def test_every_key_of_the_answers_about_agents_is_described(history: ServedHistory, document: dict[str, Any]) -> None:
    client = history.client
    runs = [each["id"] for each in client.get("/api/v1/runs").json()["items"]]
    agent_run = client.get("/api/v1/runs?schedule=tokens").json()["items"][0]["id"]
    of_runs = [f"/runs/{each}" for each in (*runs[:2], agent_run)]

    for path in (*ASKED, *of_runs, f"/runs/{agent_run}/answer", f"/runs/{agent_run}/steps"):
        check_answer(document, "GET", path, client.get(f"{API_PREFIX}{path}"))
    tested = client.post("/api/v1/rules/test", {"schedule": "queue"})
    check_answer(document, "POST", "/rules/test", tested)
    check_answer(
        document, "GET", "/schedules/queue/default/explain", client.get("/api/v1/schedules/queue/default/explain")
    )


def test_every_key_of_the_answers_to_changes_is_described(served: ServedFleet, document: dict[str, Any]) -> None:
    for method, path, body in CHANGES:
        check_answer(document, method, path, served.client().send(method, f"{API_PREFIX}{path}", body))


def test_every_route_that_answers_json_has_a_schema_and_an_example_that_fits(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                content = response.get("content", {}).get(JSON)
                if not status.startswith("2") or content is None or path.startswith(NOT_OURS):
                    continue
                assert content.get("schema") or "/log" in path, f"{method} {path}"
                if "example" in content:
                    schema = {**content["schema"], "components": document["components"]}
                    jsonschema.validate(content["example"], schema)


def test_every_problem_has_an_example_that_fits(document: dict[str, Any]) -> None:
    problem = document["components"]["schemas"]["ProblemDocument"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                content = response.get("content", {}).get(MEDIA_TYPE)
                if content is not None:
                    jsonschema.validate(content["example"], {**problem, "components": document["components"]})
                    assert content["schema"] == {"$ref": "#/components/schemas/ProblemDocument"}
                    assert content["example"]["status"] == int(status)


def test_every_problem_code_has_a_page(served: ServedFleet) -> None:
    pages = {code: served.client().get(f"/problems/{code}") for code in Code}

    assert {page.status for page in pages.values()} == {200}
    assert all(code.info.title.split("'")[0] in page.text for code, page in pages.items() if '"' not in code.info.title)
