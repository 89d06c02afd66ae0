"""A connection to the server, made again when it is lost: with growing waits, and never by all nodes at once."""

import random
import time
from datetime import timedelta
from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.postgres.faults import malformed, place_of, unavailable

FIRST_WAIT = 0.05
LONGEST_WAIT = 5.0
CONNECT_TIMEOUT = 5
_READ_ONLY = ("default_transaction_read_only", "in_hot_standby")
PREPARE_AFTER = 5
"""Times that a statement is seen before the server is told to remember it."""


class Connecting:
    """Hands out the one connection of its owner, and knows when it is too early to try again."""

    def __init__(self, url: str, *, patience: timedelta, prepares: bool = True) -> None:
        self._url = url
        self._patience = patience
        self._wait = FIRST_WAIT
        self._not_before = 0.0
        self._error: StoreUnavailable | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self.place = place_of(url)
        self.prepares = prepares

    @property
    def is_there(self) -> bool:
        return self._connection is not None and not self._connection.broken and not self._connection.closed

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler was seen in between.

        The end of a pipeline would be one word too many for it: that comes when the transaction is over already, and
        takes another connection, which nobody gives back.
        """
        return self._connection is not None and self._connection.prepare_threshold is None

    @property
    def is_read_only(self) -> bool:
        """Whether the server has said, by itself, that nobody can write there. One before version 14 says nothing."""
        if self._connection is None:
            return False
        said = (self._connection.info.parameter_status(name) for name in _READ_ONLY)
        return "on" in said

    def get(self) -> psycopg.Connection[Any]:
        """Raises StoreUnavailable, at once if the next try is not due yet."""
        if self.is_there:
            assert self._connection is not None
            return self._connection
        if self._error is not None and time.monotonic() < self._not_before:
            raise self._error
        self.drop()
        try:
            self._connection = connect(self._url, patience=self._patience, prepares=self.prepares)
        except StoreUnavailable as error:
            self._error = error
            # Not all at the same moment: a server that has just come up would be knocked down by those who waited.
            self._not_before = time.monotonic() + self._wait * random.uniform(0.5, 1.5)  # noqa: S311
            self._wait = min(self._wait * 2, LONGEST_WAIT)
            raise
        self._wait, self._error = FIRST_WAIT, None
        return self._connection

    def prepare_no_more(self) -> None:
        """A pooler hands out another connection each time, which does not know what was prepared on this one."""
        self.prepares = False
        if self._connection is not None:
            self._connection.prepare_threshold = None

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(url: str, *, patience: timedelta, prepares: bool = True) -> psycopg.Connection[Any]:
    """`patience` is how long a peer may be silent in the middle of a question before it is given up."""
    wrong = malformed(url)
    if wrong is not None:
        raise wrong
    milliseconds = str(patience // timedelta(milliseconds=1))
    seconds = str(max(1, patience // timedelta(seconds=3)))
    try:
        connection: psycopg.Connection[Any] = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT,
            application_name="herdbeat",
            keepalives_idle=seconds,
            keepalives_interval=seconds,
            keepalives_count="2",
            tcp_user_timeout=milliseconds,
            prepare_threshold=PREPARE_AFTER if prepares else None,
        )
        if prepares and _has_pooler(connection):
            connection.prepare_threshold = None
    except psycopg.Error as error:
        raise unavailable(place_of(url), error) from error
    return connection


def _has_pooler(connection: psycopg.Connection[Any]) -> bool:
    """Whether the process that answers is another than the one that let us in.

    Behind a pooler statements of ours that are prepared would lie on connections that others get next, under names that
    all of us use: a node could be given another one's statement for its own.
    """
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return row is None or row[0] != connection.info.backend_pid
