"""Maintenance while the fleet runs: the invariant scan every few minutes, retention every hour."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from herdbeat.domain.fleet import Retention
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.events import EventListener, InconsistencyRepaired, null_listener
from herdbeat.scheduler.repair.consistency import Inconsistency, inspect, repair
from herdbeat.scheduler.timers import Timer
from herdbeat.service.maintenance.retention import prune_history
from herdbeat.store.audit import LedgerAudit
from herdbeat.store.base import Store
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

SCAN_INTERVAL = timedelta(minutes=5)
PRUNE_INTERVAL = timedelta(hours=1)
MAX_PAGES_PER_SCAN = 20
"""Pages of suspects in one pass. The next pass continues after them."""


class MaintenanceWorker:
    """Runs beside the scheduler loop. A failure is logged, and the work is tried again the next time."""

    def __init__(
        self,
        store: Store,
        audit: LedgerAudit,
        timer: Timer,
        retention: Retention,
        listener: EventListener = null_listener,
        prune_workspaces: Callable[[datetime], int] | None = None,
    ) -> None:
        self._store, self._audit, self._timer, self._retention = store, audit, timer, retention
        self._publish = listener
        self._prune_workspaces = prune_workspaces
        self._scan_cursor = 0

    async def run(self) -> None:
        """Scan and prune until cancelled."""
        never = asyncio.Event()
        prune_at = self._timer.now()
        while True:
            await self._run_safely("scan", self.scan)
            if self._timer.now() >= prune_at:
                prune_at = self._timer.now() + PRUNE_INTERVAL
                await self._run_safely("prune", self.prune)
            await self._timer.sleep_until(self._timer.now() + SCAN_INTERVAL, never)

    async def scan(self) -> None:
        """Find broken invariants, a page at a time, repair them and publish each repair."""
        for _ in range(2):  # a wrong counter hides beats that wait: the second pass sees them
            now = self._timer.now()
            repairs, self._scan_cursor = await repair_inconsistencies(self._store, self._audit, now, self._scan_cursor)
            for each in repairs:
                log.warning("ledger repaired subject=%s what=%s", *each)
                self._publish(InconsistencyRepaired(self._timer.now(), *each))
            if not repairs:
                return

    async def prune(self) -> None:
        pruned = await prune_history(self._store, self._audit, self._retention, self._timer.now())
        if pruned.beats:
            log.info("history pruned beats=%s runs=%s logs=%s", pruned.beats, pruned.runs, pruned.logs)
        if self._prune_workspaces is not None:
            removed = await call_in_thread(self._prune_workspaces, self._timer.now())
            if removed:
                log.info("workspaces pruned count=%s", removed)

    async def _run_safely(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (StoreUnavailable, ClaimLost) as error:
            # ClaimLost: the node has lost its lease, and joins again. Its next registration does this work.
            log.warning("maintenance postponed what=%s error=%s retry in %s", name, error, SCAN_INTERVAL)
        except Exception:
            # Scheduling does not depend on this work, so an error in it must not stop the node.
            log.exception("maintenance failed what=%s the fleet continues; retry in %s", name, SCAN_INTERVAL)


async def repair_inconsistencies(
    store: Store, audit: LedgerAudit, now: datetime, after: int = 0
) -> tuple[list[Inconsistency], int]:
    """Run one pass. Return the repairs, and the schedule after which the next pass continues (0: from the start).

    Suspects are inspected on a connection of their own, and the writer is used only when something is wrong: schedules
    whose life is over look like stuck ones, and a fleet may have very many of them.
    """
    repairs: list[Inconsistency] = []
    for page in range(MAX_PAGES_PER_SCAN):
        suspects = await call_in_thread(audit.find_inconsistencies, now, after, only_schedules=page > 0)
        inspection = await call_in_thread(audit.read_transaction, partial(inspect, now=now, suspects=suspects))
        if inspection.findings:
            repairs += await store.write(partial(repair, now=now, suspects=suspects))
        after = suspects.last or 0
        if not after:
            break
    return repairs, after
