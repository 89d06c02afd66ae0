"""Problem documents (RFC 9457): every error that leaves the server, with the code and the hint of the CLI."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from herdbeat.error_codes import Code
from herdbeat.errors import (
    ConfigError,
    HerdbeatError,
    InvalidSpec,
    NotFound,
    SourceLocation,
    truncate_for_message,
)
from herdbeat.redaction import is_secret_name, redact
from herdbeat.service.commands.base import ManagedByConfig

MEDIA_TYPE = "application/problem+json"


class ProblemDetail(BaseModel):
    """One fault of a request or of a file."""

    pointer: str = Field(description="JSON Pointer to the faulty value", examples=["/every"])
    detail: str = Field(examples=["decimals are not supported"])
    value: str | None = Field(default=None, description="The value, if it is a single one", examples=["5.5m"])


class ProblemDocument(BaseModel):
    """RFC 9457. `type` is a page of this server; `code` is the stable word for programs; `hint` says what to do."""

    type: str = Field(examples=["/problems/not_found"])
    title: str
    status: int
    detail: str
    instance: str
    code: Code
    hint: str = ""
    errors: list[ProblemDetail] = []
    request_id: str = ""
    file: str | None = Field(None, description="The file that the problem is in, if it is in one")
    line: int | None = None


class HttpError(HerdbeatError):
    """An error of HTTP itself, with its status and headers."""

    def __init__(
        self, status: int, code: Code, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint or code.info.fix)
        self.status = status
        self.problem_code = code
        self.headers = dict(headers or {})


def build_problem(
    request: Request,
    status: int,
    code: Code,
    detail: str,
    hint: str = "",
    errors: Sequence[ProblemDetail] = (),
    where: SourceLocation | None = None,
) -> JSONResponse:
    base = request.scope.get("root_path", "")
    document = ProblemDocument(
        type=f"{base}/problems/{code}",
        title=code.info.title,
        status=status,
        detail=redact(detail),
        instance=request.url.path,
        code=code,
        hint=redact(hint),
        errors=list(errors),
        request_id=getattr(request.state, "request_id", ""),
        file=None if where is None else where.file,
        line=None if where is None else where.line,
    )
    return JSONResponse(document.model_dump(mode="json"), status_code=status, media_type=MEDIA_TYPE)


def add_problem_handlers(app: FastAPI, crash_headers: Mapping[str, str]) -> None:
    """Answer every error with a problem. That of a bug passes no middleware, so it gets these headers here."""

    async def handle_crash(request: Request, error: Exception) -> Response:
        answer = _describe_crash(request, error)
        answer.headers.update(crash_headers)
        return answer

    app.add_exception_handler(HerdbeatError, _handle_herdbeat_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(Exception, handle_crash)
    app.add_api_route("/problems/{code}", show_problem_page, include_in_schema=False, response_model=None)


async def _handle_herdbeat_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HerdbeatError)
    if isinstance(error, HttpError):
        answer = build_problem(request, error.status, error.problem_code, error.message, error.hint)
        answer.headers.update(error.headers)
        return answer
    if isinstance(error, NotFound) and getattr(request.state, "sees_one_target", False):
        # The message may name the closest of all schedules, and this caller is to know none but its own.
        detail = "There is nothing of this name that these credentials may look at."
        return build_problem(
            request, error.http_status, error.code, detail, "List what there is: GET /api/v1/schedules"
        )
    errors: list[ProblemDetail] = []
    if isinstance(error, ConfigError):
        errors = [
            ProblemDetail(pointer=each.where.pointer if each.where else "", detail=redact(each.message))
            for each in error.problems
        ]
    code = error.code
    if isinstance(error, InvalidSpec):
        code, value = error.problem.code, truncate_for_message(redact(error.value)) or None
        errors = [ProblemDetail(pointer=error.pointer, detail=redact(error.message), value=value)]
    answer = build_problem(request, error.http_status, code, error.message, error.hint, errors, _find_place(error))
    if error.http_status == 503:
        answer.headers["Retry-After"] = "5"
    return answer


def _find_place(error: HerdbeatError) -> SourceLocation | None:
    return error.defined_at if isinstance(error, ManagedByConfig) else error.where


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(each["loc"] == ("body",) and each["input"] for each in found) and not _declares_json(request):
        code = Code.UNSUPPORTED_MEDIA_TYPE
        given = truncate_for_message(request.headers.get("content-type", "none"))
        return build_problem(request, 415, code, f"The Content-Type of the body is {given}.", code.info.fix)
    errors = [_describe_fault(each) for each in found]
    where = f"{errors[0].pointer}: " if errors and errors[0].pointer else ""
    detail = f"{where}{errors[0].detail}" if errors else "The request is invalid."
    hint = "Compare the request with the description in /api/v1/openapi.json."
    return build_problem(request, 422, Code.INVALID_VALUE, detail, hint, errors)


def _declares_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _describe_fault(fault: Mapping[str, Any]) -> ProblemDetail:
    if fault["type"] == "json_invalid":
        _, character = fault["loc"]
        reason = fault["ctx"]["error"]
        return ProblemDetail(pointer="", detail=f"The body is not JSON: {reason} at character {character}.")
    keys = [str(part) for part in fault["loc"][1:]]
    if not keys:
        return ProblemDetail(pointer="", detail="The body is not a JSON object.")
    given = fault["input"]
    is_shown = isinstance(given, str | int | float) and fault["type"] != "missing" and not is_secret_name(keys[-1])
    return ProblemDetail(
        pointer="/" + "/".join(keys),
        detail=str(fault["msg"]),
        value=truncate_for_message(redact(str(given))) if is_shown else None,
    )


_HTTP_CODES = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED, 413: Code.TOO_LARGE, 429: Code.TOO_MANY_REQUESTS}


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, Code.USAGE)
    detail = f"There is no {request.method} {request.url.path}." if error.status_code in (404, 405) else error.detail
    if error.status_code == 400:
        detail = "The body cannot be read as JSON in UTF-8, or is nested too deeply."
    hint = f"The paths are listed at {request.scope.get('root_path', '')}/api/docs." if code is Code.NOT_FOUND else ""
    answer = build_problem(request, error.status_code, code, str(detail), hint or code.info.fix)
    answer.headers.update(error.headers or {})
    if allowed := _find_methods(request) if error.status_code == 405 else []:
        answer.headers["Allow"] = ", ".join(allowed)
    return answer


def _find_methods(request: Request) -> list[str]:
    """Return the methods of a path. Each has a route of its own, and the one that refused knows only its own."""
    found = [
        method
        for method in _METHODS
        if any(each.matches({**request.scope, "method": method})[0] is Match.FULL for each in request.app.routes)
    ]
    return ["HEAD", *found] if "GET" in found else found


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def _describe_crash(request: Request, error: Exception) -> Response:
    """A bug of ours. The log has its traceback; the caller gets an id to find it by, and no internals."""
    return build_problem(
        request, 500, Code.SCHEDULER, f"The server failed ({type(error).__name__}).", "Look into the server's log."
    )


def show_problem_page(code: str) -> HTMLResponse:
    """The page that `type` names: what a code means, and how to fix it."""
    if code not in set(Code):
        raise NotFound(f'There is no problem code "{code[:40]}".', hint="The reference lists every code.")
    info = Code(code).info
    parts: Sequence[tuple[str, str]] = (("Cause", info.cause), ("Fix", info.fix))
    body = "".join(f"<h2>{title}</h2><p>{escape(text)}</p>" for title, text in parts)
    title = escape(info.title)
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
    return HTMLResponse(f"{page}<p><code>{escape(code)}</code></p>{body}</html>")


def build_problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of error answers, for the OpenAPI document.

    By reference: given the model, FastAPI compiles it anew for each status of each route, which took half of the time
    in which a server starts.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_COMPONENTS}{ProblemDocument.__name__}"}}}
    return {status: {"content": content, "description": _DESCRIPTIONS[status]} for status in statuses}


def build_problem_schemas() -> dict[str, Any]:
    """Return the schemas to which `build_problem_responses` refers, by name."""
    schema = ProblemDocument.model_json_schema(ref_template=f"{_COMPONENTS}{{model}}")
    return {**schema.pop("$defs"), ProblemDocument.__name__: schema}


_COMPONENTS = "#/components/schemas/"


_DESCRIPTIONS = {
    400: "The request makes no sense",
    401: "There are no valid credentials",
    403: "The credentials do not allow this, or the request comes from another site",
    404: "There is no such object",
    405: "The path does not have this method",
    406: "The format is unknown",
    409: "The object does not allow this now",
    412: "The object has changed since it was read",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    422: "A value is invalid",
    429: "There were too many failed logins, or there are too many streams or large requests",
    500: "The server failed",
    503: "The ledger or the scheduler does not answer",
}

COMMON_RESPONSES = build_problem_responses(*_DESCRIPTIONS)
"""The error answers that every route may give."""
