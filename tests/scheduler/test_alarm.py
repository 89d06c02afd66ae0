import asyncio
from datetime import timedelta

import pytest

from herdbeat.scheduler import alarm as alarms
from herdbeat.scheduler.alarm import alarm
from herdbeat.scheduler.timer import SystemTimer


async def test_it_rings_once_and_not_before_its_time() -> None:
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    rings: list[float] = []
    start = loop.time()

    def ring() -> None:
        rings.append(loop.time())
        loop.call_later(0.002, rung.set)  # so that a second ring would be heard

    with alarm(0.005, ring):
        await rung.wait()

    assert len(rings) == 1
    assert rings[0] >= start + 0.005


async def test_it_rings_without_a_timer_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "_start", lambda _: None)
    rung = asyncio.Event()

    with alarm(0.001, rung.set):
        await rung.wait()

    assert rung.is_set()


async def test_a_sleeper_is_woken_before_its_moment() -> None:
    timer, woken = SystemTimer(), asyncio.Event()
    asyncio.get_running_loop().call_soon(woken.set)

    await timer.sleep_until(timer.now() + timedelta(hours=1), woken)

    assert woken.is_set()


async def test_a_sleeper_never_gets_up_early() -> None:
    timer = SystemTimer()
    moment = timer.now() + timedelta(milliseconds=3)

    await timer.sleep_until(moment, asyncio.Event())

    assert timer.now() >= moment
