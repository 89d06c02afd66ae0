"""Parts for tests, shipped so that users can test their fleets too."""

from herdbeat.testing.clock import FakeClock, OffsetTimer
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

Herd = SimulatedHerd
"""The documented name; `herdbeat.Herd` is another class."""

__all__ = ["FakeClock", "Herd", "OffsetTimer", "ScriptedRunner", "SimulatedHerd", "open_herd"]
