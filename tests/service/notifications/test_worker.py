"""The dead-man ping: it proves that the loop works, not only that the process exists."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from herdbeat.domain.fleet import DeadMan
from herdbeat.service.notifications.worker import ping_dead_man
from herdbeat.testing.clock import FakeClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass
class Monitor:
    """A fleet as the ping sees it, and the monitor that it calls."""

    dead_man: DeadMan | None = field(default_factory=lambda: DeadMan(url="http://monitor", every=MINUTE))
    cycles: int = 1
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOON))
    calls: list[str] = field(default_factory=list)

    async def ping(self, url: str) -> str:
        self.calls.append(url)
        return "" if len(self.calls) != 2 else "monitor answered 500."

    async def let_pass(self, time: timedelta) -> None:
        self.clock.advance(time)
        for _ in range(5):  # the ping wakes, calls and sleeps again
            await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(
            ping_dead_man(lambda: self.dead_man, self.changed, self.clock, lambda: self.cycles, self.ping)
        )
        await self.let_pass(timedelta(0))
        yield
        task.cancel()
        await asyncio.wait([task])


async def test_the_monitor_is_called_only_while_the_loop_completes_cycles() -> None:
    monitor = Monitor()

    async with monitor.running():
        monitor.cycles += 1
        await monitor.let_pass(MINUTE)
        for _ in range(5):  # the loop hangs, or its ledger takes no claim
            await monitor.let_pass(MINUTE)
        while_hanging = len(monitor.calls)
        monitor.cycles += 1
        await monitor.let_pass(MINUTE)

    assert while_hanging == 2
    assert len(monitor.calls) == 3  # also after a call that the monitor refused


async def test_a_monitor_that_is_added_or_changed_later_is_called_from_then_on() -> None:
    monitor = Monitor(dead_man=None)

    async with monitor.running():
        await monitor.let_pass(MINUTE)
        before = list(monitor.calls)
        for url in ("http://first", "http://second"):
            monitor.cycles += 1
            monitor.dead_man = DeadMan(url=url, every=MINUTE)
            monitor.changed.set()
            await monitor.let_pass(timedelta(0))
        monitor.dead_man = None
        monitor.changed.set()
        monitor.cycles += 1
        await monitor.let_pass(MINUTE)

    assert before == []
    assert monitor.calls == ["http://first", "http://second"]
