"""Settle claims whose run has ended: deliver the report, or offer the item again. Repeated until the source has it.

The ledger says what is left to do, so a node may die anywhere: reports and releases carry the run's marker, and a
source does only what is left of one that is repeated.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from herdbeat.domain.work_claim import WorkClaimRecord, WorkClaimState
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.scheduler.timers import Timer
from herdbeat.scheduler.work import SourcePool, WorkFetcher
from herdbeat.scheduler.work_claims import to_work_claim
from herdbeat.store.base import Store, Transaction
from herdbeat.work.base import ReleaseStatus, WorkSourceFailed, call_source

log = logging.getLogger(__name__)

SETTLE_LEASE = timedelta(minutes=3)
"""For so long other nodes leave a claim to the node that settles it. A source answers or gives up well within it."""

DRAIN_TIMEOUT = timedelta(seconds=5)
"""For so long a node that stops continues to deliver reports. The next start delivers the rest."""

POLL_INTERVAL = timedelta(seconds=30)
"""A node that died leaves claims that nothing announces."""

FIRST_RETRY_DELAY = timedelta(seconds=5)
MAX_RETRY_DELAY = timedelta(minutes=15)
EARLY_RETRY_DELAY = timedelta(minutes=1)
"""Until an unconfirmed claim is asked about again whose label may still be somebody else's."""

MAX_DELAY = timedelta(days=1)
"""A source that asks us to wait longer is asked again after a day."""

MAX_SETTLED_AT_ONCE = 20


class WorkSettler:
    """Reports and releases for one node, one claim after the other.

    A node that `is_alone` takes up at once what it was settling when it was killed; of several, each waits until the
    lease of the dead one on the claim is over.
    """

    def __init__(self, store: Store, sources: SourcePool, timer: Timer, host: str, *, is_alone: bool = True) -> None:
        self._store = store
        self._sources = sources
        self._timer = timer
        self._host = host
        self._is_alone = is_alone
        self._woken = asyncio.Event()
        self._lock = asyncio.Lock()

    def wake(self) -> None:
        """Look now: a run with an item has ended."""
        self._woken.set()

    async def run(self) -> None:
        """Settle until cancelled."""
        if self._is_alone:
            await self._reclaim()
        while True:
            self._woken.clear()
            next_at = await self.settle_due()
            now = self._timer.now()
            wake_at = now + POLL_INTERVAL if next_at is None else min(max(next_at, now), now + POLL_INTERVAL)
            if wake_at > now:
                await self._timer.sleep_until(wake_at, self._woken)

    async def drain(self) -> None:
        """Deliver what the last runs have left, for a few seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT.total_seconds()):
                await self.settle_due()

    async def settle_due(self) -> datetime | None:
        """Settle what is due, and return when to look again. Without a store: later."""
        async with self._lock:
            return await self._settle_due(self._timer.now())

    async def _reclaim(self) -> None:
        try:
            await self._store.write(lambda tx: tx.work_take_over(self._host))
        except StoreUnavailable as error:
            log.debug("work items not taken over error=%s", error)

    async def _settle_due(self, now: datetime) -> datetime | None:
        try:
            claims, next_at = await self._store.write(lambda tx: self._take_due(tx, now))
            if not claims:
                return next_at
            for claim in claims:
                settled = await self._settle(claim)
                failpoint(Failpoint.AFTER_WORK_REPORT)
                await self._store.write(lambda tx, settled=settled: tx.work_change([settled]))  # type: ignore[misc]
            return await self._store.write(lambda tx: tx.work_next_unsettled(self._host))
        except (StoreUnavailable, ClaimLost) as error:
            log.debug("work items not settled error=%s", error)
            return None

    def _take_due(self, tx: Transaction, now: datetime) -> tuple[list[WorkClaimRecord], datetime | None]:
        """Take what is due, and find when the next is, in one transaction: mostly there is neither."""
        claims = tx.work_take_unsettled(now, now + SETTLE_LEASE, self._host, MAX_SETTLED_AT_ONCE)
        return claims, tx.work_next_unsettled(self._host)

    async def _settle(self, claim: WorkClaimRecord) -> WorkClaimRecord:
        """Return the claim after one try. A failing source changes nothing about the run."""
        settle = self._release if claim.report is None else self._report
        settled, error = await call_source(lambda: settle(claim))
        if settled is not None:
            return settled
        if isinstance(error, WorkSourceFailed):
            return self._try_later(claim, error.message, error.retry_after)
        text = "internal error while a work item was settled source=%s item=%s"
        log.error(text, claim.source, claim.item, exc_info=error)
        return self._try_later(claim, f"{type(error).__name__}: {error}", None)

    def _try_later(self, claim: WorkClaimRecord, reason: str, retry_after: timedelta | None) -> WorkClaimRecord:
        delay = min(max(_retry_delay(claim.tries), retry_after or timedelta(0)), MAX_DELAY)
        verb = "reported" if claim.report is not None else "released"
        log.warning("work item not %s item=%s error=%s retry in %s", verb, claim.item, reason, delay)
        return replace(claim, tries=claim.tries + 1, reason=reason, next_at=self._timer.now() + delay)

    async def _report(self, claim: WorkClaimRecord) -> WorkClaimRecord:
        assert claim.report is not None
        await self._sources.get(claim.spec).report(to_work_claim(claim), claim.report)
        return self._end(claim, WorkClaimState.REPORTED)

    async def _release(self, claim: WorkClaimRecord) -> WorkClaimRecord:
        status = await self._sources.get(claim.spec).release(to_work_claim(claim))
        match status:
            case ReleaseStatus.TOO_EARLY:
                return replace(claim, tries=claim.tries + 1, next_at=self._timer.now() + EARLY_RETRY_DELAY)
            case ReleaseStatus.RELEASED:
                return self._end(claim, WorkClaimState.RELEASED)
            case ReleaseStatus.NOT_OURS | ReleaseStatus.GONE:
                is_confirmed = claim.state is not WorkClaimState.CLAIMING
                return self._end(claim, WorkClaimState.RELEASED if is_confirmed else WorkClaimState.LOST)

    def _end(self, claim: WorkClaimRecord, state: WorkClaimState) -> WorkClaimRecord:
        return replace(claim, state=state, ended_at=self._timer.now(), next_at=None)


def _retry_delay(tries: int) -> timedelta:
    return min(FIRST_RETRY_DELAY * (1 << min(tries, 20)), MAX_RETRY_DELAY)


@dataclass(frozen=True, slots=True)
class NodeWork:
    """What a node has for schedules with a work source."""

    fetcher: WorkFetcher
    settler: WorkSettler
