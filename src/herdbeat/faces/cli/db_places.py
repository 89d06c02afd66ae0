"""What the `db` commands share: which ledger, a file as it was named, sizes, and how far a copy has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.world import World
from herdbeat.store.opening import clock_at
from herdbeat.store.places import LedgerPlace, ledger_of, ledger_path, shown_place

_CELLS = 30


def fleet_and_ledger(given: Given, world: World) -> tuple[Fleet, Path]:
    """Raises NotFound if nothing has ever run here."""
    _, fleet = read(given.value(flags.CONFIG), world)
    path = ledger_path(fleet)
    if not path.exists():
        raise NotFound(f"There is no ledger at {path}.", hint="Start the fleet with: herdbeat up")
    return fleet, path


def fleet_and_place(given: Given, world: World) -> tuple[Fleet, LedgerPlace, datetime]:
    """The same for what can be done to any ledger, with the moment by its clock."""
    _, fleet = read(given.value(flags.CONFIG), world)
    place = ledger_of(fleet)
    clock = clock_at(place, world.clock)
    if clock is None:
        raise NotFound(f"There is no ledger at {shown_place(place)}.", hint="Start the fleet with: herdbeat up")
    return fleet, place, clock.now()


def size(number: int) -> str:
    """14 MB"""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} bytes"


@contextmanager
def shown_progress(given: Given, world: World) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that fills up on one line, where somebody watches."""
    err = world.terminal.err
    if given.has(flags.JSON) or world.terminal.is_quiet or not err.isatty():
        yield None
        return

    shown = -1

    def show(copied: int, total: int) -> None:
        nonlocal shown
        percent = 100 * copied // max(total, 1)
        if percent == shown:
            return
        shown = percent
        filled = percent * _CELLS // 100
        err.write(f"\rcopied {'█' * filled}{'░' * (_CELLS - filled)} {percent:3}%")
        err.flush()

    try:
        yield show
    finally:
        err.write("\r\x1b[K")
        err.flush()
