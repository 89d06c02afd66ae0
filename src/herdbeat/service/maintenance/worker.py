"""Keeping the ledger well while the fleet runs: the invariant scan every few minutes, retention every hour."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from herdbeat.domain.fleet import Retention
from herdbeat.errors import StoreUnavailable
from herdbeat.events import EventListener, InconsistencyRepaired, null_listener
from herdbeat.scheduler.repair.consistency import Inconsistency, inspect, repair
from herdbeat.scheduler.timers import Timer
from herdbeat.service.maintenance.retention import prune_history
from herdbeat.store.base import Store
from herdbeat.store.location import LedgerAudit

log = logging.getLogger(__name__)

SCAN_INTERVAL = timedelta(minutes=5)
PRUNE_INTERVAL = timedelta(hours=1)
MAX_PAGES_PER_SCAN = 20
"""Pages of suspects in one pass; the next pass goes on from there."""


class MaintenanceWorker:
    """Runs beside the loop. Whatever goes wrong here is said, and tried again the next time."""

    def __init__(
        self,
        store: Store,
        audit: LedgerAudit,
        timer: Timer,
        retention: Retention,
        *,
        listener: EventListener = null_listener,
    ) -> None:
        self._store = store
        self._audit = audit
        self._timer = timer
        self._retention = retention
        self._publish = listener
        self._scan_cursor = 0

    async def run(self) -> None:
        """Until cancelled."""
        never = asyncio.Event()
        prune_at = self._timer.now()
        while True:
            await self._run_safely("scan", self.scan)
            if self._timer.now() >= prune_at:
                prune_at = self._timer.now() + PRUNE_INTERVAL
                await self._run_safely("prune", self.prune)
            await self._timer.sleep_until(self._timer.now() + SCAN_INTERVAL, never)

    async def scan(self) -> None:
        """Find what cannot be, a page at a time, put it right, and say so."""
        for _ in range(2):  # what was miscounted may hide what waits: the second look sees it
            found, self._scan_cursor = await repair_inconsistencies(
                self._store, self._audit, self._timer.now(), self._scan_cursor
            )
            for each in found:
                log.warning("ledger mended subject=%s what=%s", *each)
                self._publish(InconsistencyRepaired(self._timer.now(), *each))
            if not found:
                return

    async def prune(self) -> None:
        pruned = await prune_history(self._store, self._audit, self._retention, self._timer.now())
        if pruned.beats:
            log.info("history pruned beats=%s runs=%s logs=%s", pruned.beats, pruned.runs, pruned.logs)

    async def _run_safely(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreUnavailable as error:
            log.warning("upkeep put off what=%s error=%s next in %s", name, error, SCAN_INTERVAL)
        except Exception:
            log.exception("upkeep failed what=%s the fleet goes on, next in %s", name, SCAN_INTERVAL)


async def repair_inconsistencies(
    store: Store, audit: LedgerAudit, now: datetime, after: int = 0
) -> tuple[list[Inconsistency], int]:
    """One pass, and the schedule after which the next one goes on: 0 when this one came to the end.

    Suspects are looked at beside the writer, which is only troubled when something is really wrong: schedules whose
    life is over look like stuck ones, and a fleet may have very many of them.
    """
    found: list[Inconsistency] = []
    for page in range(MAX_PAGES_PER_SCAN):
        suspects = await asyncio.to_thread(audit.find_inconsistencies, now, after, only_schedules=page > 0)
        inspection = await asyncio.to_thread(audit.read_transaction, partial(inspect, now=now, suspects=suspects))
        if inspection.findings:
            found += await store.write(partial(repair, now=now, suspects=suspects))
        after = suspects.last or 0
        if not after:
            break
    return found, after
