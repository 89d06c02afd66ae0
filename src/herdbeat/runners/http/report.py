"""An answer as an outcome: its status decides, its body is kept, and what else is worth knowing is said."""

from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.durations import format_duration
from herdbeat.runners.http.patience import retry_after
from herdbeat.runners.http.words import as_json, as_text, first_words
from herdbeat.runners.log import RunLog, Stream
from herdbeat.runners.settings import RunnerSettings

if TYPE_CHECKING:
    from herdbeat.runners.http.client import Answer

ERROR_LENGTH = 500
_LOGGED = ("Content-Type", "Content-Length", "Retry-After", "ETag", "X-Request-Id")


def report(answer: "Answer", settings: RunnerSettings, words: RunLog, now: datetime) -> Outcome:
    """2xx is a success, also when only the beginning of a long body was read: the status had decided by then.

    JSON is stored with the run. What cannot be, and the answer of a failure, goes into the run's log.
    """
    content_type = answer.headers.get("Content-Type", "")
    is_short = not answer.is_truncated and len(answer.body) <= settings.response_cap
    data = as_json(answer.body, content_type) if is_short else None
    text = as_text(answer.body, content_type)
    succeeded = 200 <= answer.status < 300
    if not succeeded or (text and data is None):
        _log(answer, text, words)
    return Outcome(
        status=RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED,
        code=answer.status,
        error="" if succeeded else _error(answer, data, text),
        output=text[: settings.output_cap],
        response=data,
        summary=" ".join(_facts(answer, settings, now)),
    )


def _error(answer: "Answer", data: object, text: str) -> str:
    line = f"{answer.status} {answer.reason or _phrase(answer.status)}".strip()
    if 300 <= answer.status < 400 and "Location" in answer.headers:
        return f"{line}: redirects are followed for GET and HEAD only. Write the url that is meant."
    told = first_words(data, text)
    return (f"{line}: {told}" if told else line)[:ERROR_LENGTH]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _facts(answer: "Answer", settings: RunnerSettings, now: datetime) -> Iterator[str]:
    if answer.is_truncated:
        yield f"The body is truncated: its first {len(answer.body)} bytes were read."
    elif len(answer.body) > settings.response_cap:
        most = settings.response_cap
        yield f"The body is only in the log: it has {len(answer.body)} bytes, and at most {most} are stored as JSON."
    wait = retry_after(answer.headers.get("Retry-After"), now)
    if wait is not None:
        yield f"It asks to be left alone for {format_duration(wait)} (Retry-After)."
    if answer.redirects:
        yield f"It was redirected {'once' if answer.redirects == 1 else f'{answer.redirects} times'}."


def _log(answer: "Answer", text: str, words: RunLog) -> None:
    headers = (f"{name}: {answer.headers[name]}" for name in _LOGGED if name in answer.headers)
    words.note(" · ".join([f"HTTP {answer.status} {answer.reason}".strip(), *headers]))
    words.write(Stream.OUT, text)
