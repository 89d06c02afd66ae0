"""Server-sent events: one tail for all listeners, a ring buffer to resume from, and slow readers that delay nobody."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import NamedTuple, TypeVar
from uuid import uuid4

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from herdbeat.bootstrap.handle import Reader
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError
from herdbeat.redaction import redact
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.ledger_tail import ConditionTail, LedgerTail, LiveEvent, TailBroken
from herdbeat.server.problems import build_problem
from herdbeat.service.notifications.conditions import ConditionSource
from herdbeat.service.queries.selectors import split_selector
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)
T = TypeVar("T")

EVENT_STREAM = "text/event-stream"
MIN_TICK_S = 0.25
MAX_TICK_S = 2.0
TICK_S_PER_LISTENER = 0.001

MAX_RING_EVENTS = 10_000
WAKE_INTERVAL_S = 5.0
KEEP_ALIVE_INTERVAL_S = 10.0
"""A listener is woken every few seconds, also if nothing happens, and gets a comment at least every 15 s."""

REOPEN_DELAY_S = 1.0
RECHECK_INTERVAL_S = 25.0
"""Seconds between two checks of the token of a listener, who is woken after `WAKE_INTERVAL_S` at the latest: 30 s."""

IDLE_TIMEOUT_S = 60.0
"""Seconds that the tail continues without a listener, so that one that reconnects can resume."""

SEND_TIMEOUT_S = 30.0
"""Seconds for a reader to take what was sent. One that has stopped reading is disconnected."""

CLOSE_TIMEOUT_S = 1.0

RETRY_MS = 2_000

MAX_EVENT_STREAMS = 2_500
"""Of the connections that a server takes: the others are for requests."""


def compute_tick_s(listeners: int) -> float:
    """Return the seconds between two polls. More listeners are sent events less often: each costs the same."""
    return min(max(MIN_TICK_S, listeners * TICK_S_PER_LISTENER), MAX_TICK_S)


class EventFilter(NamedTuple):
    """Which events a listener wants. Empty parts want all. One that `is_limited` may know of its own target only."""

    types: tuple[str, ...] = ()
    target: str = ""
    schedule: str = ""
    is_limited: bool = False

    def matches(self, event: LiveEvent) -> bool:
        if self.is_limited and not event.subject:
            return False
        if self.types and not any(fnmatchcase(event.name, each) for each in self.types) and event.name != "changed":
            return False
        if not event.subject:
            return True
        target, name = split_selector(event.subject)
        wanted, wanted_name = split_selector(self.schedule)
        if self.target not in ("", target) or wanted not in ("", target):
            return False
        return wanted_name in (None, name or DEFAULT_SCHEDULE_NAME)


class RingEntry(NamedTuple):
    number: int
    event: LiveEvent
    text: str


class EventHub:
    """Reads the tail while there are listeners, and keeps the newest events in a ring."""

    def __init__(self, gateway: FleetGateway) -> None:
        self._gateway = gateway
        self._ring: deque[RingEntry] = deque(maxlen=MAX_RING_EVENTS)
        self._boot_id = ""
        self._number = 0
        self._texts: dict[tuple[EventFilter, int], bytes] = {}
        self._listeners = 0
        self._woken = asyncio.Event()
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def listen(
        self, wanted: EventFilter, last_event_id: str, is_allowed: Callable[[], bool] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the text of the events that are wanted. It ends when the listener `is_allowed` to listen no longer."""
        self._listeners += 1
        loop = asyncio.get_running_loop()
        checked_at = sent_at = loop.time()
        try:
            await self._ensure_running()
            boot_id, position, is_resumed = self._find_position(last_event_id)
            yield f"retry: {RETRY_MS}\n\n".encode() + self._mark("ready" if is_resumed else "resync", position)
            while True:
                woken = self._woken  # before looking: what happens while this is sent is not slept through
                if is_allowed is not None and loop.time() - checked_at > RECHECK_INTERVAL_S:
                    checked_at = loop.time()
                    if not await call_in_thread(is_allowed):
                        return
                if boot_id != self._boot_id or (self._ring and position < self._ring[0].number - 1):
                    boot_id, position = self._boot_id, self._number
                    text = self._mark("resync", position)
                else:
                    text, position = self._build_text_after(position, wanted), self._number
                if text or loop.time() - sent_at > KEEP_ALIVE_INTERVAL_S:
                    sent_at = loop.time()
                    yield text or b": keep-alive\n\n"
                await woken.wait()
        finally:
            self._listeners -= 1

    def _build_text_after(self, position: int, wanted: EventFilter) -> bytes:
        """Return the text for one listener. Most of a thousand have the same filter and position: it is built once."""
        if position == self._number:
            return b""
        found = self._texts.get((wanted, position))
        if found is None:
            entries = self._list_entries_after(position)
            found = "".join(each.text for each in entries if wanted.matches(each.event)).encode()
            if wanted.is_limited and any(each.event.name == "changed" for each in entries):
                found += self._mark("resync", self._number)  # a burst names the targets of others
            self._texts[wanted, position] = found
        return found

    def _list_entries_after(self, position: int) -> list[RingEntry]:
        """Return the newest entries, oldest first, without a walk through the whole ring."""
        new = list(takewhile(lambda each: each.number > position, reversed(self._ring)))
        return new[::-1]

    def _find_position(self, last_event_id: str) -> tuple[str, int, bool]:
        """Return where to resume.

        Without an id the stream begins now; with an unknown or expired one the client has to reload.
        """
        boot_id, _, number = last_event_id.rpartition("-")
        if not last_event_id:
            return self._boot_id, self._number, True
        first = self._ring[0].number if self._ring else self._number + 1
        is_known = boot_id == self._boot_id and number.isascii() and number.isdecimal() and len(number) < 16
        if is_known and first - 1 <= int(number) <= self._number:
            return self._boot_id, int(number), True
        return self._boot_id, self._number, False

    def _mark(self, name: str, position: int) -> bytes:
        return f"id: {self._boot_id}-{position}\nevent: {name}\ndata: {{}}\n\n".encode()

    def _wake_all(self) -> None:
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()

    def _begin(self) -> None:
        """Start a new sequence of events: what the tail reads from now on does not continue what it has read."""
        self._boot_id = uuid4().hex[:12]
        self._ring.clear()
        self._texts.clear()
        self._wake_all()

    async def _ensure_running(self) -> None:
        if self._task is None or self._task.done():
            self._begin()
            self._started = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._started), name="ledger tail")
        await self._started.wait()  # also the second listener: what happens before the tail begins is in no event

    async def _run(self, started: asyncio.Event) -> None:
        """Read the tail until there was no listener for a while. A ledger that fails is opened again."""
        loop = asyncio.get_running_loop()
        idle_since = loop.time()
        while loop.time() - idle_since < IDLE_TIMEOUT_S:
            try:
                reader = await call_in_thread(self._gateway.open_own_reader)
                try:
                    await self._follow(reader, started)
                finally:
                    reader.close()
            except (HerdbeatError, TailBroken) as error:
                log.info("event tail begins again reason=%r", error)
                idle_since = loop.time() if self._listeners else idle_since
                started.set()
                self._wake_all()
                await asyncio.sleep(REOPEN_DELAY_S)
            else:
                return

    async def _follow(self, reader: Reader, started: asyncio.Event) -> None:
        loop, clock = asyncio.get_running_loop(), self._gateway.handle.clock
        conditions = ConditionTail(ConditionSource(reader, clock.now(), 0))

        def find_holder() -> int | None:
            return replace(self._gateway.handle, reader=reader).holder_pid  # without a connection of its own

        def poll_tails() -> list[LiveEvent]:
            now, pid = clock.now(), find_holder()
            return [*tail.poll(now, pid), *conditions.poll(now, pid)]

        tail = await finish_in_thread(lambda: LedgerTail(reader, clock.now(), find_holder()))
        await finish_in_thread(lambda: conditions.poll(clock.now(), find_holder()))
        if started.is_set():
            self._begin()
        started.set()
        last_listener_at = woken_at = loop.time()
        while loop.time() - last_listener_at < IDLE_TIMEOUT_S:
            if self._listeners:
                last_listener_at = loop.time()
            events = await finish_in_thread(poll_tails)
            self._publish(events)
            if events or loop.time() - woken_at > WAKE_INTERVAL_S:
                woken_at = loop.time()
                self._wake_all()
            await asyncio.sleep(compute_tick_s(self._listeners))

    def _publish(self, events: list[LiveEvent]) -> None:
        if events:
            self._texts.clear()
        for event in events:
            self._number += 1
            data = redact(json.dumps(event.data, ensure_ascii=False))
            text = f"id: {self._boot_id}-{self._number}\nevent: {event.name}\ndata: {data}\n\n"
            self._ring.append(RingEntry(self._number, event, text))


async def finish_in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread, and wait for it also when cancelled: the caller closes the connection it uses.

    A connection to SQLite that is closed while another thread reads from it ends the process.
    """
    call = asyncio.ensure_future(call_in_thread(function))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        raise


@dataclass(slots=True)
class StreamLimit:
    """How many streams of a kind may be open. The rest of the connections, and of the database's, is for others."""

    maximum: int
    _open: int = 0

    @property
    def is_reached(self) -> bool:
        return self._open >= self.maximum

    @contextmanager
    def count(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


class LiveStream(Response):
    """Sends what a generator yields, and closes it. A reader that takes nothing for a while is disconnected."""

    def __init__(self, texts: AsyncGenerator[bytes, None], limit: StreamLimit, media_type: str = EVENT_STREAM) -> None:
        super().__init__(media_type=media_type, headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._texts = texts
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._limit.is_reached:
            detail = f"{self._limit.maximum} streams of this kind are open on this server."
            refusal = build_problem(Request(scope), 429, Code.TOO_MANY_REQUESTS, detail, "Close one, or try again.")
            refusal.headers["Retry-After"] = "30"
            await refusal(scope, receive, send)
            return
        with self._limit.count():
            await self._stream(receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        leaving = asyncio.create_task(_wait_until_left(receive), name="event reader")
        sending = asyncio.create_task(self._send_all(send), name="event writer")
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):  # a reader that takes nothing does not take the end, either
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._texts):
            async for text in self._texts:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": text, "more_body": True})


async def _wait_until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
