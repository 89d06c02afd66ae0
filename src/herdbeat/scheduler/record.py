"""Results on their way into the ledger: what ended while the last commit ran goes into the next one."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from herdbeat.crashpoints import CrashPoint, pass_by
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.scheduler.finish import Finished, finish
from herdbeat.scheduler.quarantine import reason_of
from herdbeat.scheduler.timer import Timer
from herdbeat.store.base import FinishedRun, Store

log = logging.getLogger(__name__)

BATCH = 1_000
FIRST_WAIT = timedelta(milliseconds=50)
LONGEST_WAIT = timedelta(seconds=5)


class Recorder:
    """Writes results in groups, and keeps them until they are durable, however long the store is away.

    Only a last call ends that: see `last_call`.
    """

    def __init__(
        self,
        store: Store,
        timer: Timer,
        on_finished: Callable[[Finished], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._timer = timer
        self._on_finished = on_finished
        self._on_lost = on_lost
        self._ended: list[FinishedRun] = []
        self._something = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._wait = FIRST_WAIT
        self._most = BATCH
        self._last_try: set[int] = set()
        self._hurry = asyncio.Event()

    def add(self, run: FinishedRun) -> None:
        self._ended.append(run)
        self._empty.clear()
        self._something.set()

    @property
    def unwritten(self) -> int:
        """How many results are not durable yet."""
        return len(self._ended)

    def last_call(self) -> None:
        """From now on try once more, without waiting, and then give up: a stop must come to an end."""
        self._hurry.set()

    async def drained(self) -> None:
        """Return once everything that was added is durable, or given up after the last call."""
        await self._empty.wait()

    async def run(self) -> None:
        """Until cancelled. Wait for the first, then take all that are there."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._ended and await self._write(self._ended[: self._most]):
                pass
            self._empty.set()

    async def _write(self, group: list[FinishedRun]) -> bool:
        """Whether to go on. Not if the store is away after the last call: what is left then stays unwritten."""
        is_last = self._hurry.is_set()
        now = self._timer.now()
        pass_by(CrashPoint.BEFORE_FINISH)
        try:
            finished = await self._store.write(lambda tx: finish(tx, now, group))
        except StoreUnavailable as error:
            if not is_last:
                await self._try_again(error, now)
            return not is_last
        except ClaimLost as error:
            # Somebody else has closed these runs already, and may have started what follows them.
            log.error("results dropped runs=%s error=%s", len(self._ended), error)  # noqa: TRY400
            self._ended.clear()
            self._on_lost()
            return False
        except Exception as error:  # noqa: BLE001 - one result that cannot be written must not hold up the others
            self._narrow_down(group, error)
            return True
        del self._ended[: len(group)]
        self._wait, self._most = FIRST_WAIT, BATCH
        pass_by(CrashPoint.AFTER_FINISH)
        self._on_finished(finished)
        return True

    def _narrow_down(self, group: list[FinishedRun], error: Exception) -> None:
        """Half the group next time, until the bad one is alone: then it goes in as failed, without what was bad."""
        self._most = max(1, len(group) // 2)
        if len(group) > 1:
            return
        run = group[0]
        if run.run_id in self._last_try:
            log.error("result given up run=%s error=%r the run is swept at the next start", run.run_id, error)
            self._last_try.discard(run.run_id)
            del self._ended[0]
            return
        log.error("result cannot be written run=%s error=%r it is recorded as failed", run.run_id, error)
        self._last_try.add(run.run_id)
        self._ended[0] = _without_result(run, error)

    async def _try_again(self, error: StoreUnavailable, now: datetime) -> None:
        waiting = len(self._ended)
        log.warning(
            "results wait for the store runs=%s error=%s %s retry_in=%s", waiting, error, error.hint, self._wait
        )
        await self._timer.sleep_until(now + self._wait, self._hurry)
        self._wait = min(self._wait * 2, LONGEST_WAIT)


def _without_result(run: FinishedRun, error: Exception) -> FinishedRun:
    said = f"its result could not be written down ({reason_of(error)})"
    return FinishedRun(run.run_id, run.started_at, Outcome(status=RunStatus.FAILED, error=said))
