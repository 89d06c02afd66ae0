"""Results on their way into the ledger: what ended while the last commit ran goes into the next one."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from herdbeat.crashpoints import Failpoint, failpoint
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.scheduler.finish import CompletionResult, complete_runs
from herdbeat.scheduler.quarantine import format_reason
from herdbeat.scheduler.timer import Timer
from herdbeat.store.base import FinishedRun, Store

log = logging.getLogger(__name__)

MAX_COMPLETION_BATCH = 1_000
MIN_RETRY_DELAY = timedelta(milliseconds=50)
MAX_RETRY_DELAY = timedelta(seconds=5)


class RunCompleter:
    """Writes results in groups, and keeps them until they are durable, however long the store is away.

    Only a last call ends that: see `last_call`.
    """

    def __init__(
        self,
        store: Store,
        timer: Timer,
        on_finished: Callable[[CompletionResult], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._timer = timer
        self._on_finished = on_finished
        self._on_lost = on_lost
        self._queue: list[FinishedRun] = []
        self._results_added = asyncio.Event()
        self._queue_empty = asyncio.Event()
        self._queue_empty.set()
        self._retry_delay = MIN_RETRY_DELAY
        self._batch_limit = MAX_COMPLETION_BATCH
        self._last_attempt_runs: set[int] = set()
        self._draining = asyncio.Event()

    def add(self, run: FinishedRun) -> None:
        self._queue.append(run)
        self._queue_empty.clear()
        self._results_added.set()

    @property
    def unwritten(self) -> int:
        """How many results are not durable yet."""
        return len(self._queue)

    def drain_once(self) -> None:
        """From now on try once more, without waiting, and then give up: a stop must come to an end."""
        self._draining.set()

    async def wait_drained(self) -> None:
        """Return once everything that was added is durable, or given up after the last call."""
        await self._queue_empty.wait()

    async def run(self) -> None:
        """Until cancelled. Wait for the first, then take all that are there."""
        while True:
            await self._results_added.wait()
            self._results_added.clear()
            while self._queue and await self._write(self._queue[: self._batch_limit]):
                pass
            self._queue_empty.set()

    async def _write(self, group: list[FinishedRun]) -> bool:
        """Whether to go on. Not if the store is away after the last call: what is left then stays unwritten."""
        is_last_attempt = self._draining.is_set()
        now = self._timer.now()
        failpoint(Failpoint.BEFORE_FINISH)
        try:
            finished = await self._store.write(lambda tx: complete_runs(tx, now, group))
        except StoreUnavailable as error:
            if not is_last_attempt:
                await self._back_off(error, now)
            return not is_last_attempt
        except ClaimLost as error:
            # Somebody else has closed these runs already, and may have started what follows them.
            log.error("results dropped runs=%s error=%s", len(self._queue), error)  # noqa: TRY400
            self._queue.clear()
            self._on_lost()
            return False
        except Exception as error:  # noqa: BLE001 - one result that cannot be written must not hold up the others
            self._bisect_batch(group, error)
            return True
        del self._queue[: len(group)]
        self._retry_delay, self._batch_limit = MIN_RETRY_DELAY, MAX_COMPLETION_BATCH
        failpoint(Failpoint.AFTER_FINISH)
        self._on_finished(finished)
        return True

    def _bisect_batch(self, group: list[FinishedRun], error: Exception) -> None:
        """Half the group next time, until the bad one is alone: then it goes in as failed, without what was bad."""
        self._batch_limit = max(1, len(group) // 2)
        if len(group) > 1:
            return
        run = group[0]
        if run.run_id in self._last_attempt_runs:
            log.error("result given up run=%s error=%r the run is swept at the next start", run.run_id, error)
            self._last_attempt_runs.discard(run.run_id)
            del self._queue[0]
            return
        log.error("result cannot be written run=%s error=%r it is recorded as failed", run.run_id, error)
        self._last_attempt_runs.add(run.run_id)
        self._queue[0] = _replace_with_failure(run, error)

    async def _back_off(self, error: StoreUnavailable, now: datetime) -> None:
        waiting = len(self._queue)
        log.warning(
            "results wait for the store runs=%s error=%s %s retry_in=%s", waiting, error, error.hint, self._retry_delay
        )
        await self._timer.sleep_until(now + self._retry_delay, self._draining)
        self._retry_delay = min(self._retry_delay * 2, MAX_RETRY_DELAY)


def _replace_with_failure(run: FinishedRun, error: Exception) -> FinishedRun:
    message = f"its result could not be written down ({format_reason(error)})"
    return FinishedRun(run.run_id, run.started_at, Outcome(status=RunStatus.FAILED, error=message))
