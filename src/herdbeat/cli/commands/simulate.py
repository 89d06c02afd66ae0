"""`herdbeat simulate`: what the fleet would do in the next days, with the real scheduler on a moved clock."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, load_fleet_files, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.simulation_page import format_total_cost, format_usd, render_simulation
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.output.time_format import format_clock, format_short_date
from herdbeat.cli.parser import ParsedArgs, parse_count
from herdbeat.durations import humanize, parse_duration
from herdbeat.errors import ConfigError, UsageError
from herdbeat.platform import tune_interpreter
from herdbeat.service.simulation.engine import Progress, SimulationSettings, UsageLimit, simulate
from herdbeat.service.simulation.report import SimulatedSchedule, SimulationReport, build_report, serialize_simulation
from herdbeat.service.simulation.run_model import GivenValues, ProfileSource, build_profiles
from herdbeat.time_phrases import parse_time

DEFAULT_DAYS = "30"
MAX_DAYS = 366
MAX_SEED = 999_999
MAX_USD = 1_000_000.0
_BAR_WIDTH = 24
_HEADINGS = ["SCHEDULE", "BEATS", "RUNS", "FAILED", "MISSED", "SKIPPED", "COST", "LATE", "FROM"]
_SHOWN_ROWS = 5

V = TypeVar("V")


def run_simulate(args: ParsedArgs, context: Context) -> Output:
    days = timedelta(days=parse_count(args.value(flags.DAYS) or DEFAULT_DAYS, MAX_DAYS, "--days"))
    given = GivenValues(
        durations=_parse_given(args.all_values(flags.RUN_DURATION), _parse_run_duration),
        failure_rates=_parse_given(args.all_values(flags.FAILURES), _parse_rate),
        costs=_parse_given(args.all_values(flags.RUN_COST), _parse_usd),
    )
    handle = open_fleet_handle(args, context)
    reading, fleet = load_fleet_files(args.value(flags.CONFIG), context)
    if reading.errors:
        raise ConfigError(reading.errors)
    start = _parse_start(args, handle)
    settings = SimulationSettings(
        start=start,
        until=start + days,
        seed=_parse_seed(args.value(flags.SEED)),
        usage_limit=_parse_usage_limit(args.value(flags.USAGE_LIMIT)),
    )
    reader = None if args.has(flags.NO_HISTORY) else handle.reader
    profiles = build_profiles(fleet, reader, given)
    tune_interpreter()  # as a node does
    with _show_progress(args, context, settings) as progress:
        report = build_report(fleet, profiles, settings, simulate(fleet, profiles, settings, progress))
    page = args.value(flags.HTML)
    if page is not None:
        _write_page(context.folder / Path(page).expanduser(), report)
    lines = _report_lines(context.terminal, handle, report)
    notices = [*_notices(report), *([f"Written: {page}"] if page else [])]
    return Output(json=lambda: serialize_simulation(report), plain=_plain_lines(report), lines=lines, notices=notices)


def _parse_start(args: ParsedArgs, handle: FleetHandle) -> datetime:
    text = args.value(flags.FROM)
    moment = handle.now if text is None else parse_time(text, handle.now, handle.zone)
    return moment.replace(microsecond=0)


def _parse_seed(text: str | None) -> int:
    return 0 if text is None else parse_count(text, MAX_SEED, "--seed", minimum=0)


def _parse_given(texts: Sequence[str], parse: Callable[[str], V]) -> dict[str, V]:
    """Return values by pattern. A value without a name is for every schedule, and named ones come after it."""
    given: dict[str, V] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        given[name if equals else "*"] = parse(value)
    return {pattern: given[pattern] for pattern in sorted(given, key=lambda pattern: pattern != "*")}


def _parse_run_duration(text: str) -> timedelta:
    return parse_duration(text)


def _parse_rate(text: str) -> float:
    rate = _parse_number(text.removesuffix("%"), "--failures", "5% or 0.05")
    rate = rate / 100 if text.endswith("%") else rate
    if rate > 1:
        raise UsageError(f'--failures cannot be "{text[:20]}".', hint="Use a part of all runs, such as 5% or 0.05.")
    return rate


def _parse_usd(text: str) -> float:
    return _parse_number(text.removeprefix("$"), "--cost", "0.25")


def _parse_number(text: str, option: str, example: str) -> float:
    try:
        number = float(text) if text.isascii() else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number <= MAX_USD:  # also refuses nan
        raise UsageError(f'{option} cannot be "{text[:20]}".', hint=f"Use a number, such as {example}.")
    return number


def _parse_usage_limit(text: str | None) -> UsageLimit | None:
    if text is None:
        return None
    runs, _, window = text.partition("/")
    if not window:
        raise UsageError(f'--usage-limit cannot be "{text[:20]}".', hint="Use runs and a time, such as 40/5h.")
    return UsageLimit(parse_count(runs, MAX_SEED, "--usage-limit"), parse_duration(window))


@contextmanager
def _show_progress(args: ParsedArgs, context: Context, settings: SimulationSettings) -> Iterator[Progress | None]:
    """A bar that fills up on one line, where somebody watches."""
    err = context.terminal.err
    if args.has(flags.JSON) or context.terminal.is_quiet or not err.isatty():
        yield None
        return

    def show(now: datetime) -> None:
        percent = int(100 * (now - settings.start) / (settings.until - settings.start))
        filled = percent * _BAR_WIDTH // 100
        day = (now - settings.start).days + 1
        err.write(f"\rsimulating {'█' * filled}{'░' * (_BAR_WIDTH - filled)} {percent:3}%  day {day}")
        err.flush()

    try:
        yield show
    finally:
        err.write("\r\x1b[K")
        err.flush()


def _write_page(path: Path, report: SimulationReport) -> None:
    try:
        path.write_text(render_simulation(report), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", hint="Give --html another file.") from error


def _report_lines(terminal: Terminal, handle: FleetHandle, report: SimulationReport) -> Iterator[str]:
    totals = report.totals
    days = humanize(report.until - report.start)
    yield terminal.style(
        f"{printable(report.fleet)}   {days} from {_format_moment(handle, report.start)}   seed {report.seed}", "bold"
    )
    yield ""
    yield from terminal.format_table([_HEADINGS, *(_cells(each) for each in report.schedules)], shrink=(0,))
    yield ""
    yield f"runs          {totals.runs:,} for {format_count(totals.beats, 'beat')}, {totals.failed:,} failed"
    yield f"not run       {totals.missed:,} missed, {totals.skipped:,} skipped, {totals.merged:,} merged"
    yield f"cost          {format_total_cost(totals)}"
    yield f"lateness      {totals.late_runs:,} starts waited, at most {_format_seconds(totals.late_max_s)}"
    yield f"capacity      at most {totals.most_active:,} at once, {totals.capacity_waits:,} waited for their target"
    yield f"collisions    {totals.collision_seconds:,} seconds with several starts"
    for shared in report.collisions[:_SHOWN_ROWS]:
        more = shared.starts - len(shared.schedules)
        names = ", ".join(printable(name) for name in shared.schedules) + (f" and {more:,} more" if more else "")
        yield f"              {_format_moment(handle, shared.at)}  {shared.starts:,} starts: {names}"
    yield f"budgets       {format_count(totals.budget_days, 'day')} on which a budget stopped a schedule"
    if totals.usage_limit_holds:
        held = _format_seconds(totals.usage_limit_hold_s)
        yield f"usage limits  reached {format_count(totals.usage_limit_holds, 'time')}, held for {held}"
    for odd in report.odd_nights[:_SHOWN_ROWS]:
        yield f"odd night     {_format_moment(handle, odd.at)}  {printable(odd.schedule)}: {odd.note}"
    if len(report.odd_nights) > _SHOWN_ROWS:
        yield f"              and {len(report.odd_nights) - _SHOWN_ROWS} more around clock changes (--json lists them)"


def _cells(each: SimulatedSchedule) -> list[str]:
    late = f"{each.late_runs:,} ≤ {_format_seconds(each.late_max_s)}" if each.late_runs else "–"
    counts = (each.beats, each.runs, each.failed, each.missed, each.skipped)
    return [
        printable(each.schedule),
        *(f"{count:,}" for count in counts),
        format_usd(each.cost_usd),
        late,
        each.profile,
    ]


def _format_seconds(seconds: float) -> str:
    return humanize(timedelta(seconds=round(seconds))) if seconds >= 1 else f"{seconds * 1000:.0f}ms"


def _format_moment(handle: FleetHandle, moment: datetime) -> str:
    clock = format_clock(moment, handle.zone, seconds=moment.second != 0)
    return f"{format_short_date(moment, handle.now, handle.zone)} {clock}"


def _plain_lines(report: SimulationReport) -> Iterator[str]:
    for each in report.schedules:
        usd = "" if each.cost_usd is None else f"{each.cost_usd:g}"
        counts = (each.beats, each.runs, each.failed, each.missed, each.skipped, each.merged)
        yield "\t".join([each.schedule, *map(str, counts), usd, f"{each.late_max_s:g}", each.profile])


def _notices(report: SimulationReport) -> Iterator[str]:
    assumed = sum(each.profile is ProfileSource.ASSUMED for each in report.schedules)
    if assumed:
        yield Notice(
            f"{format_count(assumed, 'schedule')} without recorded runs: typical values are assumed. "
            "Give others with --duration, --failures and --cost."
        )
    if not report.schedules:
        yield Notice("The fleet has no schedules.")
