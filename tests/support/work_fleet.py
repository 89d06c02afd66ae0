"""As much of a scheduler as a work source needs, to kill it at any request: rows of a store, runs, recovery."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.testing import FakeClock
from herdbeat.work.base import ClaimStatus, ReleaseStatus, WorkClaim, WorkSource
from herdbeat.work.http import HttpAnswer, HttpTransport


class Killed(BaseException):
    """The node is gone. Nothing in the source may catch this."""


class DyingTransport(HttpTransport):
    """Dies at the request with the given number, before or after it is executed."""

    def __init__(self, at_request: int, *, after: bool) -> None:
        super().__init__()
        self.count = 0
        self._at_request = at_request
        self._after = after

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: object = None) -> HttpAnswer:
        self.count += 1
        if self.count == self._at_request and not self._after:
            raise Killed
        answer = await super().request(method, url, headers, body)
        if self.count == self._at_request:
            raise Killed
        return answer


@dataclass(slots=True)
class Row:
    """What a store knows of one item."""

    claim: WorkClaim
    attempt: int
    report: Report | None = None


@dataclass(slots=True)
class Fleet:
    """As much of a scheduler as a work source needs: a row per item, written before the source is asked.

    `succeeds` decides how a run ends. `holding` is shared by fleets: two runs of one item at a time are the error that
    this is about.
    """

    clock: FakeClock
    name: str
    succeeds: Callable[[int], bool]
    holding: set[str] = field(default_factory=set)
    rows: dict[str, Row] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    markers: int = 0

    async def work_once(self, source: WorkSource) -> bool:
        """Take one item and run it. False if there is none to take."""
        items = [item for item in await source.list() if item.id not in self.rows]
        for item in items:
            if await self._take(source, item):
                return True
        return False

    async def _take(self, source: WorkSource, item: WorkItem) -> bool:
        self.markers += 1
        claim = WorkClaim(
            item=item,
            run_marker=f"{self.name}-{self.markers}",
            claimed_at=self.clock.now(),
            is_confirmed=False,
        )
        row = self.rows[item.id] = Row(claim, self.attempts[item.id] + 1)
        result = await source.claim(item, claim.run_marker)
        if result.status is not ClaimStatus.CLAIMED:
            del self.rows[item.id]
            return False
        row.claim = replace(claim, is_confirmed=True)
        await self._run(item.id, row)
        await self._report(source, item.id, row)
        return True

    async def _run(self, item: str, row: Row) -> None:
        assert item not in self.holding, "two runs of one item at the same time"
        self.holding.add(item)
        self.runs[item] += 1
        self.attempts[item] += 1
        await asyncio.sleep(0)
        self.holding.remove(item)
        row.report = Report(succeeded=self.succeeds(self.runs[item]), attempt=row.attempt, max_attempts=5)

    async def _report(self, source: WorkSource, item: str, row: Row) -> None:
        assert row.report is not None
        await source.report(row.claim, row.report)
        del self.rows[item]

    async def recover(self, source: WorkSource) -> None:
        """Do for every row what is left to do after its node has died."""
        for item, row in list(self.rows.items()):
            if row.report is not None:
                await self._report(source, item, row)
            elif await source.release(row.claim) is not ReleaseStatus.TOO_EARLY:
                del self.rows[item]

    async def finish(self, make_source: Callable[[], WorkSource]) -> None:
        """Go on until nothing is left to do."""
        for _ in range(20):
            source = make_source()
            await self.recover(source)
            if not await self.work_once(source) and not self.rows:
                return
            self.clock.advance(timedelta(minutes=11))
        raise AssertionError(f"never done: {self.rows}")


async def work_until_killed(fleet: Fleet, source: WorkSource) -> bool:
    """Work until there is nothing left. True if the node was killed before."""
    try:
        while await fleet.work_once(source):
            pass
    except Killed:
        fleet.holding.clear()
        return True
    return False
