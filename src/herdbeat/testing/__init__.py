"""Fakes for tests. They are part of the package so that users can test their own fleets with them."""

from herdbeat.testing.clock import FakeClock, OffsetTimer
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

Herd = SimulatedHerd
"""The documented name. `herdbeat.Herd` is another class."""

__all__ = ["FakeClock", "Herd", "OffsetTimer", "ScriptedRunner", "SimulatedHerd", "open_herd"]
