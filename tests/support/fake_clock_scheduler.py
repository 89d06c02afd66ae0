"""A scheduler on a fake clock, and a callback that records its calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from herdbeat import Scheduler, TriggerInfo
from herdbeat.testing import FakeClock

MONDAY = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
LONG_LEASE = "36500d"
"""A fake clock sends no heartbeat for hours, which must not count as a gap."""

T = TypeVar("T")


def make_agent(name: str = "scout", *, most: int = 1, **schedules: Any) -> dict[str, Any]:
    """Return an agent as its file would have it. An interval may be given as its text alone."""
    written = {
        key: {"type": "interval", "interval": value, "prompt": f"Do {key}."} if isinstance(value, str) else value
        for key, value in schedules.items()
    }
    return {"name": name, "instances": {"max_concurrent": most}, "schedules": written}


class RecordingCallback:
    """An `on_trigger` callback that records its calls, fails for some schedules, and blocks others until they are
    released.
    """

    def __init__(self, *, fails: tuple[str, ...] = (), holds: tuple[str, ...] = ()) -> None:
        self.infos: list[TriggerInfo] = []
        self._fails = fails
        self._holds = holds
        self._detach_or_stop = asyncio.Event()
        self._news: asyncio.Queue[TriggerInfo] = asyncio.Queue()

    async def __call__(self, info: TriggerInfo) -> object:
        self.infos.append(info)
        self._news.put_nowait(info)
        label = f"{info.agent.name}/{info.schedule_name}"
        if label in self._holds:
            await self._detach_or_stop.wait()
        if label in self._fails:
            raise RuntimeError("it broke")
        return {"did": label}

    def let_go(self) -> None:
        self._detach_or_stop.set()

    async def next(self) -> str:
        """Return the next run that it is called with."""
        async with asyncio.timeout(10):
            info = await self._news.get()
        return f"{info.agent.name}/{info.schedule_name}"

    @property
    def labels(self) -> list[str]:
        return [f"{each.agent.name}/{each.schedule_name}" for each in self.infos]


class RecordingLogger:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def debug(self, message: str, /) -> None:
        self.lines.append(f"debug: {message}")

    def info(self, message: str, /) -> None:
        self.lines.append(f"info: {message}")

    def warning(self, message: str, /) -> None:
        self.lines.append(f"warning: {message}")

    def error(self, message: str, /) -> None:
        self.lines.append(f"error: {message}")


@asynccontextmanager
async def run_scheduler(
    folder: Path, agents: Any, callback: RecordingCallback, clock: FakeClock | None = None, **options: Any
) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(folder, on_trigger=callback, timer=clock or FakeClock(MONDAY), lease=LONG_LEASE, **options)
    await scheduler.start(agents)
    try:
        yield scheduler
    finally:
        callback.let_go()
        await scheduler.stop()


async def wait_until(scheduler: Scheduler, look: Callable[[], T | None]) -> T:
    """Return the state of the scheduler as soon as the condition holds."""
    assert scheduler._engine is not None
    async with asyncio.timeout(10):
        found = await scheduler._engine.wait_until(look)
    assert found is not None
    return found


async def wait_until_idle(scheduler: Scheduler) -> None:
    """Wait until nothing runs and every result is written."""
    await wait_until(scheduler, lambda: True if _is_idle(scheduler) else None)


def _is_idle(scheduler: Scheduler) -> bool:
    return not any(each.status == "running" for each in scheduler.state.schedules)
