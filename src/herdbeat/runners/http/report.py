"""An answer as an outcome: its status decides, its body is kept, and what else is worth knowing is said."""

from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.durations import format_duration
from herdbeat.runners.http.patience import parse_retry_after
from herdbeat.runners.http.words import decode_text, extract_error_line, parse_json
from herdbeat.runners.log import LogStream, RunLog
from herdbeat.runners.settings import RunnerSettings

if TYPE_CHECKING:
    from herdbeat.runners.http.client import HttpResponse

MAX_ERROR_CHARS = 500
_LOGGED_HEADERS = ("Content-Type", "Content-Length", "Retry-After", "ETag", "X-Request-Id")


def response_to_outcome(response: "HttpResponse", settings: RunnerSettings, run_log: RunLog, now: datetime) -> Outcome:
    """2xx is a success, also when only the beginning of a long body was read: the status had decided by then.

    JSON is stored with the run. What cannot be, and the answer of a failure, goes into the run's log.
    """
    content_type = response.headers.get("Content-Type", "")
    is_short = not response.is_truncated and len(response.body) <= settings.response_cap
    data = parse_json(response.body, content_type) if is_short else None
    text = decode_text(response.body, content_type)
    succeeded = 200 <= response.status < 300
    if not succeeded or (text and data is None):
        _log_response(response, text, run_log)
    return Outcome(
        status=RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED,
        code=response.status,
        error="" if succeeded else _describe_failure(response, data, text),
        output=text[: settings.output_cap],
        response=data,
        summary=" ".join(_summary_sentences(response, settings, now)),
    )


def _describe_failure(response: "HttpResponse", data: object, text: str) -> str:
    line = f"{response.status} {response.reason or _status_phrase(response.status)}".strip()
    if 300 <= response.status < 400 and "Location" in response.headers:
        return f"{line}: redirects are followed for GET and HEAD only. Write the url that is meant."
    detail = extract_error_line(data, text)
    return (f"{line}: {detail}" if detail else line)[:MAX_ERROR_CHARS]


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _summary_sentences(response: "HttpResponse", settings: RunnerSettings, now: datetime) -> Iterator[str]:
    if response.is_truncated:
        yield f"The body is truncated: its first {len(response.body)} bytes were read."
    elif len(response.body) > settings.response_cap:
        cap = settings.response_cap
        yield f"The body is only in the log: it has {len(response.body)} bytes, and at most {cap} are stored as JSON."
    wait = parse_retry_after(response.headers.get("Retry-After"), now)
    if wait is not None:
        yield f"It asks to be left alone for {format_duration(wait)} (Retry-After)."
    if response.redirects:
        yield f"It was redirected {'once' if response.redirects == 1 else f'{response.redirects} times'}."


def _log_response(response: "HttpResponse", text: str, run_log: RunLog) -> None:
    headers = (f"{name}: {response.headers[name]}" for name in _LOGGED_HEADERS if name in response.headers)
    run_log.note(" · ".join([f"HTTP {response.status} {response.reason}".strip(), *headers]))
    run_log.write(LogStream.OUT, text)
