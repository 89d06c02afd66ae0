import asyncio
from datetime import timedelta

import pytest

from herdbeat import platform
from herdbeat.scheduler.timers import SystemTimer, timerfd_alarm


async def test_the_alarm_calls_back_once_and_not_early() -> None:
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    rings: list[float] = []
    start = loop.time()

    def ring() -> None:
        rings.append(loop.time())
        loop.call_later(0.002, rung.set)  # so that a second ring would be heard

    with timerfd_alarm(0.005, ring):
        await rung.wait()

    assert len(rings) == 1
    assert rings[0] >= start + 0.005


class NoMoreFiles:
    """A kernel that has no file left for a timer."""

    def timerfd_create(self, clock: int, flags: int) -> int:
        return -1


@pytest.mark.parametrize("libc", [object(), NoMoreFiles()], ids=["no timerfd", "no more files"])
async def test_without_a_timerfd_the_alarm_calls_back_too(monkeypatch: pytest.MonkeyPatch, libc: object) -> None:
    monkeypatch.setattr(platform, "load_libc", lambda: libc)
    rung = asyncio.Event()

    with timerfd_alarm(0.001, rung.set):
        await rung.wait()

    assert rung.is_set()


async def test_sleep_until_a_past_moment_returns_at_once() -> None:
    timer, never = SystemTimer(), asyncio.Event()
    loop = asyncio.get_running_loop()
    steps: list[str] = []
    loop.call_soon(steps.append, "the loop went on")

    await timer.sleep_until(timer.now() - timedelta(seconds=1), never)

    assert steps == []


async def test_a_set_event_ends_the_sleep_early() -> None:
    timer, woken = SystemTimer(), asyncio.Event()
    asyncio.get_running_loop().call_soon(woken.set)

    await timer.sleep_until(timer.now() + timedelta(hours=1), woken)

    assert woken.is_set()


async def test_a_sleep_never_ends_before_its_moment() -> None:
    timer = SystemTimer()
    moment = timer.now() + timedelta(milliseconds=3)

    await timer.sleep_until(moment, asyncio.Event())

    assert timer.now() >= moment
