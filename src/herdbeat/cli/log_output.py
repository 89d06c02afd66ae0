"""Warnings and errors of the log on the terminal, while a command runs for long."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from herdbeat.cli.output.terminal import Terminal
from herdbeat.redaction import redact


class _RedactingFormatter(logging.Formatter):
    """Formats a log record with its traceback, without the secrets in either."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


@contextmanager
def log_to_terminal(terminal: Terminal) -> Iterator[None]:
    """Print warnings and errors of herdbeat's own log on stderr inside the block."""
    handler = logging.StreamHandler(terminal.err)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_RedactingFormatter())
    logger = logging.getLogger("herdbeat")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
