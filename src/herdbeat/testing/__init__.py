"""Fakes for tests. They are part of the package so that users can test their own fleets with them."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdbeat.testing.clock import FakeClock, OffsetTimer
    from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

    Herd = SimulatedHerd

__all__ = ["FakeClock", "Herd", "OffsetTimer", "ScriptedRunner", "SimulatedHerd", "open_herd"]

_LAZY_NAMES = {
    "FakeClock": ("clock", "FakeClock"),
    "OffsetTimer": ("clock", "OffsetTimer"),
    "Herd": ("herd", "SimulatedHerd"),  # the documented name; `herdbeat.Herd` is another class
    "ScriptedRunner": ("herd", "ScriptedRunner"),
    "SimulatedHerd": ("herd", "SimulatedHerd"),
    "open_herd": ("herd", "open_herd"),
}


def __getattr__(name: str) -> object:
    # Imported on first use: every start of the fake agent would otherwise load the whole scheduler.
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module 'herdbeat.testing' has no attribute {name!r}")
    module, attribute = _LAZY_NAMES[name]
    return getattr(import_module(f"herdbeat.testing.{module}"), attribute)
