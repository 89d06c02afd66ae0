"""The skeleton of every parser, and how a run that did not succeed is explained."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import NamedTuple

from herdbeat.domain.agent_run import FinishReason, LimitReached
from herdbeat.runners.agents.events import AgentEvent, AgentFinished, AgentNotice, EndedBy, ProcessEnd
from herdbeat.runners.agents.limits import (
    denies_limit,
    find_limit,
    is_limit_text,
    limit_from_text,
    merge_limits,
)
from herdbeat.runners.agents.parsers.lines import (
    MAX_LINE_BYTES,
    JsonObject,
    LineSplitter,
    OutputLine,
    clean_text,
    decode_line,
    parse_object,
)

MAX_MESSAGE_CHARS = 500
MAX_NOTICES = 1_000
_STDERR_TAIL = 4_000

_AUTH_ERROR_PATTERN = re.compile(
    r"not logged in|please run /login|invalid api key|incorrect api key|api key not valid|oauth (?:token|session)"
    r"|failed to authenticate|not able to authenticate|authentication[ _]?(?:failed|error)|AuthenticationError"
    r"|login failed|invalid auth method"
    r"|\b401 unauthorized|not authenticated|login required|please log in|no api key",
    re.IGNORECASE,
)
_UNKNOWN_SESSION_PATTERN = re.compile(
    r"no conversation found|no (?:saved )?(?:session|conversation|thread|rollout) (?:found|with)"
    r"|(?:session|thread|conversation)(?: [\w-]+)? (?:was )?not found|unknown (?:session|thread)"
    r"|no session, task, or name matched|invalid session identifier|error resuming session",
    re.IGNORECASE,
)


class Failure(NamedTuple):
    """Why a run did not succeed. `limit` is set if, and only if, the reason is RATE_LIMITED."""

    reason: FinishReason
    message: str
    limit: LimitReached | None = None


class LineParser(ABC):
    """Reads the output of one run: `feed` with every chunk, then `close` once. Both return events; neither raises.

    The last event of `close` is the only AgentFinished. `zone` is the node's, for reset times that name none.
    """

    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.zone = zone
        self.has_output = False
        self._max_line_bytes = max_line_bytes
        self._lines = LineSplitter(max_line_bytes)

    @property
    @abstractmethod
    def has_result(self) -> bool:
        """True once the CLI has said how the run went. Its process may live on, and a later result replaces this."""

    def feed(self, data: bytes, now: datetime) -> list[AgentEvent]:
        return list(self.read_lines(self._lines.feed(data), now))

    def close(self, end: ProcessEnd, now: datetime) -> list[AgentEvent]:
        return [*self.read_lines(self._lines.flush(), now), *self.finish(end, now)]

    @abstractmethod
    def read_lines(self, lines: Sequence[OutputLine], now: datetime) -> Iterator[AgentEvent]:
        """Return the events of lines that arrived at once."""

    @abstractmethod
    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        """Return the last events, by all that was read and by the end of the process."""

    def read_dropped(self, line: OutputLine) -> Iterator[AgentEvent]:
        """Return the events of a line that was too long to keep."""
        yield AgentNotice(text=f"a line of {line.size} bytes was left out: at most {self._max_line_bytes} are read")


class JsonLineParser(LineParser):
    """Reads output of one JSON object per line. Other lines, such as warnings, are notices, up to a number.

    A child that prints `y` without end must not delay the node: at 15 µs for a line, 64 KiB of them took half a second.
    """

    text_marks: tuple[bytes, ...] = ()
    """How lines begin that mean something though they are no JSON. They are read however many came before."""

    def __init__(self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(zone, max_line_bytes)
        self._notices_left = MAX_NOTICES

    @abstractmethod
    def read_object(self, value: JsonObject, now: datetime) -> Iterator[AgentEvent]:
        """Return the events of one line of JSON."""

    def read_text(self, text: str) -> Iterator[AgentEvent]:
        """Return the events of a line that is no JSON object."""
        yield AgentNotice(text=text[:2_000])

    def feed(self, data: bytes, now: datetime) -> list[AgentEvent]:
        if self._notices_left or any(mark in data for mark in (b"{", *self.text_marks)):
            return super().feed(data, now)
        first, _ = self._lines.feed_block(data)  # the others are no JSON
        return list(self.read_lines([first] if first else [], now))

    def read_lines(self, lines: Sequence[OutputLine], now: datetime) -> Iterator[AgentEvent]:
        meaningful = (b"{", b" ", b"\t", *self.text_marks)
        for line in lines:
            if not self._notices_left and not line.data.startswith(meaningful):
                continue
            yield from self.read_dropped(line) if line.is_dropped else self._read_line(line.data, now)

    def _read_line(self, data: bytes, now: datetime) -> Iterator[AgentEvent]:
        value = parse_object(data)
        if value is not None:
            self.has_output = True
            yield from self.read_object(value, now)
        elif self._notices_left or data.startswith(self.text_marks or b"{"):
            yield from self._read_other(data)

    def _read_other(self, data: bytes) -> Iterator[AgentEvent]:
        text = decode_line(data)
        if not text:
            return
        self._notices_left = max(0, self._notices_left - 1)
        yield from self.read_text(text)
        if not self._notices_left:
            yield AgentNotice(text="further lines that are no JSON are left out here")


def explain_error(
    text: str, status: int | None, fallback: FinishReason, now: datetime, zone: tzinfo, seen: LimitReached | None = None
) -> Failure:
    """Return the failure for an error that the CLI reported, by its HTTP status if it names one, else by its words.

    `seen` is a limit that the CLI announced earlier in the run; it explains an error that says nothing else.
    """
    message = shorten(text)
    if status in (401, 403):
        return Failure(FinishReason.AUTH_FAILED, message)
    if denies_limit(text) or (status is not None and status >= 500):
        return Failure(FinishReason.API_ERROR, message)
    if status == 429 or is_limit_text(text):
        return Failure(FinishReason.RATE_LIMITED, message, merge_limits(seen, limit_from_text(text, now, zone)))
    if _UNKNOWN_SESSION_PATTERN.search(text[:_STDERR_TAIL]):
        return Failure(FinishReason.UNKNOWN_SESSION, message)
    if _AUTH_ERROR_PATTERN.search(text[:_STDERR_TAIL]):
        return Failure(FinishReason.AUTH_FAILED, message)
    if seen is not None:
        return Failure(FinishReason.RATE_LIMITED, message or seen.text, seen)
    return Failure(FinishReason.API_ERROR if status is not None else fallback, message)


def explain_missing_result(
    end: ProcessEnd,
    now: datetime,
    zone: tzinfo,
    *,
    has_output: bool,
    last_error: str = "",
    seen: LimitReached | None = None,
) -> Failure:
    """Return the failure of a run whose output ended before the CLI said how it went."""
    stderr = clean_text(end.stderr[-_STDERR_TAIL:], _STDERR_TAIL)
    if end.ended_by is EndedBy.CANCEL:
        return Failure(FinishReason.INTERRUPTED, "It was cancelled.")
    limit = merge_limits(seen, find_limit(last_error, now, zone) or find_limit(stderr, now, zone))
    if limit is not None:
        return Failure(FinishReason.RATE_LIMITED, shorten(last_error) or limit.text, limit)
    if end.ended_by is EndedBy.TIMEOUT:
        return Failure(FinishReason.TIMED_OUT, "It ran out of time and was ended.")
    if end.code is not None and end.code < 0:
        return Failure(FinishReason.NO_RESULT, f"It was ended by signal {-end.code} before it said how it went.")
    fallback = FinishReason.NO_RESULT if has_output or end.code == 0 else FinishReason.REFUSED_TO_START
    found = explain_error(last_error or find_cause_line(stderr), None, fallback, now, zone)
    return found._replace(message=found.message or f"It ended without a result, with exit code {end.code}.")


def explain_exit(end: ProcessEnd) -> Failure | None:
    """Return the failure of a process that exited with an error after its CLI had reported success; else None.

    A process that we ended, or that a signal ended, has said all that it had to say: its result stands.
    """
    if end.ended_by is not EndedBy.ITSELF or end.code is None or end.code <= 0 or end.code in (130, 143):
        return None
    detail = shorten(last_line(end.stderr))
    message = f"It reported success and then exited with code {end.code}."
    return Failure(FinishReason.EXIT_CODE, f"{message} {detail}".strip())


def emit_end(finished: AgentFinished, failure: Failure | None) -> Iterator[AgentEvent]:
    """Return the last events: the limit if there is one, and the end with its reason."""
    if failure is None:
        yield finished
        return
    if failure.limit is not None:
        yield failure.limit
    yield replace(finished, ok=False, reason=failure.reason, message=failure.message)


def find_cause_line(stderr: str) -> str:
    """Return the line that says why the CLI did not start: one about an unknown session, else the last one.

    Gemini follows up with where it has looked, and what to do.
    """
    lines = clean_text(stderr[-_STDERR_TAIL:]).splitlines()
    return next((line.strip() for line in lines if _UNKNOWN_SESSION_PATTERN.search(line)), "") or last_line(stderr)


def last_line(text: str) -> str:
    """Return the last line that says something; of a stack trace, the line before it."""
    lines = [line.strip() for line in clean_text(text[-_STDERR_TAIL:]).splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not re.match(r"at |[}\])]|status: ", line)), "")


def shorten(text: str) -> str:
    line = " ".join(clean_text(text, 4 * MAX_MESSAGE_CHARS).split())
    return line if len(line) <= MAX_MESSAGE_CHARS else line[: MAX_MESSAGE_CHARS - 1] + "…"
