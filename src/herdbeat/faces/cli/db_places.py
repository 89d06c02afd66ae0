"""What the `db` commands share: which ledger, a file as it was named, sizes, and how far a copy has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.fleets import load_fleet_files
from herdbeat.faces.cli.world import Context
from herdbeat.store.opening import select_clock
from herdbeat.store.places import StoreLocation, format_location, require_sqlite_path, store_location

_PROGRESS_BAR_WIDTH = 30


def require_ledger_file(args: ParsedArgs, context: Context) -> tuple[Fleet, Path]:
    """Raises NotFound if nothing has ever run here."""
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    path = require_sqlite_path(fleet)
    if not path.exists():
        raise NotFound(f"There is no ledger at {path}.", hint="Start the fleet with: herdbeat up")
    return fleet, path


def require_ledger(args: ParsedArgs, context: Context) -> tuple[Fleet, StoreLocation, datetime]:
    """The same for what can be done to any ledger, with the moment by its clock."""
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    place = store_location(fleet)
    clock = select_clock(place, context.clock)
    if clock is None:
        raise NotFound(f"There is no ledger at {format_location(place)}.", hint="Start the fleet with: herdbeat up")
    return fleet, place, clock.now()


def format_size(number: int) -> str:
    """14 MB"""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} bytes"


@contextmanager
def show_copy_progress(args: ParsedArgs, context: Context) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that fills up on one line, where somebody watches."""
    err = context.terminal.err
    if args.has(flags.JSON) or context.terminal.is_quiet or not err.isatty():
        yield None
        return

    last_percent = -1

    def show(copied: int, total: int) -> None:
        nonlocal last_percent
        percent = 100 * copied // max(total, 1)
        if percent == last_percent:
            return
        last_percent = percent
        filled = percent * _PROGRESS_BAR_WIDTH // 100
        err.write(f"\rcopied {'█' * filled}{'░' * (_PROGRESS_BAR_WIDTH - filled)} {percent:3}%")
        err.flush()

    try:
        yield show
    finally:
        err.write("\r\x1b[K")
        err.flush()
