"""Runs of this node that somebody elsewhere wants to end: the word is left in the ledger, and taken up here.

Only the node that has a run can end it. Before, `cancel` on another node found nothing to stop and said so, and
`overlap: cancel` waited for the end of the run that it was meant to replace.
"""

import asyncio
import logging
from datetime import timedelta

from herdbeat.errors import StoreUnavailable
from herdbeat.scheduler.loop import Loop
from herdbeat.scheduler.timer import Timer
from herdbeat.store.base import Shared

log = logging.getLogger(__name__)


async def stop_when_told(
    shared: Shared, timer: Timer, loop: Loop, node_id: int, heard: asyncio.Event, check_interval: timedelta
) -> None:
    """Until cancelled, also while the node drains. What was said and not heard is found by looking."""
    while True:
        heard.clear()
        next_look = timer.now() + check_interval
        try:
            await _obey(shared, loop, node_id)
        except StoreUnavailable as error:
            log.debug("nobody could be asked what to stop error=%s next look in %s", error, check_interval)
        await timer.sleep_until(next_look, heard)


async def _obey(shared: Shared, loop: Loop, node_id: int) -> None:
    """A run that was claimed a moment ago may not be there yet: its word stays, for the next look."""
    asked = await asyncio.to_thread(shared.asked_to_stop, node_id)
    if asked:
        taken = [each.run_id for each in asked if loop.cancel(each.run_id, each.why, force=each.force)]
        await asyncio.to_thread(shared.forget_stops, node_id, taken)
