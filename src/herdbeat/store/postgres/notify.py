"""The database's time, stop requests and NOTIFY, on connections beside that of the writer."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.platform import ProcessOrigin
from herdbeat.store.postgres.connection import PostgresConnector
from herdbeat.store.postgres.errors import to_store_unavailable
from herdbeat.store.postgres.session import log_ended_sessions
from herdbeat.store.postgres.statements import load_statement
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.rows import Neighbour, StopRequest
from herdbeat.timestamps import from_micros

log = logging.getLogger(__name__)

NOTIFY_CHANNEL = "herdbeat"
LISTEN_TIMEOUT_S = 0.25
"""Seconds between two checks whether the store was closed."""


class PostgresSharedStore:
    """See `SharedStore`."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._query_connector = PostgresConnector(store.location.url, timeout=store.lease / 3, use_prepared=False)
        self._listen_connector = PostgresConnector(store.location.url, timeout=store.lease / 3, use_prepared=False)
        self._is_closed = threading.Event()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        micros: int = self._run("database_time")[0][0]
        return from_micros(micros)

    def list_stop_requests(self, node_id: int) -> list[StopRequest]:
        rows = self._run("list_stop_requests", node=node_id)
        return [StopRequest(run_id, why, bool(force)) for run_id, why, force in rows]

    def ack_stop_requests(self, node_id: int, run_ids: Sequence[int]) -> None:
        self._run("ack_stop_requests", node=node_id, taken=list(run_ids))

    def list_neighbours(self, node_id: int, origin: ProcessOrigin) -> list[Neighbour]:
        return [Neighbour(*row) for row in self._run("list_neighbours", node=node_id, **origin._asdict())]

    def publish_output(self, texts: Mapping[int, str]) -> None:
        self._run("notify_outputs", runs=list(texts), texts=list(texts.values()))

    def end_abandoned_sessions(self) -> None:
        idle_ms = self._store.session.idle_ms
        log_ended_sessions(self._run("end_abandoned_sessions", idle=idle_ms), idle_ms)

    def _run(self, statement: str, **values: object) -> list[Any]:
        with self._lock:
            try:
                answer = self._query_connector.get().execute(load_statement(statement).text, values)
                return answer.fetchall() if answer.description else []
            except psycopg.Error as error:
                raise to_store_unavailable(self._query_connector.location, error) from error

    def listen(self, on_change: Callable[[], None]) -> None:
        """Notifications sent while there was no connection are lost: listeners poll as well."""
        while not self._is_closed.is_set():
            try:
                self._listen_once(self._listen_connector.get(), on_change)
            except (psycopg.Error, StoreUnavailable) as error:
                log.debug("notifications not received error=%s", error)
                self._listen_connector.disconnect()
                self._is_closed.wait(LISTEN_TIMEOUT_S)
        self._listen_connector.disconnect()

    def _listen_once(self, connection: psycopg.Connection[Any], on_change: Callable[[], None]) -> None:
        connection.execute(f"LISTEN {NOTIFY_CHANNEL}".encode())
        on_change()  # changes made before this connection listened
        while not self._is_closed.is_set():
            for _ in connection.notifies(timeout=LISTEN_TIMEOUT_S, stop_after=1):
                on_change()

    def abandon_node(self) -> None:
        self._store.session.abandon_node()

    def close(self) -> None:
        self._is_closed.set()
        with self._lock:
            self._query_connector.disconnect()
