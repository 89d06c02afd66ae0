"""Send what the ledger has to send: one message at a time to each channel, repeated until the receiver has it.

The ledger says what is left to do, so a node may die anywhere: messages keep their id, and receivers tell repetitions
by it. Programs cannot tell, so they are started at most once.
"""

import asyncio
import hashlib
import logging
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.outbox import DeliveryRecord, DeliveryState
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.notify.base import Deliver, DeliveryFailed
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import Store, Transaction

log = logging.getLogger(__name__)

MAX_SENDERS = 20
"""Channels that are sent to at the same time."""

DELIVERY_LEASE = timedelta(minutes=12)
"""For so long other nodes leave a delivery to the node that has taken it, unless they know that the node is gone. Every
attempt ends well within it."""

POLL_INTERVAL = timedelta(seconds=30)
"""A node that died leaves deliveries that nothing announces."""

BUSY_POLL_INTERVAL = timedelta(seconds=1)
"""What is due and cannot be sent yet waits behind another message, perhaps one of another node."""

DRAIN_TIMEOUT = timedelta(seconds=5)
"""For so long a node that stops continues to send. The next start sends the rest."""

RETRY_DELAYS = tuple(timedelta(seconds=seconds) for seconds in (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400))
"""The schedule of Standard Webhooks: 5 seconds, 5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours."""

NODE_DIED = "its node died while the program ran; it is not started again"


class _TakenDeliveries(NamedTuple):
    """What one poll has taken, when the next delivery is due, and of how many programs the end is unknown."""

    taken: list[DeliveryRecord]
    next_at: datetime | None
    unknown: int


class OutboxSender:
    """Sends for one node, off the scheduling path.

    A node that `is_alone` takes up at once what it was sending when it was killed; of several, each does so as soon as
    the dead one is given up.
    """

    def __init__(self, store: Store, deliver: Deliver, timer: Timer, host: str, *, is_alone: bool = True) -> None:
        self._store = store
        self._deliver = deliver
        self._timer = timer
        self._host = host
        self._is_alone = is_alone
        self._fence = secrets.randbits(62) | 1
        self._woken = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self._reclaim_at = timer.now()

    def attach(self, node_id: int) -> None:
        """Send as this node from now on. Others take what it was sending when it is given up."""
        self._fence = -node_id

    def wake(self) -> None:
        """Look now: something was added."""
        self._woken.set()

    def reclaim(self) -> None:
        """Take up now what nodes that were given up were sending."""
        if not self._is_alone:
            self._reclaim_at = self._timer.now()
            self._woken.set()

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._woken.clear()
                looked_at = self._timer.now()
                next_at = None if self._is_draining else await self._start_due(tasks, looked_at)
                wake_at = self._next_poll_at(next_at, looked_at)
                if wake_at > self._timer.now():
                    await self._timer.sleep_until(wake_at, self._woken)

    def _next_poll_at(self, next_at: datetime | None, looked_at: datetime) -> datetime:
        """What was due and not taken waits for a channel that is sending. Its end wakes us, if it is ours."""
        poll_at = looked_at + POLL_INTERVAL
        if next_at is None:
            return poll_at
        return min(next_at if next_at > looked_at else looked_at + BUSY_POLL_INTERVAL, poll_at)

    async def drain(self) -> None:
        """Send what is due, for a few seconds, and no more after that: the caller ends what is still being sent."""
        self._is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT.total_seconds()), asyncio.TaskGroup() as tasks:
                while True:
                    await self._start_due(tasks, self._timer.now())
                    if not self._sending:
                        return
                    await asyncio.wait(set(self._sending), return_when=asyncio.FIRST_COMPLETED)

    def _reclaim(self, tx: Transaction, now: datetime) -> int:
        """What a node was sending when it was killed is due again, but for programs: return how many those are."""
        tx.outbox_end_leases(is_alone=self._is_alone)
        return tx.outbox_end_started(now, NODE_DIED, is_alone=self._is_alone)

    async def _start_due(self, tasks: asyncio.TaskGroup, now: datetime) -> datetime | None:
        """Start as many as there are senders free, and return when the next is due. Without a store: later."""
        free, reclaims = MAX_SENDERS - len(self._sending), now >= self._reclaim_at

        def take(tx: Transaction) -> _TakenDeliveries:
            unknown = self._reclaim(tx, now) if reclaims else 0
            until, host, is_alone = now + DELIVERY_LEASE, self._host, self._is_alone
            taken = tx.outbox_take(now, until, fence=self._fence, host=host, limit=free, is_alone=is_alone)
            return _TakenDeliveries(taken, tx.outbox_next(host, is_alone=is_alone), unknown)

        try:
            taken, next_at, unknown = await self._store.write(take)
        except (StoreUnavailable, ClaimLost) as error:
            log.debug("deliveries not taken error=%s", error)
            return None
        if reclaims:  # alone, only at the start
            self._reclaim_at = datetime.max.replace(tzinfo=UTC) if self._is_alone else now + POLL_INTERVAL
        if unknown:
            log.warning("hooks not finished count=%s their node died; they are not started again", unknown)
        for delivery in taken:
            task = tasks.create_task(self._send(delivery), name=f"deliver {delivery.channel}")
            self._sending.add(task)
            task.add_done_callback(self._on_sent)
        return next_at

    def _on_sent(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        self._woken.set()

    async def _send(self, delivery: DeliveryRecord) -> None:
        failpoint(Failpoint.BEFORE_DELIVERY)
        failure: DeliveryFailed | None = None
        try:
            await self._deliver(delivery, self._timer.now())
        except DeliveryFailed as error:
            failure = error
        failpoint(Failpoint.AFTER_DELIVERY)
        now = self._timer.now()
        ended = settle_delivery(delivery, failure, now)
        if failure is not None:
            what = "given up" if ended.state is DeliveryState.FAILED else f"tried again at {ended.next_at:%H:%M:%S} UTC"
            log.warning("delivery failed channel=%s error=%s it is %s", delivery.channel, failure.message, what)

        def end(tx: Transaction) -> None:
            if not tx.outbox_end(ended):
                return  # its lease was over, and another node has it
            if failure is None:
                tx.outbox_wake_channel(ended.channel, now)
            elif failure.is_receiver_down and ended.state is DeliveryState.PENDING:
                tx.outbox_defer_channel(ended.channel, ended.next_at)

        try:
            await self._store.write(end)
        except (StoreUnavailable, ClaimLost) as error:
            log.warning("delivery not recorded channel=%s error=%s it may be sent again", delivery.channel, error)


def settle_delivery(delivery: DeliveryRecord, failure: DeliveryFailed | None, now: datetime) -> DeliveryRecord:
    """Return the delivery after an attempt: sent, to be tried again, or given up. Pure."""
    if failure is None:
        return replace(delivery, state=DeliveryState.SENT, ended_at=now, error="")
    if failure.is_final or delivery.is_once or delivery.attempts > len(RETRY_DELAYS):
        return replace(delivery, state=DeliveryState.FAILED, ended_at=now, error=failure.message)
    delay = max(retry_delay(delivery), failure.retry_after or timedelta(0))
    return replace(delivery, state=DeliveryState.PENDING, next_at=now + delay, error=failure.message)


def retry_delay(delivery: DeliveryRecord) -> timedelta:
    """Return the delay after the attempts so far, up to a tenth longer: stable for the message and the attempt."""
    delay = RETRY_DELAYS[min(delivery.attempts, len(RETRY_DELAYS)) - 1]
    digest = hashlib.sha256(f"{delivery.message_id}:{delivery.attempts}".encode()).digest()
    return delay * (1 + digest[0] / 2560)
