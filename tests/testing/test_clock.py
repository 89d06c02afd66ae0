"""The fake clock."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.testing import FakeClock


def test_a_fake_clock_does_not_move_by_itself() -> None:
    clock = FakeClock(datetime(2026, 3, 29, 1, tzinfo=ZoneInfo("Europe/Berlin")))

    before = clock.now()
    after = clock.advance(timedelta(hours=2))

    assert before == datetime(2026, 3, 29, 0, tzinfo=UTC)
    assert after == clock.now() == datetime(2026, 3, 29, 2, tzinfo=UTC)
    assert clock.now().tzinfo is UTC
