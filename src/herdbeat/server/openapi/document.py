"""Completes the OpenAPI document: the schema and an example of every answer, and of every problem."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from herdbeat.error_codes import Code
from herdbeat.server.auth import COOKIE_NAME
from herdbeat.server.openapi.answers import ANSWERS
from herdbeat.server.openapi.schemas import OBJECTS
from herdbeat.server.problems import MEDIA_TYPE, build_problem_schemas

JSON = "application/json"
MAX_DEPTH = 8
_PROBLEM_EXAMPLES = {
    400: Code.USAGE,
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
    406: Code.NOT_ACCEPTABLE,
    409: Code.MANAGED_BY_CONFIG,
    412: Code.STALE_VERSION,
    413: Code.TOO_LARGE,
    415: Code.UNSUPPORTED_MEDIA_TYPE,
    422: Code.INVALID_INTERVAL,
    429: Code.TOO_MANY_REQUESTS,
    500: Code.SCHEDULER,
    503: Code.STORE_UNAVAILABLE,
}


def complete_document(app: FastAPI) -> None:
    """Make `app.openapi()` return the whole document. It is built once, when somebody first asks for it."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = add_answers(build())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def name_operation(route: APIRoute) -> str:
    """Return the name that a generated client gives to a request: `schedules_pause`, not one made of its path."""
    return f"{route.tags[0]}_{route.name}" if route.tags else route.name


def add_answers(document: dict[str, Any]) -> dict[str, Any]:
    document["components"]["schemas"] |= OBJECTS | build_problem_schemas()
    document["components"]["securitySchemes"] = _CREDENTIALS
    document["security"] = [{"token": []}, {"session": []}, {}]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _describe_answer(document, operation, ANSWERS.get((method, path)))
            _describe_problems(path, operation)
            if path.startswith(_OPEN_PATHS):
                operation["security"] = []
    return document


_OPEN_PATHS = ("/healthz", "/readyz", "/hooks/", "/webhooks/", "/chat/", "/mcp")
"""Anybody may ask the first two; the others have credentials of their own, such as a signature."""

_CREDENTIALS = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "Create one: herdbeat token create NAME --scope operate. On this machine none may be needed.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE_NAME,
        "description": "POST /api/v1/session sets it. A change needs X-CSRF-Token, too.",
    },
}


def _describe_answer(document: dict[str, Any], operation: dict[str, Any], schema: dict[str, Any] | None) -> None:
    for status, response in operation["responses"].items():
        content = response.get("content", {})
        if status.startswith("2") and schema is not None and JSON in content:
            content[JSON] = {"schema": schema, "example": build_example(document, schema)}


def _describe_problems(path: str, operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        content = response.get("content", {}).get(MEDIA_TYPE)
        if content is None or not status.isdecimal() or int(status) not in _PROBLEM_EXAMPLES:
            continue
        code = _PROBLEM_EXAMPLES[int(status)]
        content["example"] = {
            "type": f"/problems/{code}",
            "title": code.info.title,
            "status": int(status),
            "detail": code.info.cause,
            "instance": path,
            "code": str(code),
            "hint": code.info.fix,
            "errors": [_FIELD_EXAMPLE] if code is Code.INVALID_INTERVAL else [],
            "request_id": "5370b6ba0bc947ccb579ef0fb587c4d6",
            "file": "herdbeat.yaml" if code is Code.MANAGED_BY_CONFIG else None,
            "line": 8 if code is Code.MANAGED_BY_CONFIG else None,
        }


def build_example(document: dict[str, Any], schema: dict[str, Any], depth: int = 0) -> Any:
    """Return a value that the schema allows, made of the examples of its parts."""
    if "$ref" in schema:
        return build_example(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth)
    given = schema.get("examples") or schema.get("enum")
    if given:
        return given[0]
    if "anyOf" in schema:
        return build_example(document, schema["anyOf"][0], depth)
    if schema.get("type") == "object":
        properties = schema.get("properties", {}) if depth < MAX_DEPTH else {}
        return {name: build_example(document, each, depth + 1) for name, each in properties.items()}
    if schema.get("type") == "array":
        return [build_example(document, schema["items"], depth + 1)] if schema.get("items") else []
    if schema.get("format") == "date-time":
        return _TIME_EXAMPLE
    return _PLAIN_EXAMPLES.get(schema.get("type", ""))


_FIELD_EXAMPLE = {"pointer": "/every", "detail": '"5.5m": decimals are not supported.', "value": "5.5m"}
_TIME_EXAMPLE = "2026-03-26T13:04:00Z"
_PLAIN_EXAMPLES = {"integer": 1, "number": 1.5, "boolean": True, "string": ""}
