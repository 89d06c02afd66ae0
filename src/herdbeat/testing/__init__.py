"""Parts for tests, shipped so that users can test their fleets too."""

from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import Herd, ScriptedRunner, open_herd
from herdbeat.testing.offset import OffsetTimer

__all__ = ["FakeClock", "Herd", "OffsetTimer", "ScriptedRunner", "open_herd"]
