"""A connection to the server, made again when it is lost: with growing waits, and never by all nodes at once."""

import random
import time
from datetime import timedelta
from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.postgres.errors import check_url, display_url, to_store_unavailable

MIN_RECONNECT_WAIT_S = 0.05
MAX_RECONNECT_WAIT_S = 5.0
CONNECT_TIMEOUT_S = 5
_READ_ONLY_PARAMETERS = ("default_transaction_read_only", "in_hot_standby")
PREPARE_THRESHOLD = 5
"""Times that a statement is seen before the server is told to remember it."""


class PostgresConnector:
    """Hands out the one connection of its owner, and knows when it is too early to try again."""

    def __init__(self, url: str, *, timeout: timedelta, use_prepared: bool = True) -> None:
        self._url = url
        self._timeout = timeout
        self._wait = MIN_RECONNECT_WAIT_S
        self._retry_at = 0.0
        self._error: StoreUnavailable | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self.location = display_url(url)
        self.use_prepared = use_prepared

    @property
    def is_connected(self) -> bool:
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
        statuses = (self._connection.info.parameter_status(name) for name in _READ_ONLY_PARAMETERS)
        return "on" in statuses

    def get(self) -> psycopg.Connection[Any]:
        """Raises StoreUnavailable, at once if the next try is not due yet."""
        if self.is_connected:
            assert self._connection is not None
            return self._connection
        if self._error is not None and time.monotonic() < self._retry_at:
            raise self._error
        self.disconnect()
        try:
            self._connection = connect(self._url, timeout=self._timeout, use_prepared=self.use_prepared)
        except StoreUnavailable as error:
            self._error = error
            # Not all at the same moment: a server that has just come up would be knocked down by those who waited.
            self._retry_at = time.monotonic() + self._wait * random.uniform(0.5, 1.5)  # noqa: S311
            self._wait = min(self._wait * 2, MAX_RECONNECT_WAIT_S)
            raise
        self._wait, self._error = MIN_RECONNECT_WAIT_S, None
        return self._connection

    def disable_prepared(self) -> None:
        """A pooler hands out another connection each time, which does not know what was prepared on this one."""
        self.use_prepared = False
        if self._connection is not None:
            self._connection.prepare_threshold = None

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(url: str, *, timeout: timedelta, use_prepared: bool = True) -> psycopg.Connection[Any]:
    """`patience` is how long a peer may be silent in the middle of a question before it is given up."""
    error_in_url = check_url(url)
    if error_in_url is not None:
        raise error_in_url
    milliseconds = str(timeout // timedelta(milliseconds=1))
    seconds = str(max(1, timeout // timedelta(seconds=3)))
    try:
        connection: psycopg.Connection[Any] = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="herdbeat",
            keepalives_idle=seconds,
            keepalives_interval=seconds,
            keepalives_count="2",
            tcp_user_timeout=milliseconds,
            prepare_threshold=PREPARE_THRESHOLD if use_prepared else None,
        )
        if use_prepared and _is_behind_pooler(connection):
            connection.prepare_threshold = None
    except psycopg.Error as error:
        raise to_store_unavailable(display_url(url), error) from error
    return connection


def _is_behind_pooler(connection: psycopg.Connection[Any]) -> bool:
    """Whether the process that answers is another than the one that let us in.

    Behind a pooler statements of ours that are prepared would lie on connections that others get next, under names that
    all of us use: a node could be given another one's statement for its own.
    """
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return row is None or row[0] != connection.info.backend_pid
