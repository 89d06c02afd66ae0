"""The OpenAPI document, and everything it allows asked of the application: no failure of ours, no broken promise."""

from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.transport import Response
from tests.server.conftest import ServedFleet

from herdbeat.error_codes import Code
from herdbeat.server.app import API_PREFIX

NOT_ASKED = ("/api/v1/events", "/healthz")
"""A stream has no end, and no node runs here: both have their own tests."""


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


def test_the_document_lists_every_problem_code(described: dict[str, Any]) -> None:
    assert set(described["components"]["schemas"]["Code"]["enum"]) == set(Code)


def test_whatever_is_asked_the_answer_keeps_the_description(served: ServedFleet) -> None:
    """Hypothesis fills in every parameter and body that the description allows, and some that it does not."""
    schema = schemathesis.openapi.from_dict(served.client().get(f"{API_PREFIX}/openapi.json").json())
    client = served.client()
    asked: set[str] = set()

    for result in schema.get_all_operations():
        operation: Any = cast("Any", result).ok()
        if operation.path in NOT_ASKED:
            continue

        @settings(
            max_examples=8,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            answer = send_case(client, case)
            asked.add(f"{case.method} {case.path}")
            case.validate_response(
                answer,
                checks=[
                    not_a_server_error,
                    status_code_conformance,
                    content_type_conformance,
                    response_schema_conformance,
                ],
            )

        ask()

    assert len(asked) > 35


def send_case(client: Any, case: Any) -> Any:
    """Send it to the application in this process, and return what schemathesis validates."""
    if "follow" in (case.query or {}):
        case.query.pop("follow")  # a stream that is followed has no end: it has its own tests
    request = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1:3232")).prepare()
    body = request.body if isinstance(request.body, bytes) else str(request.body or "").encode()
    headers = {name: value if isinstance(value, str) else value.decode() for name, value in request.headers.items()}
    answer = client.send_raw(
        request.method,
        request.path_url,
        body,
        [("host", client.host), ("origin", "http://127.0.0.1:3232"), *headers.items()],
    )
    return Response(
        status_code=answer.status,
        headers={name: [value] for name, value in answer.headers.items()},
        content=answer.body,
        request=request,
        elapsed=0.0,
        verify=False,
    )
