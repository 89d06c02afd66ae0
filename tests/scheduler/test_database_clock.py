from datetime import datetime, timedelta

import pytest

from herdbeat.platform import boot_time
from herdbeat.scheduler.timers import DatabaseTimer, SystemTimer, boottime_reader
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

A_BLINK = timedelta(microseconds=10)
"""A clock since boot is a float, and has no more than that to give."""


class Store:
    """A clock that is so far from ours, and whose answers are so long on their way."""

    def __init__(self, own: FakeClock, ahead: timedelta) -> None:
        self.own = own
        self.ahead = ahead
        self.there = self.back = timedelta(0)

    def now(self) -> datetime:
        self.own.advance(self.there)
        told = self.own.now() + self.ahead
        self.own.advance(self.back)
        return told


async def test_the_time_of_the_store_is_the_time_of_the_node(caplog: pytest.LogCaptureFixture) -> None:
    own = FakeClock(MONDAY)
    store = Store(own, timedelta(minutes=10))
    timer = DatabaseTimer(own, store.now)

    await timer.measure()
    own.advance(timedelta(seconds=3))

    assert abs(timer.now() - (MONDAY + timedelta(minutes=10, seconds=3))) < A_BLINK
    assert "this machine is behind the database" in caplog.text


async def test_a_slow_answer_does_not_spoil_a_quick_one() -> None:
    own = FakeClock(MONDAY)
    store = Store(own, timedelta(seconds=1))
    timer = DatabaseTimer(own, store.now)
    await timer.measure()

    store.back = timedelta(seconds=1)
    await timer.measure()

    assert abs(timer.now() - (own.now() + timedelta(seconds=1))) < A_BLINK


async def test_half_of_the_round_trip_is_taken_for_the_way_back() -> None:
    own = FakeClock(MONDAY)
    store = Store(own, timedelta(0))
    store.there = store.back = timedelta(milliseconds=40)
    timer = DatabaseTimer(own, store.now)

    await timer.measure()

    assert abs(timer.now() - own.now()) < A_BLINK


async def test_a_changed_clock_of_the_store_is_followed_however_slow_its_answer_is() -> None:
    own = FakeClock(MONDAY)
    store = Store(own, timedelta(0))
    timer = DatabaseTimer(own, store.now)
    await timer.measure()
    store.ahead, store.back = timedelta(hours=-1), timedelta(milliseconds=100)

    await timer.measure()

    assert abs(timer.now() - (own.now() - timedelta(hours=1))) < timedelta(seconds=1)


def test_only_the_timer_of_this_machine_is_read_past_its_pulse() -> None:
    own = FakeClock(MONDAY)

    assert boottime_reader(SystemTimer()) is boot_time
    assert boottime_reader(DatabaseTimer(SystemTimer(), own.now)) is boot_time
    assert boottime_reader(DatabaseTimer(own, own.now))() == own.read_clocks().boottime
