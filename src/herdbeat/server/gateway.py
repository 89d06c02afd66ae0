"""The fleet as the routes see it: readers of the ledger to borrow, and the command bus."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from herdbeat.bootstrap.handle import FleetHandle, Reader
from herdbeat.bootstrap.server_spec import ServerSpec, load_own_fleet, read_config_values
from herdbeat.errors import HerdbeatError, NotFound, ReadTimeout, StateLocked, StoreUnavailable
from herdbeat.service.commands.base import Actor, Command
from herdbeat.service.commands.dispatch import Delivery, LoadedFleet

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import ResolvedValue

R = TypeVar("R")

MAX_IDLE_READERS = 8
MAX_READ = timedelta(seconds=1)
"""A longer read keeps SQLite from moving its log and PostgreSQL from cleaning up: it would slow the scheduler."""

ISOLATION_CHECK_S = 1.0

OUTAGE_LOG_INTERVAL_S = 60.0
_OUTAGE_MESSAGE = "The ledger or the scheduler does not answer."
_OUTAGE_HINT = "Try again. If it lasts, the log of the server says why, and herdbeat doctor looks for the cause."

log = logging.getLogger(__name__)


class FleetGateway:
    """Lends readers to requests, which run in threads. A reader that failed is closed, and the next one reconnects."""

    def __init__(self, spec: ServerSpec, handle: FleetHandle, environ: Mapping[str, str]) -> None:
        self.spec = spec
        self._handle = handle
        self._environ = environ
        self._idle: list[Reader] = []
        self._lock = threading.Lock()
        self._has_isolation = spec.has_isolation
        self._isolation_checked_at = float("-inf")
        self._checked_change = -1
        self._outage_logged_at = float("-inf")

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    @property
    def handle(self) -> FleetHandle:
        """The fleet now, without a reader. A ledger that did not exist at the start is noticed."""
        with self.hide_outage_details():
            found = self._handle if self._handle.has_ledger else self._handle.use_ledger_clock()
            self._handle = found
            return replace(found, now=found.clock.now())

    @contextmanager
    def open(self) -> Iterator[FleetHandle]:
        """Yield the fleet with a reader. Raises NotFound if nothing has ever run, StoreUnavailable."""
        handle = self.handle
        if not handle.has_ledger:
            raise NotFound("This fleet has never been started.", hint="Start it with: herdbeat up")
        reader, has_failed = self._take(handle), False
        try:
            with self.hide_outage_details():
                yield replace(handle, reader=reader)
        except StoreUnavailable:
            has_failed = True
            raise
        finally:
            if has_failed:
                reader.close()
            else:
                self._put_back(reader)

    def open_own_reader(self) -> Reader:
        """Return a reader that the caller closes. Raises NotFound if nothing has ever run, StoreUnavailable."""
        handle = self.handle
        if not handle.has_ledger:
            raise NotFound("This fleet has never been started.", hint="Start it with: herdbeat up")
        return self._open_limited(handle)

    def deliver(self, actor: Actor, command: Command[R], request_id: str = "") -> Delivery[R]:
        """Execute a command. Raises what that raises; StoreUnavailable if the ledger or its writer does not answer."""
        with self.hide_outage_details():
            return self.handle.dispatcher.deliver(actor, command, request_id=request_id)

    @contextmanager
    def hide_outage_details(self) -> Iterator[None]:
        """Leave out of the error of a ledger that does not answer its address and its user: these are not for callers.

        Without the ledger, which has their tokens, callers are not known. The log has the whole error, once a minute.
        """
        try:
            yield
        except ReadTimeout:
            raise
        except (StoreUnavailable, StateLocked) as error:
            self._log_outage(error)
            raise StoreUnavailable(_OUTAGE_MESSAGE, hint=_OUTAGE_HINT) from error

    def _log_outage(self, error: HerdbeatError) -> None:
        if error.message != _OUTAGE_MESSAGE and time.monotonic() - self._outage_logged_at > OUTAGE_LOG_INTERVAL_S:
            self._outage_logged_at = time.monotonic()
            log.warning("ledger does not answer error=%s requests get 503 until it does", error.message)

    def load_own_fleet(self) -> LoadedFleet:
        """Read the fleet's own files. Raises ConfigError, Conflict if this machine has none."""
        return load_own_fleet(self.spec, self._environ)

    def read_config_values(self) -> "tuple[ResolvedValue, ...]":
        """Return what the files say, secrets hidden. Raises ConfigError, Conflict if this machine has none."""
        return read_config_values(self.spec, self._environ)

    def has_isolation(self) -> bool:
        """Whether the fleet isolates an agent, also one that was added since this server has started."""
        if not self.spec.has_isolation and time.monotonic() - self._isolation_checked_at > ISOLATION_CHECK_S:
            self._isolation_checked_at = time.monotonic()
            self._check_isolation()
        return self._has_isolation

    def _check_isolation(self) -> None:
        """Look for isolated agents if the fleet has changed. Raises StoreUnavailable."""
        if not self.handle.has_ledger:
            return
        with self.open() as handle:
            reader = handle.require_reader()
            newest_change = reader.ledger_position().change
            if newest_change != self._checked_change:
                self._has_isolation = reader.has_isolation()
                self._checked_change = newest_change

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def _take(self, handle: FleetHandle) -> Reader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._open_limited(handle)

    def _open_limited(self, handle: FleetHandle) -> Reader:
        with self.hide_outage_details():
            reader = handle.open_reader()
        reader.limit_reads(MAX_READ)
        return reader

    def _put_back(self, reader: Reader) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE_READERS:
                self._idle.append(reader)
                return
        reader.close()
