"""Parts for tests, shipped so that users can test their fleets too."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime) -> None:
        self._now = now.astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Move the clock, and say what time it is then."""
        self._now += by
        return self._now


__all__ = ["FakeClock"]
