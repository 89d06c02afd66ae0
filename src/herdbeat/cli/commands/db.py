"""`herdbeat db backup`, `check`, `copy`, `prune` and `restore`: the ledger as a whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from herdbeat.bootstrap.handle import build_handle
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor
from herdbeat.cli.fleet_handle import FleetHandle, load_fleet_files
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import short_label
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet, Retention
from herdbeat.durations import format_duration
from herdbeat.errors import NotFound, UsageError
from herdbeat.service.commands.base import PruneHistory, PruneResult, result_to_json
from herdbeat.service.maintenance.ledger import (
    LedgerInspection,
    PostgresLocation,
    backup_ledger,
    format_location,
    inspect_ledger,
    migrate_to_postgres,
    open_audit,
    prepare_state_dir,
    require_sqlite_path,
    restore_backup,
)
from herdbeat.service.maintenance.retention import count_prunable

_PROGRESS_BAR_WIDTH = 30


def _require_ledger_file(args: ParsedArgs, context: Context) -> tuple[Fleet, Path]:
    """Raises NotFound if nothing has ever run here."""
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    path = require_sqlite_path(fleet)
    if not path.exists():
        raise NotFound(f"There is no ledger at {path}.", hint="Start the fleet with: herdbeat up")
    return fleet, path


def _require_ledger(args: ParsedArgs, context: Context) -> FleetHandle:
    """The same for what can be done to any ledger, with the moment by its clock."""
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    handle = build_handle(fleet, context.clock).use_ledger_clock()
    if not handle.has_ledger:
        where = format_location(handle.path)
        raise NotFound(f"There is no ledger at {where}.", hint="Start the fleet with: herdbeat up")
    return handle


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
    _, ledger = _require_ledger_file(args, context)
    to = _backup_path(args.positional(0), context, ledger)
    with show_copy_progress(args, context) as progress:
        written = backup_ledger(ledger, to, replace=args.has(flags.FORCE), progress=progress)
    line = f"{context.terminal.style('✓', 'green')} {to}   {format_size(written)}"
    return Output(json=lambda: {"file": str(to), "bytes": written}, lines=[line], is_compact=True)


def _backup_path(named: str | None, context: Context, ledger: Path) -> Path:
    if named is None:
        folder = ledger.parent / "backups"
        prepare_state_dir(folder)
        return folder / f"{ledger.stem}-{context.clock.now():%Y%m%dT%H%M%SZ}.db"
    to = context.folder / named
    if to.is_dir() or not to.parent.is_dir():
        what = f"{to} is a folder, not a file." if to.is_dir() else f"There is no folder {to.parent}."
        raise NotFound(what, hint="Give a file name in an existing folder.")
    return to


EXIT_UNHEALTHY = 6


def run_check(args: ParsedArgs, context: Context) -> Output:
    handle = _require_ledger(args, context)
    ledger, result = format_location(handle.path), inspect_ledger(handle.path, handle.now)
    lines = _check_lines(context.terminal, ledger, result)
    exit_status = 0 if result.is_healthy else EXIT_UNHEALTHY
    data = {"ledger": ledger, **_check_object(result)}
    return Output(json=lambda: data, lines=lines, is_compact=True, exit_status=exit_status)


def _check_lines(terminal: Terminal, ledger: str, result: LedgerInspection) -> Iterator[str]:
    if result.is_healthy:
        yield f"{terminal.style('✓', 'green')} {ledger}   no problems"
        return
    rows = [("damage", "", printable(line)) for line in result.damage]
    rows += [("scan", printable(short_label(subject)), what) for subject, what in result.findings]
    rows += [("quarantine", printable(short_label(label)), printable(why)) for label, why in result.quarantined]
    yield f"{terminal.style('✗', 'red')} {ledger}   {format_count(len(rows), 'problem')}"
    yield from terminal.format_table(rows, indent="  ", shrink=(1, 2))
    if result.damage:
        yield Notice("The file is damaged. Keep it, and restore a backup: herdbeat db restore FILE")
    elif result.findings:
        yield Notice("A running fleet repairs this automatically within five minutes: herdbeat up")
    if result.quarantined:
        yield Notice("A quarantined schedule does not run until it is edited or reset. Its reason says what to change.")


def _check_object(result: LedgerInspection) -> dict[str, object]:
    return {
        "well": result.is_healthy,
        "damage": list(result.damage),
        "findings": [{"subject": subject, "what": what} for subject, what in result.findings],
        "quarantined": [{"schedule": label, "reason": reason} for label, reason in result.quarantined],
    }


def run_copy(args: ParsedArgs, context: Context) -> Output:
    fleet, ledger = _require_ledger_file(args, context)
    to = PostgresLocation(url=_database_url(args, context), state_dir=ledger.parent)
    if args.positional(0) and ":" in to.url.partition("://")[2].rpartition("@")[0]:
        context.terminal.info("Other users can read a password on the command line; pass the URL in HERDBEAT_STORE.")
    try:
        with show_copy_progress(args, context) as progress:
            copied = migrate_to_postgres(ledger, to, fleet, progress)
    except KeyboardInterrupt:
        context.terminal.error("Interrupted. Nothing was copied.")
        raise
    what = ", ".join(format_count(copied[table], table) for table in ("schedule", "beat", "run"))
    next_step = "Next: set store: to this URL in the fleet file, then run: herdbeat up --apply"
    return Output(
        json=lambda: {"from": str(ledger), "to": to.display_url, "rows": copied},
        lines=[f"{context.terminal.style('✓', 'green')} {to.display_url}   {what}", Notice(next_step)],
        is_compact=True,
    )


def _database_url(args: ParsedArgs, context: Context) -> str:
    """The environment may hold it, too: everybody on the machine can read a command line."""
    url = args.positional(0) or context.environ.get("HERDBEAT_STORE", "")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "Give postgresql://USER@HOST/DATABASE, or set HERDBEAT_STORE if the URL has a password."
        raise UsageError("The database URL is missing.", hint=hint)
    return url


def run_prune(args: ParsedArgs, context: Context) -> Output:
    handle, is_dry = _require_ledger(args, context), args.has(flags.DRY_RUN)
    retention = handle.fleet.retention
    if is_dry:
        pruned = count_prunable(open_audit(handle.path), retention, handle.now)
    else:
        pruned = handle.dispatcher.run(current_actor(context), PruneHistory())
    line = _describe_pruned(pruned, retention, is_dry=is_dry)
    return Output(json=lambda: {"dry_run": is_dry, **result_to_json(pruned)}, lines=[line], is_compact=True)


def _describe_pruned(pruned: PruneResult, retention: Retention, *, is_dry: bool) -> str:
    kept = f"{format_duration(retention.age)} and {retention.beats:,} beats per schedule are kept"
    what = f"{format_count(pruned.beats, 'beat')} and {format_count(pruned.runs, 'run')}"
    return f"{what} {'would be deleted' if is_dry else 'deleted'}; {kept}."


def run_restore(args: ParsedArgs, context: Context) -> Output:
    _, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    ledger = require_sqlite_path(fleet)
    file = context.folder / args.positionals[0]
    with show_copy_progress(args, context) as progress:
        restored = restore_backup(ledger, file, context.clock.now(), progress=progress)
    lines = [f"{context.terminal.style('✓', 'green')} {ledger}   restored from {file}"]
    if restored.interrupted or restored.missed:
        runs, beats = format_count(restored.interrupted, "run"), format_count(restored.missed, "queued beat")
        lines.append(f"  {runs} and {beats} of the backup were recorded as interrupted and missed")
    if restored.kept is not None:
        lines.append(f"  the previous ledger was kept as {restored.kept}")
    kept = None if restored.kept is None else str(restored.kept)
    counts = {"interrupted": restored.interrupted, "missed": restored.missed}
    return Output(json=lambda: {"ledger": str(ledger), **counts, "kept": kept}, lines=lines, is_compact=True)
