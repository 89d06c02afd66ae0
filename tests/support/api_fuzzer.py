"""Sends a server every request that its OpenAPI document allows, and some that it does not."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

NOT_ASKED = ("/api/v1/events", "/healthz")
"""A stream has no end, and not every test has a node: both have their own tests."""

SendCase = Callable[[Any], Any]
"""Sends a case, and returns the answer as schemathesis validates it."""


def send_all_requests(
    document: dict[str, Any],
    send: SendCase,
    examples: int,
    *,
    is_random: bool = False,
    known: Mapping[str, str] | None = None,
) -> set[str]:
    """Return the routes that were asked. An answer that fails, or is not as the document says, raises.

    `known` are names to ask for in the place of random ones, by the parameters of the paths.
    """
    asked: set[str] = set()
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation: Any = cast("Any", result).ok()
        if operation.path in NOT_ASKED:
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=not is_random,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            if "follow" in (case.query or {}):
                case.query.pop("follow")  # a log that is followed has no end
            for name in (known or {}).keys() & (case.path_parameters or {}).keys():
                case.path_parameters[name] = (known or {})[name]
            asked.add(f"{case.method} {case.path}")
            case.validate_response(
                send(case),
                checks=[
                    not_a_server_error,
                    status_code_conformance,
                    content_type_conformance,
                    response_schema_conformance,
                ],
            )

        ask()
    return asked
