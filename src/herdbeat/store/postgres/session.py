"""The writer's connection to PostgreSQL: one transaction a write, fenced by the lease, repeated where that is safe."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from herdbeat.errors import StoreUnavailable
from herdbeat.store.base import Transaction
from herdbeat.store.postgres.connection import MIN_RECONNECT_WAIT_S, PostgresConnector
from herdbeat.store.postgres.errors import is_rejected_by_server, is_retryable, to_store_unavailable
from herdbeat.store.postgres.migrate import migrate
from herdbeat.store.postgres.statements import PostgresConnection, load_statement
from herdbeat.store.postgres.transaction import DuplicateBeat, PostgresTransaction, lease_lost_error

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_RETRIES = 5
"""How often a transaction is repeated after a deadlock or the like."""

MAX_PLAN_AGE_S = 60.0
"""Seconds after which the server plans prepared statements again."""

_POOLER_ERRORS = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""The statement was prepared on another connection: there is a pooler between the node and the server."""


def log_ended_sessions(ended: Sequence[tuple[int]], idle_ms: int) -> None:
    for (pid,) in ended:
        log.warning("abandoned transaction ended backend=%s its client was idle for %s ms", pid, idle_ms)


class PostgresSession:
    """See `WriteSession`."""

    def __init__(self, url: str, *, lease: timedelta) -> None:
        # A statement may take a third of the lease at most: the next renewal waits behind it.
        self._timeout = min(max(lease / 3, timedelta(milliseconds=500)), timedelta(seconds=10))
        self._lease = lease
        self._connector = PostgresConnector(url, timeout=self._timeout)
        limit = f"{self._timeout // timedelta(milliseconds=1)}ms"
        # Its end costs a silent node this transaction, not its lease: it connects again and repeats the write.
        self.idle_ms = 2 * self._timeout // timedelta(milliseconds=1)
        idle = f"{self.idle_ms}ms"
        self._settings = load_statement("settings").text, {"statement": limit, "lock": limit, "idle": idle}
        self._notify_sql = load_statement("notify_nodes").text
        self._replan_wait = 0.5
        self._replan_at = 0.0
        self._is_rolled_back = False
        self._node_at_begin: int | None = None
        self._transaction: PostgresTransaction | None = None
        self._bound_connection: psycopg.Connection[Any] | None = None
        self._pipeline = ExitStack()

    @property
    def transaction(self) -> PostgresTransaction:
        assert self._transaction is not None, "the session is not open"
        return self._transaction

    def open(self) -> None:
        connection = self._connector.get()
        try:
            migrate(connection)
        except (psycopg.Error, StoreUnavailable) as error:
            self._connector.disconnect()
            if isinstance(error, StoreUnavailable):
                raise
            raise to_store_unavailable(self._connector.location, error) from error
        self._transaction = PostgresTransaction(PostgresConnection(connection, self._connector.location), self._lease)
        self._bound_connection = connection

    def begin(self) -> None:
        self._is_rolled_back = False
        self._node_at_begin = self.transaction.node_id
        connection = self._connect()
        try:
            if not self._connector.is_pooled:
                self._pipeline.enter_context(connection.pipeline())
            connection.execute("BEGIN", prepare=False)
            connection.execute(*self._settings)
        except psycopg.Error as error:
            raise to_store_unavailable(self._connector.location, error) from error
        self.transaction.begin()
        self.transaction.assert_lease()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._connector.get()
        if connection is not self._bound_connection:
            self.transaction.rebind(PostgresConnection(connection, self._connector.location))
            self._bound_connection = connection
            log.info("reconnected store=%s", self._connector.location)
        return connection

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Run the work; after a deadlock, behind a pooler or for a duplicate beat, run it again from the start."""
        for _ in range(MAX_RETRIES):
            try:
                return self._attempt_once(work)
            except (*_POOLER_ERRORS, DuplicateBeat, StoreUnavailable) as error:
                if not self._can_retry(error):
                    raise
                log.info("transaction retried error=%s", error)
            self.begin()
        return self._attempt_once(work)

    def _attempt_once(self, work: Callable[[Transaction], T]) -> T:
        """Roll back whatever fails, the last attempt too: its error was reported and yet half of it was committed."""
        with ExitStack() as undo:
            undo.callback(self.rollback)
            result = work(self.transaction)
            self.transaction.flush()
            undo.pop_all()
        return result

    def _can_retry(self, error: Exception) -> bool:
        if isinstance(error, _POOLER_ERRORS):
            self._connector.disable_prepared()
            return True
        if isinstance(error, DuplicateBeat):
            self.transaction.verify_inserts = True
            return True
        cause = error.__cause__ if isinstance(error, StoreUnavailable) else None
        if isinstance(cause, errors.LockNotAvailable | errors.QueryCanceled):
            return self._end_abandoned_sessions()
        return isinstance(cause, psycopg.Error) and is_retryable(cause)

    def _end_abandoned_sessions(self) -> bool:
        """Whether there was one, after a wait for a lock has timed out: then another attempt may succeed."""
        statement = load_statement("end_abandoned_sessions").text
        try:
            ended = self._connector.get().execute(statement, {"idle": self.idle_ms}).fetchall()
        except (psycopg.Error, StoreUnavailable) as error:
            log.debug("abandoned transactions not checked error=%s", error)
            return False
        log_ended_sessions(ended, self.idle_ms)
        return bool(ended)

    def commit(self) -> None:
        if self._is_rolled_back:
            return
        connection = self._bound_connection  # no other: a new connection would accept a COMMIT of nothing
        assert connection is not None
        try:
            if self.transaction.has_pending_notify:
                connection.execute(self._notify_sql)
            committed = connection.execute("COMMIT", prepare=False)
            self._pipeline.close()
        except psycopg.Error as error:
            if is_rejected_by_server(error) and self._connector.is_connected:
                raise to_store_unavailable(self._connector.location, error) from error
            self._leave_pipeline()
            self._connector.disconnect()
            self._resolve_lost_commit(error)
        else:
            self._require_committed(committed)
        self.transaction.verify_inserts = False

    def _require_committed(self, committed: psycopg.Cursor[Any]) -> None:
        """A COMMIT after a failed statement rolls back without an error: only the status message shows it."""
        if committed.statusmessage != "COMMIT":
            raise StoreUnavailable(
                f"{self._connector.location}: the transaction failed, and nothing was written.",
                hint="Try again; the log of the server contains the first error.",
            )

    def _resolve_lost_commit(self, error: psycopg.Error) -> None:
        """The answer to a commit was lost: query whether it was done, for as long as the node has its lease.

        Without this, claims whose commit was done would belong to a node that does not know of them.
        """
        node_id = self._node_at_begin
        if node_id is None:
            raise StoreUnavailable(
                f"{self._connector.location}: the connection was lost during a commit.",
                hint="Check whether the change was made before you repeat it: herdbeat changes",
            ) from error
        log.warning("answer to a commit lost node=%s checking whether it succeeded", node_id)
        until = time.monotonic() + self._lease.total_seconds()
        while time.monotonic() < until:
            try:
                self._connect()
                if self.transaction.has_committed(node_id):
                    log.warning("commit had succeeded node=%s the node continues", node_id)
                    return
            except StoreUnavailable:
                time.sleep(MIN_RECONNECT_WAIT_S)
            else:
                raise to_store_unavailable(self._connector.location, error) from error
        raise lease_lost_error(node_id) from error

    def rollback(self) -> None:
        """Roll back once: the session does it for failed work, and the writer again for the whole group."""
        if self._is_rolled_back:
            return
        self._is_rolled_back = True
        self.transaction.node_id = self._node_at_begin
        self._leave_pipeline()
        if not self._connector.is_connected:
            return
        if self._connector.is_read_only:
            # With several hosts in the URL another server may accept writes now: only a new connection finds it.
            self._connector.disconnect()
            return
        try:
            self._connector.get().execute("ROLLBACK", prepare=False)
        except psycopg.Error:
            self._connector.disconnect()

    def _leave_pipeline(self) -> None:
        """Also after the connection was lost: a pipeline left entered fails the next commit after it was done."""
        with suppress(psycopg.Error):  # statements sent after the first error were not run
            self._pipeline.close()

    def abandon_node(self) -> None:
        """Stop writing as a node: writes are not fenced until it joins again."""
        self.transaction.node_id = self._node_at_begin = None

    def on_idle(self) -> None:
        """Discard plans now and then, soon after the start and then rarely, because tables grow."""
        if time.monotonic() < self._replan_at or not self._connector.is_connected:
            return
        self._replan_wait = min(2 * self._replan_wait, MAX_PLAN_AGE_S)
        self._replan_at = time.monotonic() + self._replan_wait
        with suppress(psycopg.Error, StoreUnavailable):  # the next write reports it
            self._connector.get().execute("DISCARD PLANS", prepare=False)

    def close(self) -> None:
        self._connector.disconnect()
