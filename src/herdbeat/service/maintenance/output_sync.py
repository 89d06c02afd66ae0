"""Copies the end of run logs into a shared ledger for other nodes, while a run is active and when it ends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from herdbeat.domain.run import Claim
from herdbeat.errors import StoreUnavailable
from herdbeat.runners.run_log import read_log_tail, track_opened_logs
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import FinishedRun, SharedStore
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

MAX_STORED_OUTPUT_BYTES = 64 * 1024
"""The end of a log that the ledger keeps of a finished run. The whole log stays with the node that ran it."""

MAX_LIVE_OUTPUT_BYTES = 16 * 1024
"""Less while the run is active, because it is written every few seconds."""

SYNC_INTERVAL = timedelta(seconds=2)
MAX_RUNS_PER_SYNC = 32
"""A hundred runs that print all the time must not cost the database more than the work they do."""

ExecuteRun = Callable[[Claim], Awaitable[FinishedRun]]


@dataclass(slots=True)
class _TrackedOutput:
    """One run: its log files, once it has printed something, and how many bytes are in the ledger."""

    paths: list[Path]
    synced_bytes: int = 0
    is_over: bool = False

    def length(self) -> int:
        try:
            return self.paths[-1].stat().st_size if self.paths else 0
        except OSError:
            return 0


class OutputSync:
    """Wraps the function that executes runs. A run that prints nothing or ends before the next sync costs nothing."""

    def __init__(self, perform: ExecuteRun, shared: SharedStore, timer: Timer) -> None:
        self._perform = perform
        self._shared = shared
        self._timer = timer
        self._tracked: dict[int, _TrackedOutput] = {}

    async def execute_run(self, claim: Claim) -> FinishedRun:
        """Execute a run and add its output to the result. A log that cannot be read never fails its run."""
        tracked = self._tracked[claim.run_id] = _TrackedOutput(track_opened_logs())
        try:
            finished = await self._perform(claim)
        except asyncio.CancelledError:
            # A cancelled run has no result that could carry its output: the next sync takes the rest.
            tracked.is_over = True
            raise
        finally:
            if not tracked.is_over:
                del self._tracked[claim.run_id]
        if not tracked.paths:
            return finished
        try:
            output = await call_in_thread(read_log_tail, tracked.paths[-1], MAX_STORED_OUTPUT_BYTES)
        except OSError:
            return finished
        return finished._replace(output=output)

    async def run(self) -> None:
        """Sync every few seconds until cancelled."""
        never = asyncio.Event()
        while True:
            await self._timer.sleep_until(self._timer.now() + SYNC_INTERVAL, never)
            try:
                await self.sync()
            except StoreUnavailable as error:
                log.debug("run output not published error=%s retry in %s", error, SYNC_INTERVAL)

    async def sync(self) -> None:
        """Write what was printed since the last sync. Raises StoreUnavailable."""
        lengths = {run_id: tracked.length() for run_id, tracked in self._tracked.items()}
        changed = [run_id for run_id, length in lengths.items() if self._tracked[run_id].synced_bytes != length]
        for run_id in lengths.keys() - set(changed):
            if self._tracked[run_id].is_over:
                del self._tracked[run_id]
        paths = {run_id: self._tracked[run_id].paths[-1] for run_id in changed[:MAX_RUNS_PER_SYNC]}
        if not paths:
            return
        await call_in_thread(self._upload, paths)
        for run_id in paths:
            if tracked := self._tracked.pop(run_id, None):
                tracked.synced_bytes = lengths[run_id]
                self._tracked[run_id] = tracked  # at the end, so that the next sync begins with other runs

    def _upload(self, paths: dict[int, Path]) -> None:
        texts: dict[int, str] = {}
        for run_id, path in paths.items():
            try:
                texts[run_id] = read_log_tail(path, MAX_LIVE_OUTPUT_BYTES)
            except OSError as error:
                log.debug("run log not read path=%s error=%s", path, error)
        self._shared.publish_output(texts)
