"""The output of an agent's CLI: parsed while it arrives, logged for readers, and kept line by line on disk.

`read_lost_report` reads it again for a run whose node was killed. The metadata file is a JSON object that an agent
writes into its working directory; it becomes the response of its run.
"""

import codecs
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from itertools import groupby
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.target import AgentSpec
from herdbeat.runners.agents.accounts import find_login
from herdbeat.runners.agents.events import AgentEvent, EndedBy, ProcessEnd
from herdbeat.runners.agents.parsers import open_parser
from herdbeat.runners.agents.parsers.base import LineParser
from herdbeat.runners.agents.presets import resolve_preset
from herdbeat.runners.agents.recorder import AgentRecorder, LogPiece
from herdbeat.runners.process.output import MAX_STDERR_TAIL_BYTES, TailBuffer
from herdbeat.runners.run_log import LogStream, RawOutput, RunLog, find_raw_output


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
        # Only the deadline distinguishes a timeout from a cancel: both cancel the task of the run.
        self.ended_by = EndedBy.TIMEOUT if self.clock.now() >= self.deadline else EndedBy.CANCEL

    def close(self) -> None:
        self._write(LogStream.ERR, self._error_decoder.decode(b"", final=True))
        self.raw.close()

    def finish(self, code: int | None) -> AgentReport:
        """Return what the run has reported, after its process has ended."""
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


MAX_READ_BYTES = 16 * 1024 * 1024
"""More than `<run>.raw` may have by default. A start must not be delayed by a file that grew by other means."""

_CHUNK_BYTES = 1024 * 1024


def read_lost_report(
    state_dir: Path, run_id: int, spec: AgentSpec, environ: Mapping[str, str], zone: tzinfo, now: datetime
) -> AgentReport | None:
    """Return what a run reported before its node died; None if none of its output is on this machine.

    Blocks while it reads.
    """
    preset, path = resolve_preset(spec), find_raw_output(state_dir, run_id)
    if preset is None or path is None:
        return None
    parser = open_parser(preset.parser, zone, error_line=preset.error_line, notice_line=preset.notice_line)
    recorder = AgentRecorder(model=spec.model or "", usage_is_cumulative=preset.usage_is_cumulative)
    try:
        with path.open("rb") as file:
            for _ in range(MAX_READ_BYTES // _CHUNK_BYTES):
                for event in parser.feed(file.read(_CHUNK_BYTES), now):
                    recorder.record(event, now)
    except OSError:
        return None
    for event in parser.close(ProcessEnd(code=None, ended_by=EndedBy.CANCEL), now):
        recorder.record(event, now)
    account = spec.account or find_login(spec, environ) or ""
    return replace(recorder.report(), account=account, runtime=preset.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """The file of one run. `before` identifies what lay there when the run started, which is not this run's."""

    path: Path
    before: tuple[int, ...] | None


def locate_metadata(folder: str, name: str) -> MetadataFile | None:
    """Return the metadata file of a run that is about to start; None if the name leads out of the folder."""
    home = os.path.realpath(folder)
    path = Path(os.path.realpath((Path(home) / name).parent)) / Path(name).name
    if os.path.commonpath((home, str(path))) != home:
        return None
    return MetadataFile(path=path, before=_identify(path))


def read_metadata(file: MetadataFile, max_bytes: int) -> object:
    """Return the object that the run has written; None if it wrote none, or something else.

    Neither links nor pipes are opened: the folder belongs to the agent, and an isolated one must not make us read a
    file for it.
    """
    if _identify(file.path) in (None, file.before):
        return None
    try:
        opened = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return None
        data = stream.read(max_bytes + 1)
    try:
        value = json.loads(data) if len(data) <= max_bytes else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _identify(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
