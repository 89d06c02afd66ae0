"""Plain text: Aider, Goose, and any CLI that a preset of the user describes. The exit code decides.

Aider exits with 0 even after the API refused it, so a preset may name the lines that mean failure; one of them after
the last cost line is believed. It may also name the lines that are no part of the answer, such as a banner. Aider's
cost line is read from any CLI that prints it.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from herdbeat.domain.agent_run import FinishReason, TokenUsage
from herdbeat.runners.agents.events import AgentEvent, AgentFinished, AgentText, EndedBy, ProcessEnd, UsageSeen
from herdbeat.runners.agents.parsers.base import (
    Failure,
    LineParser,
    emit_end,
    explain_error,
    explain_missing_result,
    last_line,
)
from herdbeat.runners.agents.parsers.lines import MAX_LINE_BYTES, AnswerBuffer, OutputLine, clean_text

_COST_LINE_PATTERN = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent(?:, (?P<written>[\d.,]+[kM]?) cache write)?"
    r"(?:, (?P<hit>[\d.,]+[kM]?) cache hit)?"
    r", (?P<received>[\d.,]+[kM]?) received\.?"
    r"(?: Cost: \$(?P<message>[\d.,]+) message, \$(?P<session>[\d.,]+) session\.?)?\s*"
)
_MULTIPLIERS = {"k": 1_000, "M": 1_000_000}


class TextParser(LineParser):
    def __init__(
        self, zone: tzinfo, max_line_bytes: int = MAX_LINE_BYTES, error_line: str = "", notice_line: str = ""
    ) -> None:
        super().__init__(zone, max_line_bytes)
        self._error_line = re.compile(error_line, re.MULTILINE) if error_line else None
        self._notice = re.compile(rf"(?:{notice_line}).*\n?", re.MULTILINE) if notice_line else None
        self._answer = AnswerBuffer()
        self._last_error = ""
        self._usage: TokenUsage | None = None
        self._usd: float | None = None

    @property
    def has_result(self) -> bool:
        return False

    def feed(self, data: bytes, now: datetime) -> list[AgentEvent]:
        """Read what arrived at once as one text: a child that prints `y` without end must not delay the node."""
        first, block = self._lines.feed_block(data)
        events = list(self.read_lines([first] if first else [], now))
        return events if block is None else [*events, *self._read_block(block)]

    def read_lines(self, lines: Sequence[OutputLine], now: datetime) -> Iterator[AgentEvent]:  # noqa: ARG002
        for line in lines:
            yield from self.read_dropped(line) if line.is_dropped else self._read_block(line.data)

    def _read_block(self, block: bytes) -> Iterator[AgentEvent]:
        text = clean_text(block.decode("utf-8", "replace"), MAX_LINE_BYTES)
        if "Tokens: " not in text:
            yield from self._add_text(text)
            return
        plain: list[str] = []
        for line in text.split("\n"):
            if match := _COST_LINE_PATTERN.fullmatch(line):
                yield from self._add_text("\n".join(plain)) if plain else ()
                yield self._read_cost(match)
                plain = []
            else:
                plain.append(line)
        yield from self._add_text("\n".join(plain)) if plain else ()

    def _add_text(self, text: str) -> Iterator[AgentEvent]:
        self.has_output = self.has_output or bool(text.strip())
        if self._error_line is not None:
            for match in self._error_line.finditer(text):
                self._last_error = text[match.start() :].partition("\n")[0][:2_000]
        text += "\n"
        self._answer.append(text if self._notice is None else self._notice.sub("", text))
        yield AgentText(text=text)

    def finish(self, end: ProcessEnd, now: datetime) -> Iterator[AgentEvent]:
        finished = AgentFinished(
            ok=True,
            reason=FinishReason.COMPLETED,
            answer=self._answer.text,
            last_line=self._answer.last_line,
            usage=self._usage,
            usd=self._usd,
        )
        yield from emit_end(finished, self._explain(end, now))

    def _explain(self, end: ProcessEnd, now: datetime) -> Failure | None:
        if end.is_clean:
            if not self._last_error:
                return None
            return explain_error(self._last_error, None, FinishReason.AGENT_ERROR, now, self.zone)
        if end.ended_by is not EndedBy.ITSELF or end.code is None or end.code < 0:
            return explain_missing_result(end, now, self.zone, has_output=self.has_output, last_error=self._last_error)
        text = self._last_error or last_line(end.stderr) or self._answer.last_line
        found = explain_error(text, None, FinishReason.AGENT_ERROR, now, self.zone)
        return found._replace(message=found.message or f"It exited with code {end.code}.")

    def _read_cost(self, match: re.Match[str]) -> AgentEvent:
        """Add the tokens of one message. The dollars of the session include those of all messages before."""
        self._last_error = ""
        sent, written, hit, received = (_parse_count(match[name]) for name in ("sent", "written", "hit", "received"))
        message = TokenUsage(
            input_tokens=sent, cache_read_tokens=hit, cache_write_tokens=written, output_tokens=received
        )
        self._usage = (self._usage or TokenUsage()).plus(message)
        if match["session"] is not None:
            self._usd = _parse_number(match["session"])
        return UsageSeen(usage=self._usage, usd=self._usd)


def _parse_count(text: str | None) -> int:
    if not text:
        return 0
    return round((_parse_number(text.rstrip("kM")) or 0.0) * _MULTIPLIERS.get(text[-1], 1))


def _parse_number(text: str) -> float | None:
    """Return the number; None for one that is not plausible. A full stop at its end belongs to the sentence."""
    try:
        number = float(text.replace(",", "").rstrip("."))
    except ValueError:
        return None
    return number if number <= 1e12 else None
