"""`herdbeat next`: when schedules, or a bare expression, run next; with `--by hour`, where the instants crowd.

An expression must not pay for a fleet: what reads the ledger or the files, and the governor, is imported only if the
argument names a fleet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.details import filled_columns, select_columns
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.output.time_format import (
    format_clock,
    format_date,
    format_short_date,
    format_time_left,
    format_utc_clock,
    has_seconds,
)
from herdbeat.cli.parser import ParsedArgs, parse_count, parse_zone_flags
from herdbeat.domain.decision import Source
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.errors import StoreUnavailable, UsageError
from herdbeat.service.queries.expressions import (
    NoNextRunReason,
    UnscheduledEntry,
    UpcomingRun,
    UpcomingView,
    iter_trigger_runs,
    parse_cron,
    parse_expression,
)
from herdbeat.service.serialize import JsonObject, serialize_upcoming
from herdbeat.time_phrases import parse_time
from herdbeat.timestamps import format_timestamp

if TYPE_CHECKING:
    from herdbeat.cli.fleet_handle import FleetHandle
    from herdbeat.service.queries.upcoming import ForecastInput

DEFAULT_INSTANTS = 5
MAX_INSTANTS = 100_000
"""Nobody reads more, and a fleet that runs every second would be counted for minutes."""

THUNDERING_HERD_SIZE = 10
"""Schedules that start at the same instant before `--by hour` warns of it."""

MAX_COUNTED_INSTANTS = 1_000_000
"""Where `--by hour` stops counting, after about half a minute."""

MAX_HOURS_RANGE = timedelta(days=31)

_BAR_GLYPHS = " ▏▎▍▌▋▊▉█"
_MAX_BAR_COLUMNS = 40
_HEADINGS = ["NEXT", "LEFT", "SCHEDULE", "WHEN", "ZONE"]
_UNSCHEDULED_LABELS = {
    NoNextRunReason.DISABLED: "○ disabled",
    NoNextRunReason.PAUSED: "‖ paused",
    NoNextRunReason.RUNNING: "● running",
    NoNextRunReason.CUT_OFF: "– cut off",
    NoNextRunReason.LATE: "◷ queued",
    NoNextRunReason.BROKEN: "✗ quarantined",
    NoNextRunReason.WAITING: "⚡ waits for an event",
    NoNextRunReason.ENDED: "▪ ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """The time to look at, from `start` to `until` if that is given. `count` limits the instants."""

    now: datetime
    start: datetime
    until: datetime | None
    count: int | None

    @property
    def is_from_now(self) -> bool:
        return self.start == self.now

    def take(self, instants: Iterator[UpcomingRun], default_count: int = MAX_INSTANTS) -> list[UpcomingRun]:
        """Return the instants inside. Without a count or an end, at most `default_count`."""
        limit = self.count or (default_count if self.until is None else MAX_INSTANTS)
        return list(islice(self.before_end(instants), limit))

    def before_end(self, instants: Iterator[UpcomingRun]) -> Iterator[UpcomingRun]:
        until = self.until
        return instants if until is None else takewhile(lambda each: each.next_run_at <= until, instants)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingSource:
    """What to look at: the trigger of a bare expression, or schedules of a fleet, as it is `now`."""

    now: datetime
    zone: ZoneInfo
    trigger: Trigger | None = None
    schedules: "tuple[ForecastInput, ...]" = ()
    not_running: str | None = None
    """The notice that nothing runs the fleet, so that nothing happens at these times."""

    @property
    def is_single(self) -> bool:
        return self.trigger is not None or len(self.schedules) == 1

    def upcoming(self, start: datetime) -> Iterator[UpcomingRun]:
        """Yield every instant, by time."""
        if self.trigger is not None:
            return iter_trigger_runs(self.trigger, start)
        from herdbeat.service.queries.upcoming import iter_fleet_runs  # noqa: PLC0415 -- an expression needs no governor

        return iter_fleet_runs(self.schedules, start)

    def instants(self, time_range: TimeRange) -> list[UpcomingRun]:
        """Return those to show: of many schedules each one's first, unless a count or an end is given."""
        instants = self._instants(time_range)
        skips = {each.label: each.skips for each in self.schedules if each.skips}
        if not skips or not time_range.is_from_now:
            return instants
        from herdbeat.service.queries.upcoming import annotate_skips  # noqa: PLC0415

        return list(annotate_skips(instants, skips))

    def _instants(self, time_range: TimeRange) -> list[UpcomingRun]:
        if self.is_single:
            return time_range.take(self.upcoming(time_range.start), DEFAULT_INSTANTS)
        if time_range.count is not None or time_range.until is not None:
            return time_range.take(self.upcoming(time_range.start))
        from herdbeat.service.queries.upcoming import find_next_runs  # noqa: PLC0415

        return find_next_runs(self.schedules, time_range.start)

    def unscheduled(self, time_range: TimeRange) -> list[UnscheduledEntry]:
        """Return the schedules that have no next time."""
        if not self.schedules:
            return []
        from herdbeat.service.queries.upcoming import find_unscheduled  # noqa: PLC0415

        return find_unscheduled(self.schedules, time_range.start)


@dataclass(frozen=True, slots=True)
class UpcomingScreen:
    """What is shown: the source, the time, the instants in it, and the schedules that have none."""

    source: UpcomingSource
    time_range: TimeRange
    instants: list[UpcomingRun]
    unscheduled: list[UnscheduledEntry]


@dataclass(slots=True)
class HourCount:
    """The instants of one hour, and how many schedules share each."""

    starts_at: datetime
    schedules_by_instant: Counter[datetime] = field(default_factory=Counter)
    first_runs: Counter[datetime] = field(default_factory=Counter)
    """Those of them that no jitter would move."""

    @property
    def herd(self) -> Counter[datetime]:
        """How many schedules share each instant that a jitter would spread."""
        return self.schedules_by_instant - self.first_runs

    @property
    def count(self) -> int:
        return self.schedules_by_instant.total()

    @property
    def peak(self) -> int:
        return max(self.schedules_by_instant.values(), default=0)


def run_next(args: ParsedArgs, context: Context) -> Output:
    source = _resolve_source(args, context, parse_zone_flags(args))
    time_range = _parse_time_range(args, source.now, source.zone)
    if args.value(flags.BY):
        return _count_hours(context.terminal, source, time_range)
    view = UpcomingScreen(source, time_range, source.instants(time_range), source.unscheduled(time_range))
    lines = _view_lines(context.terminal, view, is_verbose=args.has(flags.VERBOSE))
    return Output(json=lambda: _view_object(view), plain=_plain_lines(view), lines=lines)


def _resolve_source(args: ParsedArgs, context: Context, zone: ZoneInfo | None) -> UpcomingSource:
    cron, what = args.value(flags.CRON), args.positional(0)
    if cron is not None and what is not None:
        raise UsageError("--cron and EXPRESSION cannot be combined.", hint="Give the expression once.")
    if cron is not None or what is not None:
        from herdbeat.bootstrap.config import detect_system_zone  # noqa: PLC0415 -- it reads the file system

        here = zone or detect_system_zone(context.environ)
        trigger = parse_expression(what, here) if what is not None else parse_cron(cron or "", here)
        if trigger is not None:
            return UpcomingSource(now=context.clock.now(), zone=here, trigger=trigger)
    return _fleet_source(args, context, zone)


def _fleet_source(args: ParsedArgs, context: Context, zone: ZoneInfo | None) -> UpcomingSource:
    """Read a fleet, with its ledger if it has one. Raises NotFound or ConfigError."""
    from herdbeat.cli.fleet_handle import not_running_notice, open_fleet_handle  # noqa: PLC0415

    handle = open_fleet_handle(args, context)
    schedules = _load_forecasts(handle, context, args.positional(0))
    own = schedules[0].zone if len(schedules) == 1 else handle.zone
    notice = not_running_notice(handle)
    return UpcomingSource(now=handle.now, zone=zone or own, schedules=tuple(schedules), not_running=notice)


def _load_forecasts(handle: "FleetHandle", context: Context, selector: str | None) -> "list[ForecastInput]":
    """Return what the ledger, the files, or both say about the schedules. Raises NotFound, with a suggestion.

    While a fleet runs, only its ledger counts: files that changed a moment ago, or are broken, are not what it runs.
    Otherwise the files count too, because the next `up` begins with them.
    """
    from herdbeat.service.queries.upcoming import (  # noqa: PLC0415
        build_file_forecast,
        load_ledger_forecasts,
        load_merged_forecasts,
    )

    try:
        if (reader := handle.reader) is not None:
            has_live_node = handle.holder_pid is not None
            if has_live_node or not handle.has_files or handle.is_shared:
                return load_ledger_forecasts(reader, selector, handle.now, has_live_node=has_live_node)
            merged = load_merged_forecasts(reader, handle.fleet.schedules, handle.now)
            return _filter_by_selector(handle, merged, selector)
    except StoreUnavailable as error:
        if not handle.has_files:
            raise
        context.terminal.info(f"{error.message.rstrip('.')}. Showing times from the files only.")
    from_files = [build_file_forecast(each, handle.now) for each in handle.fleet.schedules]
    return _filter_by_selector(handle, from_files, selector)


def _filter_by_selector(
    handle: "FleetHandle", forecasts: "list[ForecastInput]", selector: str | None
) -> "list[ForecastInput]":
    """Return all, those of a target or of a pattern, or one `target/schedule`. Raises NotFound."""
    from herdbeat.cli.fleet_handle import matches_selector, unknown_selector_error  # noqa: PLC0415

    if selector is None:
        return forecasts
    chosen = [each for each in forecasts if matches_selector(each.id, selector)]
    if not chosen and handle.fleet.target(selector) is None:
        raise unknown_selector_error(handle.fleet, selector, (each.label for each in forecasts))
    return chosen


def _parse_time_range(args: ParsedArgs, now: datetime, zone: ZoneInfo) -> TimeRange:
    start_text, until_text = args.value(flags.FROM), args.value(flags.UNTIL)
    start = now if start_text is None else parse_time(start_text, now, zone)
    until = None if until_text is None else parse_time(until_text, start, zone)
    if until is not None and until <= start:
        raise UsageError("--until is before the start.", hint="Give a later time, or a duration such as 24h.")
    count = args.value(flags.COUNT)
    limit = None if count is None else parse_count(count, MAX_INSTANTS)
    return TimeRange(now=now, start=start, until=until, count=limit)


def _view_object(view: UpcomingScreen) -> JsonObject:
    return serialize_upcoming(
        UpcomingView(
            zone=view.source.zone,
            start=view.time_range.start,
            until=view.time_range.until,
            trigger=view.source.trigger,
            instants=tuple(view.instants),
            unscheduled=tuple(view.unscheduled),
        )
    )


def _plain_lines(view: UpcomingScreen) -> Iterator[str]:
    """Yield the instant, the schedule, the source and the notes, separated by tabs. `-` stands for no time."""
    for instant in view.instants:
        at, notes = format_timestamp(instant.next_run_at), "; ".join(instant.notes)
        yield "\t".join([at, instant.schedule or "-", instant.source, notes])
    for entry in view.unscheduled:
        yield "\t".join(["-", entry.schedule, entry.cause, entry.reason])
    yield from _limit_notices(view)


def _view_lines(terminal: Terminal, view: UpcomingScreen, *, is_verbose: bool) -> Iterator[str]:
    has_rows = bool(view.instants or view.unscheduled)
    if view.source.not_running is not None and view.time_range.is_from_now and has_rows:
        yield Notice(view.source.not_running)
    if view.source.is_single:
        yield from _headline(terminal, view)
        yield from (_trace_lines if is_verbose else _single_lines)(terminal, view)
    elif view.instants or view.unscheduled:
        yield from _fleet_lines(terminal, view)
    yield from _limit_notices(view)


def _limit_notices(view: UpcomingScreen) -> Iterator[Notice]:
    if not view.instants and not view.unscheduled:
        yield Notice("No runs in that period." if view.source.is_single else "No schedules.")
    if len(view.instants) == MAX_INSTANTS:
        yield Notice(f"Stopped after {MAX_INSTANTS} times.")


def _headline(terminal: Terminal, view: UpcomingScreen) -> Iterator[str]:
    """triage/standup   0 9 * * 1-5   "at 09:00, Monday to Friday"   Europe/Berlin"""
    source = view.source
    trigger = source.trigger or source.schedules[0].trigger
    parts = [terminal.style(printable(each.label), "bold") for each in source.schedules]
    expression = trigger.options().get("expression")
    parts += [expression, f'"{trigger.describe()}"'] if expression else [trigger.describe()]
    yield "   ".join([*parts, terminal.style(_format_zones(source), "dim")])
    for entry in view.unscheduled:
        label = _UNSCHEDULED_LABELS[entry.cause]
        yield f"  {label}" if entry.reason in label else f"  {label}: {entry.reason}"


def _format_zones(source: UpcomingSource) -> str:
    """Return the zone of the times, and the schedule's own if that is another one."""
    own = {each.zone.key for each in source.schedules} - {source.zone.key}
    return f"{own.pop()}, shown in {source.zone.key}" if own else source.zone.key


def _single_lines(terminal: Terminal, view: UpcomingScreen) -> Iterator[str]:
    rows = _single_rows(terminal, view)
    lines = terminal.format_table(select_columns(rows, filled_columns(rows)), indent="  ")
    for line, instant in zip(lines, view.instants, strict=True):
        yield from _with_notes(terminal, line, instant)


def _single_rows(terminal: Terminal, view: UpcomingScreen) -> list[list[str]]:
    zone, number_width = view.source.zone, len(str(len(view.instants)))
    seconds = has_seconds([instant.next_run_at for instant in view.instants])
    rows = []
    for number, instant in enumerate(view.instants, start=1):
        at = instant.next_run_at
        clock, utc_clock = (show(at, zone, seconds=seconds) for show in (format_clock, format_utc_clock))
        utc_cell, left = "" if utc_clock == clock else utc_clock, _format_left(at, view.time_range)
        rows.append([f"{number:>{number_width}}", format_date(at, zone), terminal.style(clock, "bold"), utc_cell, left])
    return rows


def _trace_lines(terminal: Terminal, view: UpcomingScreen) -> Iterator[str]:
    """Yield every instant with all steps of the governor's decision."""
    from herdbeat.cli.output.symbols import format_cause  # noqa: PLC0415 -- the usual output does not need it

    for row, instant in zip(_single_rows(terminal, view), view.instants, strict=True):
        yield f"  {'  '.join(filter(None, row))}  {format_cause(instant.source)}"
        for step in instant.trace:
            glyph = "✓" if step.won else "·"
            at = "" if step.at is None else f"  {format_clock(step.at, view.source.zone, seconds=True)}"
            yield terminal.style(f"       {glyph} {printable(step.text)}{at}", "dim")


def _fleet_lines(terminal: Terminal, view: UpcomingScreen) -> Iterator[str]:
    rows = _fleet_rows(view)
    headings, *rows = select_columns([_HEADINGS, *rows], filled_columns(rows))
    shrink = [headings.index("WHEN"), headings.index("SCHEDULE")]
    heading_line, *lines = terminal.format_table([headings, *rows], shrink=shrink)
    yield heading_line
    for line, instant in zip(lines, view.instants, strict=False):
        yield from _with_notes(terminal, line, instant)
    yield from lines[len(view.instants) :]
    is_guess = view.time_range.count is not None or view.time_range.until is not None
    if is_guess and any(each.trigger.kind is TriggerKind.INTERVAL for each in view.source.schedules):
        yield Notice("Intervals count from the end of a run; the preview assumes that runs take no time.")


def _fleet_rows(view: UpcomingScreen) -> list[list[str]]:
    source, time_range = view.source, view.time_range
    # "now" says enough: its seconds would put a :00 behind every other time.
    seconds = has_seconds([each.next_run_at for each in view.instants if each.next_run_at != time_range.now])
    trigger_cells = {each.label: [each.trigger.describe(), _trigger_zone(each, source)] for each in source.schedules}
    rows = []
    for instant in view.instants:
        at = instant.next_run_at
        when = f"{format_short_date(at, time_range.now, source.zone)}  {format_clock(at, source.zone, seconds=seconds)}"
        rows.append([when, _format_left(at, time_range), printable(instant.schedule), *trigger_cells[instant.schedule]])
    left = "—" if time_range.is_from_now else ""
    return rows + [
        [_UNSCHEDULED_LABELS[entry.cause], left, printable(entry.schedule), entry.when, ""]
        for entry in view.unscheduled
    ]


def _format_left(at: datetime, time_range: TimeRange) -> str:
    """Return how long it is from now; empty if the time range begins at another moment."""
    return format_time_left(at, time_range.now) if time_range.is_from_now else ""


def _trigger_zone(schedule: "ForecastInput", source: UpcomingSource) -> str:
    """Return the zone of a calendar if it is not the one shown: "at 01:00" beside 02:00 CET would puzzle."""
    zone = schedule.trigger.options().get("timezone", "")
    return "" if zone == source.zone.key else zone


def _with_notes(terminal: Terminal, line: str, instant: UpcomingRun) -> Iterator[str]:
    """Yield the line with its notes behind it, or below it if the screen is too narrow."""
    notes = "; ".join(instant.notes)
    if not notes or terminal.fits([f"{line}  {notes}"]):
        yield f"{line}  {terminal.style(notes, 'yellow')}".rstrip()
    else:
        yield line
        indent = "     "
        lines = terminal.wrap(notes, indent)
        yield from (indent + terminal.style(each.removeprefix(indent), "yellow") for each in lines)


def _count_hours(terminal: Terminal, source: UpcomingSource, time_range: TimeRange) -> Output:
    start, zone = time_range.start, source.zone
    until = time_range.until or start + timedelta(hours=24)
    if until - start > MAX_HOURS_RANGE:
        raise UsageError("--by hour shows at most 31 days.", hint="Give an earlier --until, such as 7d.")
    instants = replace(time_range, until=until).before_end(source.upcoming(start))
    hours = count_by_hour(islice(instants, MAX_COUNTED_INSTANTS), zone, start, until)
    is_cut = sum(hour.count for hour in hours) == MAX_COUNTED_INSTANTS
    stopped = f"Stopped after {MAX_COUNTED_INSTANTS} times; choose a shorter period with --until."
    return Output(
        json=lambda: _hours_object(hours, zone, start, until),
        plain=(f"{hour.starts_at.astimezone(zone).isoformat()}\t{hour.count}" for hour in hours),
        lines=_histogram_lines(terminal, hours, zone, has_days=until - start > timedelta(hours=24)),
        notices=[stopped] if is_cut else [],
    )


def count_by_hour(instants: Iterable[UpcomingRun], zone: ZoneInfo, start: datetime, until: datetime) -> list[HourCount]:
    """Return every hour from start to end, empty ones too: a gap is worth seeing."""
    hours: dict[datetime, HourCount] = {}
    starts_at = _start_of_hour(start, zone)
    while starts_at < until:
        hours[starts_at] = HourCount(starts_at)
        starts_at += timedelta(hours=1)
    for each in instants:
        starts_at = _start_of_hour(each.next_run_at, zone)
        hour = hours.setdefault(starts_at, HourCount(starts_at))
        hour.schedules_by_instant[each.next_run_at] += 1
        hour.first_runs[each.next_run_at] += each.source is Source.FIRST_RUN
    return [hours[key] for key in sorted(hours)]


def _start_of_hour(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the start of the hour on the wall clock of the zone: in India that is half past in UTC."""
    return moment.astimezone(zone).replace(minute=0, second=0, microsecond=0).astimezone(UTC)


def _histogram_lines(terminal: Terminal, hours: list[HourCount], zone: ZoneInfo, *, has_days: bool) -> Iterator[str]:
    peak_count = max(hour.count for hour in hours)
    busiest_hour = max(hours, key=lambda hour: max(hour.herd.values(), default=0))
    bar_columns = _MAX_BAR_COLUMNS if terminal.columns is None else max(8, min(_MAX_BAR_COLUMNS, terminal.columns // 2))
    form, hour_width = ("%a %d %b  %H", 14) if has_days else ("%H", 4)
    count_width = max(4, len(str(peak_count)))
    yield terminal.style(f"{'HOUR':<{hour_width}}  {'RUNS':>{count_width}}", "bold")
    for hour in hours:
        local = hour.starts_at.astimezone(zone).strftime(form)
        bar = terminal.style(_format_bar(hour.count, peak_count, bar_columns), "cyan")
        remark = terminal.style(_thundering_herd_warning(hour, zone), "yellow") if hour is busiest_hour else ""
        yield f"{local:<{hour_width}}  {hour.count:>{count_width}}  {bar}{remark}".rstrip()


def _format_bar(count: int, peak: int, columns: int) -> str:
    """Return a bar in eighths of a column; at least one for an hour that has anything."""
    eighths = -(-count * columns * 8 // peak) if peak else 0
    return _BAR_GLYPHS[-1] * (eighths // 8) + _BAR_GLYPHS[eighths % 8].strip()


def _thundering_herd_warning(hour: HourCount, zone: ZoneInfo) -> str:
    """Return the warning about the fullest instant of an hour; empty if few schedules share it."""
    peak = max(hour.herd.values(), default=0)
    if peak < THUNDERING_HERD_SIZE:
        return ""
    at = min(moment for moment, count in hour.herd.items() if count == peak)
    return f"   {peak} schedules start at {at.astimezone(zone):%H:%M:%S}; spread them with `jitter: 10%`"


def _hours_object(hours: list[HourCount], zone: ZoneInfo, start: datetime, until: datetime) -> dict[str, object]:
    return {
        "from": format_timestamp(start),
        "until": format_timestamp(until),
        "timezone": zone.key,
        "hours": [
            {"local": hour.starts_at.astimezone(zone).isoformat(), "count": hour.count, "most_at_once": hour.peak}
            for hour in hours
        ],
    }
