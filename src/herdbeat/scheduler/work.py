"""Take an item of work before a run: ask the source what is offered, write the claim, and only then claim the item.

No transaction waits for a source. A node that dies between two of these steps leaves a row in the ledger, and the
sweep (`work_settle`) finds out what the source knows of it.
"""

import logging
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from herdbeat.clock import Clock
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.work_claim import NewWorkClaim, WorkClaimRecord, WorkClaimState
from herdbeat.domain.work_item import WorkItem
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.scheduler.claim import ClaimContext
from herdbeat.scheduler.work_claims import (
    StartedItem,
    confirm_claim,
    read_max_attempts,
    start_more_runs,
    to_work_claim,
)
from herdbeat.store.base import Store, Transaction
from herdbeat.work.base import ClaimStatus, WorkClaimResult, WorkSource, WorkSourceFailed

log = logging.getLogger(__name__)

MAX_CLAIM_TRIES = 20
"""Items that one run tries to claim before it gives up: a source with so many lost claims has workers enough."""

_NO_WORK = Outcome(status=RunStatus.SKIPPED, skip=SkipReason.NO_WORK)

Spec = Mapping[str, object]
"""A `work_source:` as plain data."""


class SourcePool(Protocol):
    """The work sources of a node, opened on first use."""

    def get(self, spec: Spec) -> WorkSource:
        """Return the source of a specification. Raises WorkSourceFailed if it cannot work."""
        ...


class RunStarter(Protocol):
    """The loop of a node, as far as one beat needs it to start further runs."""

    def claim_context(self) -> ClaimContext:
        """Return what the node may start now. A node that stops has no free slots."""
        ...

    def start_more(self, claims: Sequence[Claim]) -> None:
        """Start runs that are already in the ledger."""
        ...


def make_run_marker(run_id: int) -> str:
    """Return a marker that no other run has, in any fleet: several fleets may share one source."""
    return f"{format_short_id(run_id)}-{secrets.token_hex(6)}"


@dataclass(slots=True)
class _Offer:
    """The items that one beat has listed. Its runs take from it in turn."""

    source: WorkSource
    items: deque[WorkItem]


class WorkFetcher:
    """Takes items for the runs of one node."""

    def __init__(
        self,
        store: Store,
        sources: SourcePool,
        clock: Clock,
        host: str,
        make_marker: Callable[[int], str] = make_run_marker,
    ) -> None:
        self._store = store
        self._sources = sources
        self._clock = clock
        self._host = host
        self._make_marker = make_marker
        self._starter: RunStarter | None = None
        self._started: dict[int, tuple[_Offer, StartedItem]] = {}
        self._lost: dict[str, set[str]] = {}

    def attach(self, starter: RunStarter) -> None:
        """Start further runs through this loop from now on."""
        self._starter = starter

    def is_further_run(self, run_id: int) -> bool:
        """True for a run that another run of its beat has started, for one of the items that it listed."""
        return run_id in self._started

    async def take(self, claim: Claim, spec: Spec, *, max_runs: int) -> WorkItem | Outcome:
        """Return the item that this run works on, as it was read after the claim; or why the run is skipped.

        With room for more than one run, the others of the beat are started, one for each further item.
        """
        offer, first = self._started.pop(claim.run_id, (None, None))
        try:
            if offer is None:
                offer = await self._list(spec)
            item = await self._take_next(claim, spec, offer, first)
        except WorkSourceFailed as error:
            note = f"{error.message} {error.hint}".strip()
            log.warning("work source failed schedule=%s error=%s", claim.label, note)
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.WORK_SOURCE_ERROR, note=note)
        if item is None:
            return _NO_WORK
        if first is None and max_runs > 1 and claim.source.is_clock and offer.items:
            await self._start_more(claim, spec, offer)
        return item

    async def _list(self, spec: Spec) -> _Offer:
        source = self._sources.get(spec)
        items = await source.list()
        failpoint(Failpoint.AFTER_WORK_LIST)
        taken = await self._store.write(lambda tx: tx.work_list_taken(source.key, [item.id for item in items]))
        # Last what was lost before and is still listed: twenty such items would hide all others in every beat.
        lost = self._lost[source.key] = self._lost.get(source.key, set()) & {item.id for item in items}
        offered = [item for item in items if item.id not in taken]
        return _Offer(source, deque(sorted(offered, key=lambda item: item.id in lost)))

    async def _take_next(self, claim: Claim, spec: Spec, offer: _Offer, first: StartedItem | None) -> WorkItem | None:
        """Claim one item after the other until one is ours. Returns None if there is none left."""
        if first is not None and first.record is not None:
            item = await self._claim(offer.source, first.item, first.record)
            if item is not None:
                return item
        for _ in range(MAX_CLAIM_TRIES):
            if not offer.items:
                return None
            candidate = offer.items.popleft()
            record = await self._add(self._build(claim, spec, offer.source, candidate, len(offer.items)))
            item = None if record is None else await self._claim(offer.source, candidate, record)
            if item is not None:
                return item
        return None

    def _build(self, claim: Claim, spec: Spec, source: WorkSource, item: WorkItem, items_left: int) -> NewWorkClaim:
        return NewWorkClaim(
            source=source.key,
            item=item.id,
            marker=self._make_marker(claim.run_id),
            schedule_id=claim.schedule_id,
            run_id=claim.run_id,
            max_attempts=read_max_attempts(spec),
            kept=replace(item, body=""),
            spec=spec,
            host=self._host if source.is_local else None,
            remembers=not source.claims_remotely,
            items_left=items_left,
        )

    async def _add(self, new: NewWorkClaim) -> WorkClaimRecord | None:
        def add(tx: Transaction) -> WorkClaimRecord | None:
            number = tx.work_add(new, self._clock.now())
            return None if number is None else tx.work_get([number])[number]

        record = await self._store.write(add)
        failpoint(Failpoint.AFTER_WORK_ROW)
        return record

    async def _claim(self, source: WorkSource, item: WorkItem, record: WorkClaimRecord) -> WorkItem | None:
        """Ask the source for the item. If that fails, the row stays, because the source may have given it to us."""
        result = await source.claim(item, record.marker)
        failpoint(Failpoint.AFTER_WORK_CLAIM)
        if result.status is not ClaimStatus.CLAIMED or result.item is None:
            await self._give_up(record, result)
            return None
        taken = result.item
        try:
            confirmed = await self._store.write(lambda tx: confirm_claim(tx, record.id, taken, result.offered_at))
        except ClaimLost:
            # Another node has ended this run, and may have looked at the source before our claim was there.
            await self._return(source, record)
            raise
        if confirmed is None:
            await self._return(source, record)
            return None
        return taken if confirmed.state is WorkClaimState.CLAIMED else None

    async def _give_up(self, record: WorkClaimRecord, result: WorkClaimResult) -> None:
        is_blocked = result.status is ClaimStatus.BLOCKED
        self._lost.setdefault(record.source, set()).add(record.item)
        state = WorkClaimState.BLOCKED if is_blocked else WorkClaimState.LOST
        ended = replace(record, state=state, reason=result.reason, ended_at=self._clock.now())
        await self._store.write(lambda tx: tx.work_change([ended]))
        if is_blocked:
            log.warning("work item blocked source=%s item=%s reason=%s", record.source, record.item, result.reason)

    async def _return(self, source: WorkSource, record: WorkClaimRecord) -> None:
        """Offer an item again that is not ours in the ledger."""
        try:
            await source.release(replace(to_work_claim(record), is_confirmed=True))
        except WorkSourceFailed as error:
            log.error("work item not released source=%s item=%s error=%s", record.source, record.item, error)  # noqa: TRY400

    async def _start_more(self, claim: Claim, spec: Spec, offer: _Offer) -> None:
        """Start a run for each further item that there is room for. Without a store there are none this time."""
        if self._starter is None:
            return
        context = self._starter.claim_context()
        others = len(offer.items) - 1
        offered = [
            (item, self._build(claim, spec, offer.source, item, others - position))
            for position, item in enumerate(offer.items)
        ]
        now = self._clock.now()
        try:
            started = await self._store.write(
                lambda tx: start_more_runs(tx, now, context, claim, offered, self._make_marker)
            )
        except (StoreUnavailable, ClaimLost) as error:
            log.warning("further items not started schedule=%s error=%s", claim.label, error)
            return
        begun = {each.item.id for each in started}
        offer.items = deque(item for item in offer.items if item.id not in begun)
        self._started |= {each.claim.run_id: (offer, each) for each in started}
        self._starter.start_more([each.claim for each in started])
