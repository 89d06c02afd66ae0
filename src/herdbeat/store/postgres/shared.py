"""The clock and the ears of a node: the database's time, and NOTIFY, each on a connection of its own."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from herdbeat.errors import StoreUnavailable
from herdbeat.store.micros import from_micros
from herdbeat.store.postgres.connecting import Connecting
from herdbeat.store.postgres.faults import unavailable
from herdbeat.store.postgres.statements import SHEETS
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.postgres.translate import statements
from herdbeat.store.rows import StopRequest

log = logging.getLogger(__name__)

CHANNEL = "herdbeat"
WAIT = 0.25
"""Seconds between two looks whether somebody wants us to stop."""


class PostgresShared:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._asking = Connecting(store.place.url, patience=store.lease / 3, prepares=False)
        self._hearing = Connecting(store.place.url, patience=store.lease / 3, prepares=False)
        self._known = statements(*SHEETS)
        self._is_closed = threading.Event()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        micros: int = self._ask("database_time")[0][0]
        return from_micros(micros)

    def asked_to_stop(self, node_id: int) -> list[StopRequest]:
        rows = self._ask("asked_to_stop", node=node_id)
        return [StopRequest(run_id, why, bool(force)) for run_id, why, force in rows]

    def forget_stops(self, node_id: int, run_ids: Sequence[int]) -> None:
        self._ask("forget_stops", node=node_id, taken=list(run_ids))

    def tell_outputs(self, texts: Mapping[int, str]) -> None:
        self._ask("tell_outputs", runs=list(texts), texts=list(texts.values()))

    def _ask(self, question: str, **values: object) -> list[Any]:
        with self._lock:
            try:
                answer = self._asking.get().execute(self._known[question].text, values)
                return answer.fetchall() if answer.description else []
            except psycopg.Error as error:
                raise unavailable(self._asking.place, error) from error

    def listen(self, heard: Callable[[], None]) -> None:
        """Word that came while there was no connection is lost: whoever listens looks now and then anyway."""
        while not self._is_closed.is_set():
            try:
                self._hear(self._hearing.get(), heard)
            except (psycopg.Error, StoreUnavailable) as error:
                log.debug("nothing is heard error=%s", error)
                self._hearing.drop()
                self._is_closed.wait(WAIT)
        self._hearing.drop()

    def _hear(self, connection: psycopg.Connection[Any], heard: Callable[[], None]) -> None:
        connection.execute(f"LISTEN {CHANNEL}".encode())
        heard()  # what was said before somebody listened
        while not self._is_closed.is_set():
            for _ in connection.notifies(timeout=WAIT, stop_after=1):
                heard()

    def give_up(self) -> None:
        self._store.give_up()

    def close(self) -> None:
        self._is_closed.set()
        with self._lock:
            self._asking.drop()
