"""Converts responses to outcomes, and failed calls to sentences that say what happened and how to fix it."""

import errno
import json
import math
import re
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.durations import format_duration
from herdbeat.errors import ExpressionError
from herdbeat.rules.evaluate import evaluate
from herdbeat.rules.expression import parse_expression
from herdbeat.runners.http.request import TwoCredentials
from herdbeat.runners.run_log import LogStream, RunLog
from herdbeat.runners.settings import RunnerSettings

if TYPE_CHECKING:
    from herdbeat.runners.http.client import HttpResponse


_NO_ROUTE_ERRNOS = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL})


class CallFailed(Exception):
    """The call ended without a complete response. Its text is the error of the run."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


def explain_broken_response(error: Exception, status: int, received: int) -> CallFailed:
    """Return the failure for a response that began but did not end. The part that arrived is not used."""
    if _is_encoding_error(error):
        detail = "The response body cannot be decoded: it does not match its Content-Encoding header."
    else:
        detail = f"The connection was lost after {received} bytes of the response body."
    return CallFailed(f"{detail} Check the endpoint and any proxy in front of it.", status)


def explain_unsendable(error: ValueError, host: str) -> CallFailed:
    """Return the failure for a request that HTTP does not allow. No text has a URL or a header: both may be secret."""
    if isinstance(error, TwoCredentials):
        return CallFailed("The url contains a user name and the headers contain Authorization. Remove one of them.")
    return CallFailed(
        f"The request to {host} is invalid. Check url and headers for characters that HTTP does not allow."
    )


def explain_lookup_error(error: OSError, host: str) -> CallFailed:
    why = (error.strerror or "no answer").rstrip(".")
    return CallFailed(f'The host name "{host}" cannot be resolved: {why}. Correct url, or check DNS on this machine.')


def explain_connect_error(error: OSError, host: str, port: int | None) -> CallFailed:
    return CallFailed(_describe_connect_error(error, host, port))


def explain_missing_response(error: Exception, host: str) -> CallFailed:
    """Return the failure for a request that was sent, and got no response that could be read."""
    if isinstance(error, OSError):
        return CallFailed(f"{host} closed the connection without a response. Check the log of the endpoint.")
    if _is_encoding_error(error):
        return CallFailed(
            f"{host} uses an unsupported Content-Encoding. Configure the endpoint to use gzip, deflate or none."
        )
    reason = _first_line(getattr(error, "message", ""))
    return CallFailed(f"{host} did not send an HTTP response: {reason}. Check the port.")


def _describe_connect_error(error: OSError, host: str, port: int | None) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return (
                f"The certificate of {host} is not trusted: {_first_line(error.verify_message).rstrip('.')}."
                " Renew it, or set SSL_CERT_FILE to the certificate file of its authority."
            )
        case ssl.SSLError():
            return f"TLS handshake with {host} failed: {_tls_reason(error)}. Check that the port serves https."
        case _ if error.errno == errno.ECONNREFUSED:
            return f"Nothing listens on port {port} of {host}. Start the service, or correct url."
        case _ if error.errno in _NO_ROUTE_ERRNOS:
            return f"There is no route to {host}. Check the network of this machine."
        case _:
            return f"{host} could not be reached: {error.strerror or error}. Check the network."


def _tls_reason(error: OSError) -> str:
    found = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(found).lower().replace("_", " ")


def _is_encoding_error(error: Exception) -> bool:
    return "ontent-encoding" in f"{error} {error.__cause__}"


def _first_line(text: str) -> str:
    return next((line.strip().rstrip(":") for line in text.splitlines() if line.strip()), "")[:200]


MAX_RETRY_AFTER = timedelta(days=1)
"""Longer times are reported as this one: the header is untrusted."""


def parse_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """Return the time that a Retry-After header requests; None if it is missing or invalid."""
    if not text:
        return None
    seconds = _parse_seconds(text.strip(), now)
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return None
    return min(timedelta(seconds=math.ceil(min(seconds, MAX_RETRY_AFTER.total_seconds()))), MAX_RETRY_AFTER)


def _parse_seconds(text: str, now: datetime) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return (at - now).total_seconds() if at.tzinfo is not None else None


_CHARSET_PATTERN = re.compile(r"charset\s*=\s*\"?([a-z0-9_.:-]+)", re.IGNORECASE)
_KNOWN_CHARSETS = frozenset(
    {"iso-8859-1", "iso-8859-15", "latin-1", "windows-1252", "utf-16", "utf-16le", "utf-16be", "shift_jis", "euc-jp"}
    | {"gb2312", "gbk", "gb18030", "big5", "euc-kr", "koi8-r", "windows-1250", "windows-1251", "iso-8859-2"}
)
"""Python supports many more, but some of them (punycode) take minutes to decode a megabyte."""

_ERROR_KEYS = ("detail", "message", "error", "title", "reason")
"""The keys under which error responses commonly have their message."""


def decode_text(body: bytes, content_type: str) -> str:
    """Return the body as text, in the encoding of its header if that is a known one, else UTF-8.

    Invalid bytes are replaced, and so is NUL, which databases do not accept.
    """
    named = _CHARSET_PATTERN.search(content_type)
    charset = named[1].lower() if named else ""
    return body.decode(charset if charset in _KNOWN_CHARSETS else "utf-8", "replace").replace("\0", "\ufffd")


def parse_json(body: bytes, content_type: str) -> object:
    """Return the JSON value of the body; None if it has none. Without a JSON header, only an object or a list counts.

    NaN, infinities and numbers that overflow to infinity are rejected: a ledger with one could not be read again.
    """
    start = body[:64].lstrip()[:1]
    if not start or ("json" not in content_type.lower() and start not in (b"{", b"[")):
        return None
    try:
        data: object = json.loads(body)
        json.dumps(data, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return data


def extract_error_line(data: object, text: str) -> str:
    """Return the error message in the body as one line; empty if the body is markup or has none."""
    if isinstance(data, dict):
        detail = next((data[key] for key in _ERROR_KEYS if isinstance(data.get(key), str)), "")
        return _first_nonblank_line(str(detail))
    line = _first_nonblank_line(text)
    return "" if data is not None or line.startswith("<") else line


def _first_nonblank_line(text: str) -> str:
    return next((" ".join(line.split()) for line in text[:4096].splitlines() if line.strip()), "")


MAX_ERROR_CHARS = 500
OK_ROOTS = ("response", "run")
"""What the `ok` of an endpoint may read."""

_LOGGED_HEADERS = ("Content-Type", "Content-Length", "Retry-After", "ETag", "X-Request-Id")


def response_to_outcome(response: "HttpResponse", settings: RunnerSettings, run_log: RunLog, now: datetime) -> Outcome:
    """Return the outcome. A 2xx status means success, even if the body was cut off.

    A JSON body is stored with the run. Other bodies, and those of failures, go to the run's log.
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
        not_before=_find_floor(response, now),
        is_response_too_large=not is_short,
    )


def _find_floor(response: "HttpResponse", now: datetime) -> datetime | None:
    """Return until when a server that is overloaded, or limits its callers, asks to be left alone."""
    if response.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return None
    wait = parse_retry_after(response.headers.get("Retry-After"), now)
    return None if wait is None else now + wait


def check_ok(outcome: Outcome, expression: str) -> Outcome:
    """Return the outcome of a 2xx response as its `ok` decides. What the response does not say is not a success."""
    if outcome.status is not RunStatus.SUCCEEDED:
        return outcome
    try:
        condition = parse_expression(expression, OK_ROOTS)
    except ExpressionError as error:  # a ledger that another version wrote
        return replace(outcome, status=RunStatus.FAILED, error=f"ok cannot be evaluated: {error.message}")
    result = evaluate(condition, {"response": outcome.response, "run": {"status_code": outcome.code}})
    if result.is_true:
        return outcome
    read = ", ".join(f"{path} = {json.dumps(value, default=str)}" for path, value in result.reads.items())
    reason = result.error or read or "the expression is not true"
    return replace(outcome, status=RunStatus.FAILED, error=f"not ok: {reason} (ok: {expression})"[:MAX_ERROR_CHARS])


def _describe_failure(response: "HttpResponse", data: object, text: str) -> str:
    line = f"{response.status} {response.reason or _status_phrase(response.status)}".strip()
    if 300 <= response.status < 400 and "Location" in response.headers:
        return f"{line}: redirects are followed for GET and HEAD only. Use the final URL."
    detail = extract_error_line(data, text)
    return (f"{line}: {detail}" if detail else line)[:MAX_ERROR_CHARS]


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _summary_sentences(response: "HttpResponse", settings: RunnerSettings, now: datetime) -> Iterator[str]:
    if response.is_truncated:
        yield f"The body is truncated: only its first {len(response.body)} bytes were read."
    elif len(response.body) > settings.response_cap:
        cap = settings.response_cap
        yield f"The body is only in the run log: it has {len(response.body)} bytes; at most {cap} are stored as JSON."
    wait = parse_retry_after(response.headers.get("Retry-After"), now)
    if wait is not None:
        yield f"The server asks to wait {format_duration(wait)} (Retry-After)."
    if response.redirects:
        yield f"The request was redirected {'once' if response.redirects == 1 else f'{response.redirects} times'}."


def _log_response(response: "HttpResponse", text: str, run_log: RunLog) -> None:
    headers = (f"{name}: {response.headers[name]}" for name in _LOGGED_HEADERS if name in response.headers)
    run_log.note(" · ".join([f"HTTP {response.status} {response.reason}".strip(), *headers]))
    run_log.write(LogStream.OUT, text)
