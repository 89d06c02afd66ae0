"""Keeping the ledger well while the fleet runs: the invariant scan every few minutes, retention every hour."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from herdbeat.domain.fleet import Retention
from herdbeat.errors import StoreUnavailable
from herdbeat.events import LedgerMended, Listener, nobody
from herdbeat.scheduler.scan import Finding, examine, mend
from herdbeat.scheduler.timer import Timer
from herdbeat.service.retention import prune
from herdbeat.store.base import Store
from herdbeat.store.opening import Audit

log = logging.getLogger(__name__)

SCAN_EVERY = timedelta(minutes=5)
PRUNE_EVERY = timedelta(hours=1)
PAGES = 20
"""Pages of suspects in one pass; the next pass goes on from there."""


class Upkeep:
    """Runs beside the loop. Whatever goes wrong here is said, and tried again the next time."""

    def __init__(
        self,
        store: Store,
        audit: Audit,
        timer: Timer,
        retention: Retention,
        *,
        listener: Listener = nobody,
    ) -> None:
        self._store = store
        self._audit = audit
        self._timer = timer
        self._retention = retention
        self._tell = listener
        self._go_on_after = 0

    async def run(self) -> None:
        """Until cancelled."""
        never = asyncio.Event()
        prune_at = self._timer.now()
        while True:
            await self._contained("scan", self.scan)
            if self._timer.now() >= prune_at:
                prune_at = self._timer.now() + PRUNE_EVERY
                await self._contained("prune", self.prune)
            await self._timer.sleep_until(self._timer.now() + SCAN_EVERY, never)

    async def scan(self) -> None:
        """Find what cannot be, a page at a time, put it right, and say so."""
        for _ in range(2):  # what was miscounted may hide what waits: the second look sees it
            found, self._go_on_after = await scan(self._store, self._audit, self._timer.now(), self._go_on_after)
            for each in found:
                log.warning("ledger mended subject=%s what=%s", *each)
                self._tell(LedgerMended(self._timer.now(), *each))
            if not found:
                return

    async def prune(self) -> None:
        pruned = await prune(self._store, self._audit, self._retention, self._timer.now())
        if pruned.beats:
            log.info("history pruned beats=%s runs=%s logs=%s", pruned.beats, pruned.runs, pruned.logs)

    async def _contained(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreUnavailable as error:
            log.warning("upkeep put off what=%s error=%s next in %s", name, error, SCAN_EVERY)
        except Exception:
            log.exception("upkeep failed what=%s the fleet goes on, next in %s", name, SCAN_EVERY)


async def scan(store: Store, audit: Audit, now: datetime, after: int = 0) -> tuple[list[Finding], int]:
    """One pass, and the schedule after which the next one goes on: 0 when this one came to the end.

    Suspects are looked at beside the writer, which is only troubled when something is really wrong: schedules whose
    life is over look like stuck ones, and a fleet may have very many of them.
    """
    found: list[Finding] = []
    for page in range(PAGES):
        suspects = await asyncio.to_thread(audit.suspects, now, after, only_schedules=page > 0)
        seen = await asyncio.to_thread(audit.peek, partial(examine, now=now, suspects=suspects))
        if seen.findings:
            found += await store.write(partial(mend, now=now, suspects=suspects))
        after = suspects.last or 0
        if not after:
            break
    return found, after
