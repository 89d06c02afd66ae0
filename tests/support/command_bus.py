"""Dispatchers for tests: into a ledger that no process here runs, and into the node of a simulated herd."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

from tests.support.schedule_builders import make_fleet

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.domain.fleet import Fleet
from herdbeat.events import EventListener, null_listener
from herdbeat.service.commands.base import Actor
from herdbeat.service.commands.dispatch import LoadedFleet, LocalFleet, NodeDispatcher
from herdbeat.store.location import StoreLocation, ledger_exists
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import SimulatedHerd

YOU = Actor(name="human:you")


def make_handle(location: StoreLocation, now: datetime, fleet: Fleet | None = None) -> FleetHandle:
    """A fleet from outside with a fixed clock. An apply of any path applies this fleet."""
    found = fleet or make_fleet()
    handle = FleetHandle(
        name=found.name,
        path=location,
        now=now,
        zone=ZoneInfo("UTC"),
        clock=FakeClock(now),
        load_fleet=lambda: found,
        load_applied=lambda _: LoadedFleet(fleet=found),
    )
    return replace(handle, has_ledger=ledger_exists(location))


def herd_dispatcher(
    herd: SimulatedHerd, listener: EventListener = null_listener, fleet: Fleet | None = None
) -> NodeDispatcher:
    """In the process of a herd on a fake clock."""
    found: Any = fleet or make_fleet()
    node = SimpleNamespace(loop=herd._loop, wake=herd._loop.wake)
    local = SimpleNamespace(
        fleet=found,
        node=node,
        store=herd.store,
        spec_cache=SimpleNamespace(clear=lambda: None),
        clock=herd.clock,
        load_applied=lambda _: LoadedFleet(fleet=found),
        name_logins=lambda _: None,
    )
    return NodeDispatcher(cast("LocalFleet", local), listener)


def ledger_path(folder: Path) -> Path:
    return folder / "herdbeat.db"
