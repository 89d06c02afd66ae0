"""The writer's side of a PostgreSQL database: a transaction for each order, fenced, and repeated where that is safe."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from herdbeat.errors import StoreUnavailable
from herdbeat.store.base import Transaction
from herdbeat.store.postgres.connecting import FIRST_WAIT, Connecting
from herdbeat.store.postgres.faults import is_refused, is_worth_repeating, unavailable
from herdbeat.store.postgres.ledger import BeatKnown, PostgresLedger, lost
from herdbeat.store.postgres.migrate import migrate
from herdbeat.store.postgres.statements import SHEETS, PostgresStatements
from herdbeat.store.postgres.translate import statements

log = logging.getLogger(__name__)

T = TypeVar("T")

TIMES = 5
"""How often a transaction is begun again that had only bad luck."""

LONGEST_PLANS = 60.0
"""Seconds that a plan is kept."""

_STRANGER = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""Prepared on another connection: there is a pooler between us and the server."""


class PostgresSession:
    """Opened, used and closed in the writer's own thread."""

    def __init__(self, url: str, *, lease: timedelta) -> None:
        # A question may take no longer than a third of the lease: so long may the next renewal wait behind it.
        self._patience = min(max(lease / 3, timedelta(milliseconds=500)), timedelta(seconds=10))
        self._lease = lease
        self._connecting = Connecting(url, patience=self._patience)
        limit = f"{self._patience // timedelta(milliseconds=1)}ms"
        idle = f"{2 * self._patience // timedelta(milliseconds=1)}ms"
        self._settings = statements(*SHEETS)["settings"].text, {"statement": limit, "lock": limit, "idle": idle}
        self._tell_others = statements(*SHEETS)["tell_others"].text
        self._plan_wait = 0.5
        self._plan_again_at = 0.0
        self._is_undone = False
        self._node_before: int | None = None
        self._ledger: PostgresLedger | None = None
        self._talked_over: psycopg.Connection[Any] | None = None
        self._pipeline = ExitStack()

    @property
    def ledger(self) -> PostgresLedger:
        assert self._ledger is not None, "the session is not open"
        return self._ledger

    def open(self) -> None:
        connection = self._connecting.get()
        try:
            migrate(connection)
        except psycopg.Error as error:
            self._connecting.drop()
            raise unavailable(self._connecting.place, error) from error
        except StoreUnavailable:
            self._connecting.drop()
            raise
        self._ledger = PostgresLedger(PostgresStatements(connection, self._connecting.place), self._lease)
        self._talked_over = connection

    def begin(self) -> None:
        self._is_undone = False
        self._node_before = self.ledger.node_id
        connection = self._connect()
        try:
            if not self._connecting.is_pooled:
                self._pipeline.enter_context(connection.pipeline())
            connection.execute("BEGIN", prepare=False)
            connection.execute(*self._settings)
        except psycopg.Error as error:
            raise unavailable(self._connecting.place, error) from error
        self.ledger.begin()
        self.ledger.hold_node()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._connecting.get()
        if connection is not self._talked_over:
            self.ledger.talk_over(PostgresStatements(connection, self._connecting.place))
            self._talked_over = connection
            log.info("connected again store=%s", self._connecting.place)
        return connection

    def attempt(self, work: Callable[[Transaction], T]) -> T:
        """Work that only had bad luck (a deadlock, a pooler) is done again from the start."""
        left = TIMES
        while True:
            try:
                return self._done(work)
            except BaseException as error:
                # The last time, too: what had failed in it was told so, and its half was committed.
                self.rollback()
                if not left or not self._is_bad_luck(error):
                    raise
                log.info("transaction begun again error=%s", error)
            left -= 1
            self.begin()

    def _done(self, work: Callable[[Transaction], T]) -> T:
        result = work(self.ledger)
        self.ledger.settle()
        return result

    def _is_bad_luck(self, error: BaseException) -> bool:
        if isinstance(error, _STRANGER):
            self._connecting.prepare_no_more()
            return True
        if isinstance(error, BeatKnown):
            self.ledger.is_careful = True
            return True
        cause = error.__cause__ if isinstance(error, StoreUnavailable) else None
        return isinstance(cause, psycopg.Error) and is_worth_repeating(cause)

    def commit(self) -> None:
        if self._is_undone:
            return
        connection = self._talked_over  # and no other: one made anew would say yes to a COMMIT of nothing
        assert connection is not None
        try:
            if self.ledger.has_news:
                connection.execute(self._tell_others)
            committed = connection.execute("COMMIT", prepare=False)
            self._pipeline.close()
        except psycopg.Error as error:
            if is_refused(error) and self._connecting.is_there:
                raise unavailable(self._connecting.place, error) from error
            self._leave_pipeline()
            self._connecting.drop()
            self._find_out(error)
        else:
            self._refuse_rolled_back(committed)
        self.ledger.is_careful = False

    def _refuse_rolled_back(self, committed: psycopg.Cursor[Any]) -> None:
        """A transaction in which something failed is committed without a word, as nothing: only the answer tells."""
        if committed.statusmessage != "COMMIT":
            raise StoreUnavailable(
                f"{self._connecting.place}: something in the transaction had failed, so nothing of it was written.",
                hint="Try again; the server's log has the first error.",
            )

    def _find_out(self, error: psycopg.Error) -> None:
        """The answer to a commit was lost: ask whether it was done, for as long as the node has its lease.

        Without this, claims whose commit was done would belong to a node that knows nothing of them.
        """
        node_id = self._node_before
        if node_id is None:
            raise StoreUnavailable(
                f"{self._connecting.place}: the connection broke in the middle of a commit.",
                hint="Look whether the change is there before you make it again: herdbeat changes",
            ) from error
        log.warning("answer to a commit lost node=%s asking what became of it", node_id)
        until = time.monotonic() + self._lease.total_seconds()
        while time.monotonic() < until:
            try:
                self._connect()
                if self.ledger.is_written(node_id):
                    log.warning("commit was done node=%s it goes on", node_id)
                    return
            except StoreUnavailable:
                time.sleep(FIRST_WAIT)
            else:
                raise unavailable(self._connecting.place, error) from error
        raise lost(node_id) from error

    def rollback(self) -> None:
        """Once is enough: whoever had its work undone is not in the way of who undoes the whole group."""
        if self._is_undone:
            return
        self._is_undone = True
        self.ledger.node_id = self._node_before
        self._leave_pipeline()
        if not self._connecting.is_there:
            return
        if self._connecting.is_read_only:
            # Where there is a choice of servers, another may have taken its place: only who connects anew finds it.
            self._connecting.drop()
            return
        try:
            self._connecting.get().execute("ROLLBACK", prepare=False)
        except psycopg.Error:
            self._connecting.drop()

    def _leave_pipeline(self) -> None:
        """Also that of a connection which is gone: left entered, it would fail the next commit, after it was done."""
        with suppress(psycopg.Error):  # what was sent after the first error was not even tried
            self._pipeline.close()

    def give_up(self) -> None:
        """No node any more: what is written from now on is not fenced, until somebody joins."""
        self.ledger.node_id = self._node_before = None

    def tidy(self) -> None:
        """Let statements be planned anew now and then, soon after the start and then rarely: tables grow."""
        if time.monotonic() < self._plan_again_at or not self._connecting.is_there:
            return
        self._plan_wait = min(2 * self._plan_wait, LONGEST_PLANS)
        self._plan_again_at = time.monotonic() + self._plan_wait
        with suppress(psycopg.Error, StoreUnavailable):  # who writes next hears of it
            self._connecting.get().execute("DISCARD PLANS", prepare=False)

    def close(self) -> None:
        self._connecting.drop()
