"""Parts for tests, shipped so that users can test their fleets too."""

from herdbeat.testing.clock import FakeClock

__all__ = ["FakeClock"]
