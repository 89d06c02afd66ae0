"""Output of agent CLIs: the captured and documented samples, and a parser driven over bytes."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from herdbeat.runners.agents.events import AgentEvent, AgentFinished, ProcessEnd
from herdbeat.runners.agents.parsers import ParserName, open_parser
from herdbeat.runners.agents.presets import PRESETS

Kind = TypeVar("Kind")

FOLDER = Path(__file__).parent.parent / "runners" / "agents"
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
NODE_ZONE = ZoneInfo("America/New_York")
SUCCESS = ProcessEnd(code=0)


def read_sample(name: str) -> bytes:
    """Return the bytes of `captures/<name>` or `samples/<name>`."""
    path = FOLDER / "captures" / name
    return (path if path.exists() else FOLDER / "samples" / name).read_bytes()


def read_stderr(name: str) -> str:
    return read_sample(name).decode()


def parse(
    parser: ParserName, chunks: bytes | Iterable[bytes], end: ProcessEnd = SUCCESS, **options: int
) -> list[AgentEvent]:
    """Return all events of a run that printed these chunks and ended so."""
    aider = PRESETS["aider"]
    opened = open_parser(parser, NODE_ZONE, error_line=aider.error_line, notice_line=aider.notice_line, **options)
    pieces = [chunks] if isinstance(chunks, bytes) else chunks
    events = [event for piece in pieces for event in opened.feed(piece, NOW)]
    return events + opened.close(end, NOW)


def get_end(events: list[AgentEvent]) -> AgentFinished:
    """Return the last event, which must be the only end."""
    ends = [event for event in events if isinstance(event, AgentFinished)]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    return ends[0]


def pick(events: list[AgentEvent], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]
