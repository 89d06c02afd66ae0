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
from herdbeat.store.base import SharedStore

log = logging.getLogger(__name__)


async def watch_stop_requests(
    shared: SharedStore, timer: Timer, loop: Loop, node_id: int, notified: asyncio.Event, check_interval: timedelta
) -> None:
    """Until cancelled, also while the node drains. What was said and not heard is found by looking."""
    while True:
        notified.clear()
        next_poll_at = timer.now() + check_interval
        try:
            await _apply_stop_requests(shared, loop, node_id)
        except StoreUnavailable as error:
            log.debug("nobody could be asked what to stop error=%s next look in %s", error, check_interval)
        await timer.sleep_until(next_poll_at, notified)


async def _apply_stop_requests(shared: SharedStore, loop: Loop, node_id: int) -> None:
    """A run that was claimed a moment ago may not be there yet: its word stays, for the next look."""
    requests = await asyncio.to_thread(shared.list_stop_requests, node_id)
    if requests:
        cancelled = [each.run_id for each in requests if loop.cancel(each.run_id, each.why, force=each.force)]
        await asyncio.to_thread(shared.ack_stop_requests, node_id, cancelled)
