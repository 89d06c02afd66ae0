"""What the `db` commands share: which ledger, a file as it was named, sizes, and how far a copy has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_count, short_label
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import NotFound
from herdbeat.service.maintenance.ledger import LedgerInspection, inspect_ledger
from herdbeat.store.location import StoreLocation, format_location, require_sqlite_path, select_clock, store_location
from herdbeat.store.sqlite.backup import backup_ledger

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


def run_backup(args: ParsedArgs, context: Context) -> Output:
    _, ledger = require_ledger_file(args, context)
    to = _backup_path(args.positional(0), context, ledger)
    with show_copy_progress(args, context) as progress:
        written = backup_ledger(ledger, to, replace=args.has(flags.FORCE), progress=progress)
    line = f"{context.terminal.style('✓', 'green')} {to}   {format_size(written)}"
    return Output(json=lambda: {"file": str(to), "bytes": written}, lines=[line], is_compact=True)


def _backup_path(named: str | None, context: Context, ledger: Path) -> Path:
    if named is None:
        folder = ledger.parent / "backups"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{ledger.stem}-{context.clock.now():%Y%m%dT%H%M%SZ}.db"
    to = context.folder / named
    if to.is_dir() or not to.parent.is_dir():
        what = f"{to} is a folder." if to.is_dir() else f"There is no folder {to.parent}."
        raise NotFound(what, hint="Name a file in a folder that exists.")
    return to


EXIT_UNHEALTHY = 6


def run_check(args: ParsedArgs, context: Context) -> Output:
    _, place, now = require_ledger(args, context)
    ledger, result = format_location(place), inspect_ledger(place, now)
    return Output(
        json=lambda: {"ledger": ledger, **_check_object(result)},
        lines=_check_lines(context.terminal, ledger, result),
        is_compact=True,
        exit_status=0 if result.is_healthy else EXIT_UNHEALTHY,
    )


def _check_lines(terminal: Terminal, ledger: str, result: LedgerInspection) -> Iterator[str]:
    if result.is_healthy:
        yield f"{terminal.style('✓', 'green')} {ledger}   nothing is wrong with it"
        return
    rows = [("damage", "", printable(line)) for line in result.damage]
    rows += [("scan", printable(short_label(subject)), what) for subject, what in result.findings]
    rows += [("quarantine", printable(short_label(label)), printable(why)) for label, why in result.quarantined]
    yield f"{terminal.style('✗', 'red')} {ledger}   {format_count(len(rows), 'problem')}"
    yield from terminal.format_table(rows, indent="  ", shrink=(1, 2))
    if result.damage:
        yield Notice("The file is damaged. Keep it, and restore a backup: herdbeat db restore FILE")
    elif result.findings:
        yield Notice("A fleet that runs mends this by itself within five minutes: herdbeat up")
    if result.quarantined:
        yield Notice("A quarantined schedule rests until it is edited. Its reason says what to change.")


def _check_object(result: LedgerInspection) -> dict[str, object]:
    return {
        "well": result.is_healthy,
        "damage": list(result.damage),
        "findings": [{"subject": subject, "what": what} for subject, what in result.findings],
        "quarantined": [{"schedule": label, "reason": reason} for label, reason in result.quarantined],
    }
