"""What runs have printed, on its way into a ledger that other nodes read: while they run, and with their end."""

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

log = logging.getLogger(__name__)

MAX_STORED_OUTPUT_BYTES = 64 * 1024
"""Bytes of its log that the ledger keeps of a run: the end of it. All of it stays with the node that ran it."""

MAX_LIVE_OUTPUT_BYTES = 16 * 1024
"""The same while it runs: it is written again and again."""

SYNC_INTERVAL = timedelta(seconds=2)
MAX_RUNS_PER_SYNC = 32
"""Runs in one look: a hundred that chatter must not cost the server more than what they are about."""

ExecuteRun = Callable[[Claim], Awaitable[FinishedRun]]


@dataclass(slots=True)
class _TrackedOutput:
    """One run: where its log is, once it has said something, and how long that was when it was last told."""

    paths: list[Path]
    synced_bytes: int = 0
    is_over: bool = False

    def length(self) -> int:
        try:
            return self.paths[-1].stat().st_size if self.paths else 0
        except OSError:
            return 0


class OutputSync:
    """Wraps what performs runs. A run that says nothing, or is over before the next look, costs nothing here."""

    def __init__(self, perform: ExecuteRun, shared: SharedStore, timer: Timer) -> None:
        self._perform = perform
        self._shared = shared
        self._timer = timer
        self._tracked: dict[int, _TrackedOutput] = {}

    async def execute_run(self, claim: Claim) -> FinishedRun:
        """The same, with what the run has printed. A log that cannot be read never fails its run."""
        tracked = self._tracked[claim.run_id] = _TrackedOutput(track_opened_logs())
        try:
            finished = await self._perform(claim)
        except asyncio.CancelledError:
            # Who is cancelled says nothing more: its last words go with the next look.
            tracked.is_over = True
            raise
        except BaseException:
            del self._tracked[claim.run_id]
            raise
        del self._tracked[claim.run_id]
        if not tracked.paths:
            return finished
        try:
            return finished._replace(
                output=await asyncio.to_thread(read_log_tail, tracked.paths[-1], MAX_STORED_OUTPUT_BYTES)
            )
        except OSError:
            return finished

    async def run(self) -> None:
        """Until cancelled."""
        never = asyncio.Event()
        while True:
            await self._timer.sleep_until(self._timer.now() + SYNC_INTERVAL, never)
            try:
                await self.sync()
            except StoreUnavailable as error:
                log.debug("no output told error=%s next in %s", error, SYNC_INTERVAL)

    async def sync(self) -> None:
        """Tell what was said since the last look. Raises StoreUnavailable."""
        lengths = {run_id: tracked.length() for run_id, tracked in self._tracked.items()}
        for run_id in [
            each
            for each in lengths
            if self._tracked[each].is_over and self._tracked[each].synced_bytes == lengths[each]
        ]:
            del self._tracked[run_id]
        changed_runs = [each for each, tracked in self._tracked.items() if tracked.synced_bytes != lengths[each]][
            :MAX_RUNS_PER_SYNC
        ]
        if not changed_runs:
            return
        paths = {run_id: self._tracked[run_id].paths[-1] for run_id in changed_runs}
        await asyncio.to_thread(self._upload, paths)
        for run_id in changed_runs:
            if tracked := self._tracked.pop(run_id, None):
                tracked.synced_bytes = lengths[run_id]
                self._tracked[run_id] = tracked  # at the end: the next look begins with others

    def _upload(self, paths: dict[int, Path]) -> None:
        texts: dict[int, str] = {}
        for run_id, path in paths.items():
            try:
                texts[run_id] = read_log_tail(path, MAX_LIVE_OUTPUT_BYTES)
            except OSError as error:
                log.debug("log not read path=%s error=%s", path, error)
        self._shared.publish_output(texts)
