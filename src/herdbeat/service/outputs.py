"""What runs have printed, on its way into a ledger that other nodes read: while they run, and with their end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from herdbeat.domain.claim import Claim
from herdbeat.errors import StoreUnavailable
from herdbeat.runners.log import overhear
from herdbeat.runners.log_reader import end_of_log
from herdbeat.scheduler.timer import Timer
from herdbeat.store.base import FinishedRun
from herdbeat.store.shared import Shared

log = logging.getLogger(__name__)

KEPT = 64 * 1024
"""Bytes of its log that the ledger keeps of a run: the end of it. All of it stays with the node that ran it."""

SHARED = 16 * 1024
"""The same while it runs: it is written again and again."""

EVERY = timedelta(seconds=2)
AT_ONCE = 32
"""Runs in one look: a hundred that chatter must not cost the server more than what they are about."""

Perform = Callable[[Claim], Awaitable[FinishedRun]]


@dataclass(slots=True)
class _Heard:
    """One run: where its log is, once it has said something, and how long that was when it was last told."""

    places: list[Path]
    told: int = 0
    is_over: bool = False

    def length(self) -> int:
        try:
            return self.places[-1].stat().st_size if self.places else 0
        except OSError:
            return 0


class Outputs:
    """Wraps what performs runs. A run that says nothing, or is over before the next look, costs nothing here."""

    def __init__(self, perform: Perform, shared: Shared, timer: Timer) -> None:
        self._perform = perform
        self._shared = shared
        self._timer = timer
        self._heard: dict[int, _Heard] = {}

    async def perform(self, claim: Claim) -> FinishedRun:
        """The same, with what the run has printed. A log that cannot be read never fails its run."""
        heard = self._heard[claim.run_id] = _Heard(overhear())
        try:
            finished = await self._perform(claim)
        except asyncio.CancelledError:
            # Who is cancelled says nothing more: its last words go with the next look.
            heard.is_over = True
            raise
        except BaseException:
            del self._heard[claim.run_id]
            raise
        del self._heard[claim.run_id]
        if not heard.places:
            return finished
        try:
            return finished._replace(output=await asyncio.to_thread(end_of_log, heard.places[-1], KEPT))
        except OSError:
            return finished

    async def run(self) -> None:
        """Until cancelled."""
        never = asyncio.Event()
        while True:
            await self._timer.sleep_until(self._timer.now() + EVERY, never)
            try:
                await self.share()
            except StoreUnavailable as error:
                log.debug("no output told error=%s next in %s", error, EVERY)

    async def share(self) -> None:
        """Tell what was said since the last look. Raises StoreUnavailable."""
        lengths = {run_id: heard.length() for run_id, heard in self._heard.items()}
        for run_id in [
            each for each in lengths if self._heard[each].is_over and self._heard[each].told == lengths[each]
        ]:
            del self._heard[run_id]
        news = [each for each, heard in self._heard.items() if heard.told != lengths[each]][:AT_ONCE]
        if not news:
            return
        places = {run_id: self._heard[run_id].places[-1] for run_id in news}
        await asyncio.to_thread(self._tell, places)
        for run_id in news:
            if heard := self._heard.pop(run_id, None):
                heard.told = lengths[run_id]
                self._heard[run_id] = heard  # at the end: the next look begins with others

    def _tell(self, places: dict[int, Path]) -> None:
        texts: dict[int, str] = {}
        for run_id, place in places.items():
            try:
                texts[run_id] = end_of_log(place, SHARED)
            except OSError as error:
                log.debug("log not read path=%s error=%s", place, error)
        self._shared.tell_outputs(texts)
