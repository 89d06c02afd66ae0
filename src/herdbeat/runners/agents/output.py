"""What an agent's CLI prints: parsed while it comes, logged for readers, and kept line by line on disk."""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from herdbeat.clock import Clock
from herdbeat.domain.agent_run import AgentReport
from herdbeat.runners.agents.events import AgentEvent, EndedBy, ProcessEnd
from herdbeat.runners.agents.parsers.base import LineParser
from herdbeat.runners.agents.recorder import AgentRecorder, LogPiece
from herdbeat.runners.process.output import MAX_STDERR_TAIL_BYTES, TailBuffer
from herdbeat.runners.run_log import LogStream, RawOutput, RunLog


@dataclass(slots=True)
class AgentOutput:
    """Takes the output of one CLI. Events become log lines at once; the lines themselves go to `raw`, unchanged.

    `tail` gets what the log gets, for the stored end of the output.
    """

    parser: LineParser
    recorder: AgentRecorder
    log: RunLog
    raw: RawOutput
    clock: Clock
    tail: TailBuffer
    deadline: datetime
    ended_by: EndedBy = EndedBy.ITSELF
    _errors: TailBuffer = field(default_factory=lambda: TailBuffer(MAX_STDERR_TAIL_BYTES))
    _error_decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def add_stdout(self, chunk: bytes) -> None:
        self.raw.write(chunk)
        now = self.clock.now()
        self._record(self.parser.feed(chunk, now), now)

    def add_stderr(self, chunk: bytes) -> None:
        self._errors.append(chunk)
        self._write(LogStream.ERR, self._error_decoder.decode(chunk))

    def mark_cancelled(self) -> None:
        # Only the deadline tells a timeout from a cancel: both cancel the task of the run.
        self.ended_by = EndedBy.TIMEOUT if self.clock.now() >= self.deadline else EndedBy.CANCEL

    def close(self) -> None:
        self._write(LogStream.ERR, self._error_decoder.decode(b"", final=True))
        self.raw.close()

    def finish(self, code: int | None) -> AgentReport:
        """Return what the run has told, after its process has ended."""
        now = self.clock.now()
        end = ProcessEnd(code=code, ended_by=self.ended_by, stderr=self._errors.text())
        self._record(self.parser.close(end, now), now)
        return self.recorder.report()

    def _record(self, events: Iterable[AgentEvent], now: datetime) -> None:
        pieces = (piece for event in events for piece in self.recorder.record(event, now))
        # One record for what arrived at once: a record for each of ten thousand small events would delay the node.
        for stream, same in groupby(pieces, key=_stream):
            self._write(stream, "".join(piece.text for piece in same))

    def _write(self, stream: LogStream, text: str) -> None:
        if text:
            self.tail.append(text.encode("utf-8", "replace"))
            self.log.write(stream, text)


def _stream(piece: LogPiece) -> LogStream:
    return piece.stream
