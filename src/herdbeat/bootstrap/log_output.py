"""The log of a long-running process: as text for people, or one JSON object per line for programs."""

import io
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import TextIO

from herdbeat.errors import UsageError
from herdbeat.redaction import redact
from herdbeat.timestamps import format_timestamp

LOG_FORMAT_VARIABLE = "HERDBEAT_LOG_FORMAT"
_OUTPUT_LOGGER = "herdbeat.output"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def choose_log_format(option: str | None, environ: Mapping[str, str], setting: str) -> LogFormat:
    """Return the format that was asked for: by the option, else by the variable, else by the file."""
    written = option or environ.get(LOG_FORMAT_VARIABLE) or setting
    try:
        return LogFormat(written.strip().lower())
    except ValueError:
        hint = f"Use {' or '.join(LogFormat)}."
        raise UsageError(f'{LOG_FORMAT_VARIABLE} cannot be "{written[:20]}".', hint=hint) from None


class RedactingFormatter(logging.Formatter):
    """Formats a record with its traceback, without the secrets in either."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line, a traceback included, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": format_timestamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            "pid": record.process,
        }
        if record.exc_info:
            entry["traceback"] = redact(self.formatException(record.exc_info))
        if record.stack_info:
            entry["stack"] = redact(record.stack_info)
        return json.dumps(entry)  # in ASCII: nothing in it can end the line


class JsonLineStream(io.TextIOBase):
    """A stream for people whose lines become entries of the log, so that a collector reads nothing but objects."""

    def __init__(self, level: int = logging.INFO) -> None:
        self._level, self._rest = level, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.strip():
                logging.getLogger(_OUTPUT_LOGGER).log(self._level, "%s", line)
        return len(text)

    def flush(self) -> None:
        """Lines are written when they end."""

    def isatty(self) -> bool:
        return False


def make_handler(stream: TextIO, log_format: LogFormat, pattern: str = "%(message)s") -> logging.Handler:
    """Return the handler of a format. Text has warnings and errors, JSON also what happens in between."""
    handler = logging.StreamHandler(stream)
    is_json = log_format is LogFormat.JSON
    handler.setLevel(logging.INFO if is_json else logging.WARNING)
    handler.setFormatter(JsonLogFormatter() if is_json else RedactingFormatter(pattern))
    return handler


@contextmanager
def log_to_stream(stream: TextIO, log_format: LogFormat = LogFormat.TEXT) -> Iterator[None]:
    """Write herdbeat's own log to a stream inside the block; as JSON, also what ends the process by surprise."""
    handler, logger = make_handler(stream, log_format), logging.getLogger("herdbeat")
    level, hook = logger.level, sys.excepthook
    logger.addHandler(handler)
    if log_format is LogFormat.JSON:
        logger.setLevel(logging.INFO)
        log_unexpected_errors()
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        sys.excepthook = hook


def log_unexpected_errors() -> None:
    """Log uncaught errors in one line each, instead of a traceback on several lines."""

    def log_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        logging.getLogger("herdbeat").critical("unexpected error", exc_info=(kind, error, trace))

    sys.excepthook = log_error
