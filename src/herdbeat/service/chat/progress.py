"""Progress in chat: one message in the thread of a run says how long it has been running. It is edited, not repeated.

Best effort: whatever fails here is only logged, and the answer takes the way of the outbox.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Claim
from herdbeat.domain.trigger import is_chat_id
from herdbeat.durations import format_elapsed
from herdbeat.errors import HerdbeatError
from herdbeat.notify.base import DeliveryFailed
from herdbeat.notify.channels.chat import ChatPlace, ProgressPoster
from herdbeat.scheduler.timers import Timer
from herdbeat.store.reader import Reader
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

CHECK_INTERVAL = timedelta(seconds=2)
EDIT_INTERVAL = timedelta(seconds=10)
"""Slack and Discord slow a bot down that edits more often than every few seconds."""

_MAX_RUNS = 50


@dataclass(slots=True)
class _Shown:
    claim: Claim
    since: datetime
    edited_at: datetime
    place: ChatPlace


@dataclass(slots=True)
class ChatProgress:
    """Watches the active runs of a node. `list_active` returns their claims."""

    timer: Timer
    reader: Reader
    poster: ProgressPoster
    list_active: Callable[[], Mapping[int, Claim]]
    _shown: dict[int, _Shown] = field(default_factory=dict)

    async def run(self) -> None:
        """Show until cancelled."""
        never = asyncio.Event()
        while True:
            await self.check()
            await self.timer.sleep_until(self.timer.now() + CHECK_INTERVAL, never)

    async def check(self) -> None:
        """Begin, edit and end the messages of runs, each as far as it is time."""
        now = self.timer.now()
        active = {number: claim for number, claim in self.list_active().items() if is_chat_id(claim.dedup_id)}
        for number, claim in list(active.items())[:_MAX_RUNS]:
            if number not in self._shown:
                await self._begin(claim, now)
            elif now - self._shown[number].edited_at >= EDIT_INTERVAL:
                await self._edit(self._shown[number], now, "running for")
        for number in [each for each in self._shown if each not in active]:
            await self._edit(self._shown.pop(number), now, "ended after")

    async def _begin(self, claim: Claim, now: datetime) -> None:
        try:
            text = await call_in_thread(self.reader.beat_data, claim.beat_id)
            address = json.loads(text or "{}").get("reply_to")
            if isinstance(address, dict):
                words = f"Working on it (run {format_short_id(claim.run_id)})."
                place = await self.poster.post(address, words)
                self._shown[claim.run_id] = _Shown(claim, now, now, place)
        except (DeliveryFailed, HerdbeatError) as error:
            log.debug("progress not shown run=%s error=%s", claim.run_id, error)
            self._shown[claim.run_id] = _Shown(claim, now, now, ChatPlace.nowhere())

    async def _edit(self, shown: _Shown, now: datetime, words: str) -> None:
        shown.edited_at = now
        if not shown.place.message:
            return
        run = format_short_id(shown.claim.run_id)
        try:
            await self.poster.edit(shown.place, f"Run {run} {words} {format_elapsed(now - shown.since)}.")
        except DeliveryFailed as error:
            log.debug("progress not edited run=%s error=%s", run, error)
