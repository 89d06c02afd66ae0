"""What HTTP itself asks of every route: methods, types and shapes of bodies, and what a refusal says about them."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.server.conftest import ServedFleet
from tests.support.asgi_client import AsgiClient, AsgiResponse

ISSUES = "/api/v1/schedules/triage/issues"


def send_body(client: AsgiClient, path: str, content: bytes, content_type: str | None) -> AsgiResponse:
    headers = [("host", client.host), *client.headers.items(), ("content-length", str(len(content)))]
    if content_type is not None:
        headers.append(("content-type", content_type))
    return client.send_raw("POST", path, content, headers)


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/status", "/api/v1/runs", "/metrics", ISSUES])
def test_a_monitor_that_asks_by_head_gets_the_headers_of_get(served: ServedFleet, path: str) -> None:
    """It got 405, from every route."""
    client = served.client()

    got, head = client.get(path), client.send("HEAD", path)

    assert (head.status, head.body) == (got.status, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


def test_head_of_the_event_stream_ends(served: ServedFleet) -> None:
    answer = served.client().send("HEAD", "/api/v1/events")

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/v1/schedules", {"HEAD", "GET", "POST"}),
        ("PUT", ISSUES, {"HEAD", "GET", "PATCH", "DELETE"}),
        ("GET", f"{ISSUES}/pause", {"POST"}),
        ("HEAD", "/api/v1/bulk", {"POST"}),
    ],
)
def test_a_wrong_method_is_told_every_method_of_the_path(
    served: ServedFleet, method: str, path: str, allowed: set[str]
) -> None:
    """Allow had only those of the first route of the path: of schedules it said GET, and not POST."""
    answer = served.client().send(method, path)

    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("prefix", ["/ops", ""])
def test_a_path_with_a_slash_too_many_leads_to_the_public_address_of_a_proxy(
    serve: Callable[[str], ServedFleet], prefix: str
) -> None:
    """Location named the address behind the proxy, and left the base path out if the proxy removes it."""
    served = serve('server: { public_url: "https://example.com/ops", base_path: /ops }')
    client = served.bearer("read")

    answer = client.get(f"{prefix}/api/v1/runs/?limit=1")
    foreign = client.get(f"{prefix}//example.net/login/")

    assert (answer.status, answer.headers["location"]) == (307, "/ops/api/v1/runs?limit=1")
    assert not foreign.headers.get("location", "").startswith("//")


def test_an_unknown_path_is_told_where_the_paths_are(served: ServedFleet) -> None:
    """The hint was: Use the suggested name. Nothing was suggested."""
    problem = served.client().get("/api/v1/shedules").json()

    assert (problem["code"], problem["hint"]) == ("not_found", "The paths are listed at /api/docs.")


@pytest.mark.parametrize("content_type", [None, "application/x-www-form-urlencoded", "text/plain"])
def test_a_body_that_curl_sends_as_a_form_is_told_to_be_declared_as_json(
    served: ServedFleet, content_type: str | None
) -> None:
    """It got 422 with "Input should be a valid dictionary or object to extract fields from"."""
    answer = send_body(served.client(), f"{ISSUES}/pause", b'{"for": "1h"}', content_type)

    problem = answer.json()
    assert (answer.status, problem["code"]) == (415, "unsupported_media_type")
    assert "Content-Type: application/json" in problem["hint"]
    assert served.client().get(problem["type"]).status == 200


@pytest.mark.parametrize(
    ("content", "status", "detail"),
    [
        (b'{"for": ', 422, "The body is not JSON: Expecting value at character 8."),
        (b"[]", 422, "The body is not a JSON object."),
        (b'{"reason": "\xe4"}', 400, "The body cannot be read as JSON in UTF-8, or is nested too deeply."),
    ],
)
def test_a_body_that_is_no_json_object_is_said_to_be_none(
    served: ServedFleet, content: bytes, status: int, detail: str
) -> None:
    """The first was "/8: JSON decode error", as if there were a field of that name."""
    answer = send_body(served.client(), f"{ISSUES}/pause", content, "application/json")

    assert (answer.status, answer.json()["detail"]) == (status, detail)


@pytest.mark.parametrize("action", ["pause", "resume", "enable", "disable", "skip", "reset", "runs"])
def test_an_action_needs_no_body(served: ServedFleet, action: str) -> None:
    """`curl -X POST …/resume` was told that a field is required, and not which."""
    client = served.client()

    answer = client.send_raw("POST", f"{ISSUES}/{action}", b"", [("host", client.host), *client.headers.items()])

    assert answer.status == (202 if action == "runs" else 200), answer.text


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        (f"{ISSUES}/pause", {"for": "5.5m"}, "/for"),
        (f"{ISSUES}/hints", {"every": "5.5m"}, "/every"),
        (f"{ISSUES}/hints", {"every": "5m", "ttl": "5.5m"}, "/ttl"),
        ("/api/v1/pauses", {"select": {"all": True}, "from": "2026-03-27T00:00:00Z", "for": "5.5m"}, "/for"),
        ("/api/v1/notifications/snooze", {"for": "5.5m"}, "/for"),
        ("/api/v1/bulk", {"select": {"all": True}, "action": "pause", "args": {"for": "5.5m"}}, "/args/for"),
    ],
)
def test_a_wrong_duration_is_named_with_its_field_and_value(
    served: ServedFleet, path: str, body: dict[str, Any], pointer: str
) -> None:
    """`errors` was empty: a form could not say which of its fields is wrong."""
    answer = served.client().post(path, body)

    problem = answer.json()
    assert (answer.status, problem["code"]) == (422, "invalid_interval")
    assert [(each["pointer"], each["value"]) for each in problem["errors"]] == [(pointer, "5.5m")]


def test_a_wrong_value_of_a_query_or_a_body_is_repeated_unless_it_is_secret(served: ServedFleet) -> None:
    client = served.client()

    in_query = client.get("/api/v1/runs?limit=x").json()["errors"]
    in_body = client.post(f"{ISSUES}/skip", {"count": -1}).json()["errors"]
    secret = client.post("/api/v1/session", {"token": "x" * 300}).json()["errors"]

    assert [(each["pointer"], each["value"]) for each in in_query + in_body] == [("/limit", "x"), ("/count", "-1")]
    assert [(each["pointer"], each["value"]) for each in secret] == [("/token", None)]


def test_a_token_that_may_not_is_told_which_scope_to_create(served: ServedFleet) -> None:
    """It was told to get the scope "control": there is none for a token."""
    refused = served.bearer("read").post(f"{ISSUES}/pause", {})

    assert (refused.status, refused.json()["hint"]) == (403, 'The request needs the scope "operate".')


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/preview", {"expression": "5m"}, 200),
        ("/api/v1/rules/test", {"schedule": "triage/issues"}, 400),  # it has no rules
    ],
)
def test_a_question_from_this_machine_needs_neither_token_nor_origin(
    served: ServedFleet, path: str, body: dict[str, Any], status: int
) -> None:
    """They are sent by POST, and change nothing; they were refused like changes."""
    local, elsewhere = AsgiClient(app=served.app), AsgiClient(app=served.app, peer="192.0.2.7")

    assert local.post(path, body).status == status
    assert elsewhere.post(path, body).status == 401
