"""The parsers by name: bytes of a CLI's output to events. Presets name the one they need."""

from datetime import tzinfo
from enum import StrEnum
from typing import assert_never

from herdbeat.runners.agents.parsers.base import LineParser
from herdbeat.runners.agents.parsers.claude import ClaudeParser
from herdbeat.runners.agents.parsers.codex import CodexParser
from herdbeat.runners.agents.parsers.copilot import CopilotParser
from herdbeat.runners.agents.parsers.gemini import GeminiParser
from herdbeat.runners.agents.parsers.lines import MAX_LINE_BYTES
from herdbeat.runners.agents.parsers.opencode import OpencodeParser
from herdbeat.runners.agents.parsers.text import TextParser


class ParserName(StrEnum):
    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    COPILOT = "copilot"
    TEXT = "text"


def open_parser(
    name: ParserName,
    zone: tzinfo,
    *,
    error_line: str = "",
    notice_line: str = "",
    max_line_bytes: int = MAX_LINE_BYTES,
) -> LineParser:
    """Return a parser for one run. For plain text, `error_line` is a pattern of lines that mean failure, and
    `notice_line` one of lines that are no part of the answer.
    """
    match name:
        case ParserName.CLAUDE:
            return ClaudeParser(zone, max_line_bytes)
        case ParserName.CODEX:
            return CodexParser(zone, max_line_bytes)
        case ParserName.GEMINI:
            return GeminiParser(zone, max_line_bytes)
        case ParserName.OPENCODE:
            return OpencodeParser(zone, max_line_bytes)
        case ParserName.COPILOT:
            return CopilotParser(zone, max_line_bytes)
        case ParserName.TEXT:
            return TextParser(zone, max_line_bytes, error_line, notice_line)
        case _:
            assert_never(name)
