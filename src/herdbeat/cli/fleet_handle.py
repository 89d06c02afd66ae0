"""Finding the fleet that a command line means, and opening its ledger. Nothing is changed, and nothing has to run."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from herdbeat.bootstrap.config import (
    LEDGER_FILE_NAME,
    STATE_DIR_NAME,
    CachedConfig,
    detect_system_zone,
    drop_stale_cache,
    find_bare_ledger,
    find_cached_config,
    load_config,
    locate_config,
    write_config_cache,
)
from herdbeat.bootstrap.handle import FleetHandle as FleetHandle  # noqa: PLC0414 -- commands take it from here
from herdbeat.bootstrap.handle import Reader as Reader  # noqa: PLC0414
from herdbeat.bootstrap.handle import build_handle, find_local_pid, open_bare_ledger
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs, parse_count, parse_zone_flags
from herdbeat.domain.records import NodeRecord, RunRecord, ScheduleRecord
from herdbeat.errors import ConfigError, NotFound
from herdbeat.service.queries.selectors import AmbiguousSchedule, build_unknown_schedule_error, find_single_schedule

MAX_REMOTE_RUNS = 10_000

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import LoadResult
    from herdbeat.domain.fleet import Fleet
    from herdbeat.domain.schedule import Schedule


def load_fleet_files(path: str | None, context: Context) -> "tuple[LoadResult, Fleet]":
    """What the files say, and the fleet in it. Raises ConfigError if they define none.

    A broken schedule does not hide the others: they are shown, with a remark that something is wrong.
    """
    reading = load_config(path, context.environ, context.folder)
    if reading.fleet is None:
        raise ConfigError(reading.errors)
    if reading.errors:
        count = format_count(len(reading.errors), "problem")
        context.terminal.info(f"{count} in the files; affected schedules are left out. See: herdbeat validate")
    return reading, reading.fleet


def select_schedules(fleet: "Fleet", selector: str | None) -> "list[Schedule]":
    """The schedules that a selector means: all, a target's, or one `target/schedule`. Raises NotFound."""
    if selector is None:
        return list(fleet.schedules)
    chosen = [each for each in fleet.schedules if matches_selector(each.id, selector)]
    if not chosen and fleet.target(selector) is None:
        raise unknown_selector_error(fleet, selector, (each.label for each in fleet.schedules))
    return chosen


def matches_selector(schedule: str, selector: str) -> bool:
    """Whether `target/schedule` is what a selector means."""
    return fnmatchcase(schedule, selector) if "*" in selector else selector in (schedule, schedule.rpartition("/")[0])


def unknown_selector_error(fleet: "Fleet", selector: str, labels: Iterable[str]) -> NotFound:
    """It guesses among the targets of the fleet and these labels."""
    return build_unknown_schedule_error(selector, {each.name for each in fleet.targets} | set(labels))


MAX_ROWS = 10_000
NEVER_RAN_NOTICE = "The fleet has never been started. Start it with: herdbeat up"


def choose_schedule(args: ParsedArgs, context: Context, reader: Reader, selector: str) -> ScheduleRecord:
    """Return the schedule that the user names. If a target has several, ask which.

    Raises NotFound; AmbiguousSchedule without an interactive terminal.
    """
    try:
        return find_single_schedule(reader, selector)
    except AmbiguousSchedule as several:
        if not context.is_interactive or context.stdin is None or args.has(flags.JSON):
            raise
        answer = _ask_which(context, several.labels, context.stdin)
        if answer is None:
            raise
        return find_single_schedule(reader, answer)


def _ask_which(context: Context, labels: Sequence[str], stdin: TextIO) -> str | None:
    for number, label in enumerate(labels, start=1):
        context.terminal.error(f"  {number}  {printable(label)}")
    context.terminal.err.write(f"Choose a schedule [1-{len(labels)}]: ")
    context.terminal.err.flush()
    answer = stdin.readline().strip()
    return labels[int(answer) - 1] if answer.isdecimal() and 1 <= int(answer) <= len(labels) else None


def not_running_notice(handle: FleetHandle) -> str | None:
    """Return the line that says that nothing shown will happen by itself; None while a node runs the fleet."""
    if handle.holder_pid is not None:
        return None
    other_pid = find_local_pid(handle.state_dir)
    if other_pid is not None and handle.local_pid is None:
        return f"The node of this folder (pid {other_pid}) runs another ledger. Restart it: herdbeat down; herdbeat up"
    if handle.reader is None:
        return NEVER_RAN_NOTICE
    node = handle.reader.last_node()
    since = f" ({describe_last_sign(node, handle)})" if node else ""
    return f"scheduler: not running{since}. Start it with: herdbeat up"


def describe_last_sign(node: NodeRecord, handle: FleetHandle) -> str:
    """Return since when a node does not run. Of one that was killed, only its last heartbeat is known."""
    word, at = ("last seen", node.seen_at) if node.stopped_at is None else ("since", node.stopped_at)
    return f"{word} {format_time(at, handle.now, handle.zone)}"


def open_fleet_handle(args: ParsedArgs, context: Context) -> FleetHandle:
    """Return the fleet with its ledger, which stays open until the output of the command is printed."""
    found = _locate_fleet(args.value(flags.CONFIG), context).use_ledger_clock()
    reader = context.resources.enter_context(closing(found.open_reader())) if found.has_ledger else None
    # The time is read last: reaching a database takes a while, in which runs start and end.
    return replace(found, reader=reader, zone=parse_zone_flags(args) or found.zone, now=found.clock.now())


def describe_broken_files(args: ParsedArgs, context: Context, handle: FleetHandle) -> str:
    """Return what a running fleet does while its files have a mistake; empty if they have none.

    Files that have not changed since they were read without a mistake are not read again.
    """
    place = (args.value(flags.CONFIG), context.environ, context.folder)
    if not handle.has_files or handle.is_shared or handle.local_pid is None or find_cached_config(*place) is not None:
        return ""
    try:
        problems = load_config(*place).errors
    except ConfigError as error:
        problems = error.problems
    if not problems:
        return ""
    count = format_count(len(problems), "error")
    return f"The files have {count}; the last valid version is running. See: herdbeat validate"


def open_fleet_to_extend(args: ParsedArgs, context: Context) -> FleetHandle:
    """Do the same for `create`, which needs no file: without any, the ledger of this folder is begun."""
    place = (args.value(flags.CONFIG), context.environ, context.folder)
    if locate_config(*place) is not None or find_bare_ledger(*place) is not None:
        return open_fleet_handle(args, context)
    path = context.folder / STATE_DIR_NAME / LEDGER_FILE_NAME
    handle = open_bare_ledger(path, detect_system_zone(context.environ), context.clock)
    return replace(handle, zone=parse_zone_flags(args) or handle.zone)


def load_fleet_without_files(config: str | None, context: Context) -> "Fleet | None":
    """Return the fleet of a ledger that `create` has written where there are no files.

    None if there is no such ledger, or if it belongs to a Python program, which must run it itself.
    """

    from herdbeat.domain.target import is_unmanaged  # noqa: PLC0415 - few commands need it

    place = (config, context.environ, context.folder)
    if locate_config(*place) is not None or (ledger := find_bare_ledger(*place)) is None:
        return None
    from herdbeat.service.commands.fleet import list_targets  # noqa: PLC0415 -- only `up` needs it

    is_ours = all(is_unmanaged(row.origin) for row in list_targets(ledger).values())
    return open_bare_ledger(ledger, detect_system_zone(context.environ), context.clock).fleet if is_ours else None


def _locate_fleet(config: str | None, context: Context) -> FleetHandle:
    place = (config, context.environ, context.folder)
    if (cached := find_cached_config(*place)) is not None:
        return _build_from_cache(cached, config, context)
    last_config = find_cached_config(*place, is_current=False)
    last = None if last_config is None else _build_from_cache(last_config, config, context)
    if last is not None and last.local_pid is not None:
        # The node reads its changed files, and keeps its name, zone and ledger until it is restarted.
        # With ten thousand targets, the first command after each edit took 6 s to read them, too.
        return last
    if (bare := find_bare_ledger(*place)) is not None:
        return open_bare_ledger(bare, detect_system_zone(context.environ), context.clock)
    try:
        return build_handle(_read_files(config, context), context.clock)
    except ConfigError as error:
        # After breaking a file, one still wants to know what is running, not only about the missing bracket.
        if last is None and (running := _find_running_fleet(config, context)) is not None:
            return running
        if last is None:
            raise
        count = format_count(len(error.problems), "problem")
        context.terminal.info(f"The files cannot be read ({count}); showing the ledger. See: herdbeat validate")
        return last


def _find_running_fleet(config: str | None, context: Context) -> FleetHandle | None:
    """Return the fleet whose ledger is beside files that cannot be read; None unless a process runs it."""
    config_path = locate_config(config, context.environ, context.folder)
    if config_path is None:
        return None
    folder = config_path if config_path.is_dir() else config_path.parent
    ledger = folder / STATE_DIR_NAME / LEDGER_FILE_NAME
    if not ledger.exists():
        return None
    bare = open_bare_ledger(ledger, detect_system_zone(context.environ), context.clock)
    if bare.local_pid is None:
        return None
    return _build_from_cache(CachedConfig(name=bare.name, zone=bare.zone, ledger=ledger), config, context)


def _build_from_cache(cached: CachedConfig, config: str | None, context: Context) -> FleetHandle:
    """The files are read only if somebody asks for them."""
    name, path, zone, clock = cached.name, cached.ledger, cached.zone, context.clock
    load_fleet = cache(lambda: _read_files(config, context))
    return FleetHandle(name=name, path=path, now=clock.now(), clock=clock, zone=zone, load_fleet=load_fleet)


def _read_files(config: str | None, context: Context) -> "Fleet":
    reading, fleet = load_fleet_files(config, context)
    handle = build_handle(fleet, context.clock)
    if isinstance(handle.path, Path):
        write_config_cache(config, context.environ, context.folder, reading, handle.path)
    else:  # the URL of a database may have a password in it, and is not stored
        drop_stale_cache(handle.state_dir, None)
    return fleet


def parse_row_count(text: str | None, default_count: int = 50) -> int:
    return default_count if text is None else parse_count(text, MAX_ROWS)


def is_cut_off(handle: FleetHandle, run: RunRecord) -> bool:
    """True if the ledger calls a run running, but it died with its node, and the next start will record that."""
    return run.finished_at is None and not is_run_alive(handle, (run.id,))


def is_run_alive(handle: FleetHandle, run_ids: Sequence[int]) -> bool:
    """Whether one of these open runs may go on: a node runs, or the run is on an engine, which needs none."""
    if handle.holder_pid is not None or handle.reader is None:
        return True
    return not handle.reader.remote_places(MAX_REMOTE_RUNS).keys().isdisjoint(run_ids)
