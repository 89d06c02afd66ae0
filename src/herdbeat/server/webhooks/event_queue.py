"""The queue of events to the node: those that arrive while one batch is written become the next batch.

One transaction holds hundreds of calls, so the disk is the limit and not the number of commits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent
from herdbeat.errors import HerdbeatError
from herdbeat.service.commands.base import ReceivedEvents
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.threads import call_in_thread

ANSWER_TIMEOUT_S = 5.0
MAX_BATCH_EVENTS = 200
MAX_BATCH_CHARS = 1024 * 1024
MAX_WAITING_EVENTS = 2_000
MAX_WAITING_CHARS = 64 * 1024 * 1024
DeliverEvents = Callable[[tuple[IncomingEvent, ...]], Delivery[ReceivedEvents]]
"""Writes events, in a thread. Raises HerdbeatError."""


class NoAnswer(Exception):
    """The events could not be written in time. The sender repeats the call, and a repetition is recognized."""


@dataclass(slots=True, eq=False)
class _Waiting:
    event: IncomingEvent
    answer: asyncio.Future[EventAnswer]


class EventQueue:
    """Writes events in batches, one batch at a time. Used by one event loop."""

    def __init__(self, deliver: DeliverEvents) -> None:
        self._deliver = deliver
        self._waiting: deque[_Waiting] = deque()
        self._waiting_chars = 0
        self._writer: asyncio.Task[None] | None = None

    async def put(self, event: IncomingEvent) -> EventAnswer:
        """Return the outcome of the event, once it is durable. Raises NoAnswer."""
        if len(self._waiting) >= MAX_WAITING_EVENTS or self._waiting_chars + len(event.data) > MAX_WAITING_CHARS:
            raise NoAnswer
        waiting = _Waiting(event, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._waiting_chars += len(event.data)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all(), name="webhook events")
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await waiting.answer
        except TimeoutError as error:
            raise NoAnswer from error

    async def _write_all(self) -> None:
        while batch := self._next_batch():
            await self._write(batch)

    def _next_batch(self) -> list[_Waiting]:
        """Take from the front. An event whose sender was asked to retry is left out."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < MAX_BATCH_EVENTS:
            chars = len(self._waiting[0].event.data)
            if batch and size + chars > MAX_BATCH_CHARS:
                break
            taken = self._waiting.popleft()
            self._waiting_chars -= chars
            if not taken.answer.done():
                batch.append(taken)
                size += chars
        return batch

    async def _write(self, batch: Sequence[_Waiting]) -> None:
        try:
            delivery = await call_in_thread(self._deliver, tuple(each.event for each in batch))
        except HerdbeatError as error:
            for each in batch:
                _fail(each, error)
            return
        for each, answer in zip(batch, delivery.result.answers, strict=True):
            if not each.answer.done():
                each.answer.set_result(answer)


def _fail(waiting: _Waiting, error: HerdbeatError) -> None:
    if not waiting.answer.done():
        failure = NoAnswer(error.message)
        failure.__cause__ = error
        waiting.answer.set_exception(failure)
