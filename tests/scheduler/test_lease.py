import asyncio
from datetime import timedelta

from herdbeat.scheduler.membership import Lease
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

LASTS = timedelta(seconds=30)


def test_a_lease_is_held_for_two_thirds_from_the_moment_the_renewal_was_sent() -> None:
    clock = FakeClock(MONDAY)
    lease = Lease(LASTS, clock)
    asked_at = lease.uptime()
    clock.advance(timedelta(seconds=5))  # so long was the answer on its way
    lease.begin(asked_at)

    clock.advance(timedelta(seconds=14))
    held = lease.is_held()
    clock.advance(timedelta(seconds=1))

    assert held
    assert not lease.is_held()


def test_a_renewal_reports_how_much_of_the_lease_is_left() -> None:
    told: list[timedelta] = []
    clock = FakeClock(MONDAY)
    lease = Lease(LASTS, clock, told.append)
    asked_at = lease.uptime()
    clock.advance(timedelta(seconds=5))

    lease.renew(asked_at)

    assert told == [timedelta(seconds=25)]


async def test_a_lease_that_is_not_renewed_is_lost_by_the_clock_alone() -> None:
    clock = FakeClock(MONDAY)
    lease = Lease(LASTS, clock)
    lease.begin(lease.uptime())
    watching = asyncio.ensure_future(lease.wait_lost())
    await asyncio.sleep(0)
    clock.advance(timedelta(seconds=19))
    lease.renew(lease.uptime())
    clock.advance(timedelta(seconds=19))
    await asyncio.sleep(0)
    assert not lease.lease_lost.is_set()

    clock.advance(timedelta(seconds=1))
    await watching

    assert lease.lease_lost.is_set()


async def test_a_lease_that_is_marked_lost_is_lost_at_once() -> None:
    lease = Lease(LASTS, FakeClock(MONDAY))
    lease.begin(lease.uptime())
    watching = asyncio.ensure_future(lease.wait_lost())
    await asyncio.sleep(0)

    lease.mark_lost()
    await watching

    assert not lease.is_held()
