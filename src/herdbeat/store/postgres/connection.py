"""A connection to the server that reconnects when it is lost: with growing waits, never by all nodes at once."""

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
"""Executions of a statement after which the server prepares it."""


class PostgresConnector:
    """Returns the one connection of its owner, and limits how often it tries to reconnect."""

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
        """Whether there is a pooler in between.

        It must not be used with pipelines: the sync at the end of one arrives after the transaction, and takes another
        connection from the pool, which is never returned.
        """
        return self._connection is not None and self._connection.prepare_threshold is None

    @property
    def is_read_only(self) -> bool:
        """Whether the server has reported that it takes no writes. Versions before 14 do not report it."""
        connection = self._connection
        return connection is not None and "on" in map(connection.info.parameter_status, _READ_ONLY_PARAMETERS)

    def get(self) -> psycopg.Connection[Any]:
        """Return the connection. Raises StoreUnavailable, at once if the next attempt is not due yet."""
        if self._connection is not None and self.is_connected:
            return self._connection
        if self._error is not None and time.monotonic() < self._retry_at:
            raise self._error
        self.disconnect()
        try:
            self._connection = connect(self._url, timeout=self._timeout, use_prepared=self.use_prepared)
        except StoreUnavailable as error:
            self._error = error
            # Not all nodes at the same moment: that would overload a server that has just started.
            self._retry_at = time.monotonic() + self._wait * random.uniform(0.5, 1.5)  # noqa: S311
            self._wait = min(self._wait * 2, MAX_RECONNECT_WAIT_S)
            raise
        self._wait, self._error = MIN_RECONNECT_WAIT_S, None
        return self._connection

    def disable_prepared(self) -> None:
        """Stop preparing statements: behind a pooler the next query may get another connection, without them."""
        self.use_prepared = False
        if self._connection is not None:
            self._connection.prepare_threshold = None

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(url: str, *, timeout: timedelta, use_prepared: bool = True) -> psycopg.Connection[Any]:
    """Raises StoreUnavailable. `timeout` is how long the server may be silent before the connection is given up."""
    if (error_in_url := check_url(url)) is not None:
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
    """Whether another server process answers than the one that accepted the connection.

    Behind a pooler, prepared statements stay on connections that other nodes get next, under names that all nodes use:
    a node could execute another one's statement.
    """
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return row is None or row[0] != connection.info.backend_pid
