"""Finding the fleet that a command line means, and opening its ledger. Nothing is changed, and nothing has to run."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.bootstrap.config import (
    CachedConfig,
    detect_system_zone,
    find_bare_ledger,
    find_cached_config,
    load_config,
    write_config_cache,
)
from herdbeat.bootstrap.handle import FleetHandle as FleetHandle  # noqa: PLC0414 -- commands take it from here
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.symbols import format_count
from herdbeat.cli.output.time_parse import parse_zone_flags
from herdbeat.cli.parser import ParsedArgs, parse_count
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.schedule import Schedule
from herdbeat.errors import ConfigError, NotFound
from herdbeat.service.queries.selectors import no_such_schedule
from herdbeat.store.location import (
    StoreLocation,
    open_audit,
    open_reader,
    resolve_state_dir,
    select_clock,
    store_location,
)
from herdbeat.store.state_lock import find_lock_holder

if TYPE_CHECKING:
    from herdbeat.config import LoadResult


def load_fleet_files(path: str | None, context: Context) -> "tuple[LoadResult, Fleet]":
    """What the files say, and the fleet in it. Raises ConfigError if they define none.

    A broken schedule does not hide the others: they are shown, with a remark that something is wrong.
    """
    reading = load_config(path, context.environ, context.folder)
    if reading.fleet is None:
        raise ConfigError(reading.errors)
    if reading.errors:
        count = "1 problem" if len(reading.errors) == 1 else f"{len(reading.errors)} problems"
        context.terminal.info(f"{count}; what is broken is left out. See: herdbeat validate")
    return reading, reading.fleet


def select_schedules(fleet: Fleet, selector: str | None) -> list[Schedule]:
    """The schedules that a selector means: all, a target's, or one `target/schedule`. Raises NotFound."""
    if selector is None:
        return list(fleet.schedules)
    chosen = [each for each in fleet.schedules if matches_selector(each.id, selector)]
    if not chosen and fleet.target(selector) is None:
        raise unknown_selector_error(fleet, selector, (each.label for each in fleet.schedules))
    return chosen


def matches_selector(schedule: str, selector: str) -> bool:
    """Whether `target/schedule` is what a selector means."""
    if "*" in selector:
        return fnmatchcase(schedule, selector)
    return selector in (schedule, schedule.rpartition("/")[0])


def unknown_selector_error(fleet: Fleet, selector: str, labels: Iterable[str]) -> NotFound:
    """It guesses among the targets of the fleet and these labels."""
    return no_such_schedule(selector, {each.name for each in fleet.targets} | set(labels))


MAX_ROWS = 10_000
NEVER_RAN_NOTICE = "Nothing has run here yet. Start it with: herdbeat up"


@contextmanager
def open_fleet_handle(args: ParsedArgs, context: Context) -> Iterator[FleetHandle]:
    found = use_ledger_clock(_locate_fleet(args.value(flags.CONFIG), context), context)
    reader = open_reader(found.path) if found.has_ledger else None
    try:
        # What the time is is asked last: to reach a database takes a while, in which others start and end.
        yield replace(found, reader=reader, zone=parse_zone_flags(args) or found.zone, now=found.clock.now())
    finally:
        if reader is not None:
            reader.close()


def use_ledger_clock(found: FleetHandle, context: Context) -> FleetHandle:
    """The same, with the time that counts there."""
    clock = select_clock(found.path, context.clock)
    if clock is None:
        return found
    return replace(found, has_ledger=True, clock=clock, now=clock.now())


def _locate_fleet(config: str | None, context: Context) -> FleetHandle:
    cached = find_cached_config(config, context.environ, context.folder)
    if cached is not None:
        return _build_from_cache(cached, config, context)
    last = find_cached_config(config, context.environ, context.folder, is_current=False)
    if last is not None and find_lock_holder(resolve_state_dir(last.ledger)) is not None:
        # Who runs the fleet reads its changed files, and goes on with its name, zone and ledger until it is started
        # anew. With ten thousand targets, the first command after each edit took 6 s to read them, too.
        return _build_from_cache(last, config, context)
    bare = find_bare_ledger(config, context.environ, context.folder)
    if bare is not None:
        return _build_from_fleet(_load_bare_fleet(bare, context), bare, context, has_files=False)
    try:
        return _build_from_fleet(*_read_files(config, context), context)
    except ConfigError as error:
        # Who breaks a file at night wants to know what is running, and was told of a missing bracket instead.
        if last is None:
            raise
        count = format_count(len(error.problems), "problem")
        context.terminal.info(f"The files cannot be read ({count}); this is the ledger. See: herdbeat validate")
        return _build_from_cache(last, config, context)


def _build_from_cache(cached: CachedConfig, config: str | None, context: Context) -> FleetHandle:
    """The files are read only if somebody asks for them."""
    return FleetHandle(
        name=cached.name,
        path=cached.ledger,
        now=context.clock.now(),
        clock=context.clock,
        zone=cached.zone,
        load_fleet=cache(lambda: _read_files(config, context)[0]),
    )


def build_handle(fleet: Fleet, context: Context) -> FleetHandle:
    """The handle of a fleet whose files are read already: without a reader, and with the clock of this machine."""
    return _build_from_fleet(fleet, store_location(fleet), context)


def _build_from_fleet(fleet: Fleet, path: StoreLocation, context: Context, *, has_files: bool = True) -> FleetHandle:
    return FleetHandle(
        name=fleet.name,
        path=path,
        now=context.clock.now(),
        clock=context.clock,
        zone=fleet.zone,
        load_fleet=lambda: fleet,
        has_files=has_files,
    )


def _load_bare_fleet(path: Path, context: Context) -> Fleet:
    """What is known of a fleet without files: its name. Its program has the rest."""
    name = open_audit(path).read_transaction(lambda tx: tx.fleet_name())
    zone = detect_system_zone(context.environ)
    return Fleet(name=name or "", zone=zone, targets=(), schedules=(), store=f"sqlite:{path}", server=ServerSettings())


def _read_files(config: str | None, context: Context) -> tuple[Fleet, StoreLocation]:
    reading, fleet = load_fleet_files(config, context)
    path = store_location(fleet)
    if isinstance(path, Path):  # the way to a database may have a password in it, and is not written down
        write_config_cache(config, context.environ, context.folder, reading, path)
    return fleet, path


def parse_row_count(text: str | None, default_count: int = 50) -> int:
    return default_count if text is None else parse_count(text, MAX_ROWS)
