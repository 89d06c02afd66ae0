"""`herdbeat next --by hour`: where the instants crowd, and what would spread them."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.commands.next import TimeRange, UpcomingSource
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, matches_selector, unknown_selector_error
from herdbeat.cli.output.terminal import Terminal
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import StoreUnavailable, UsageError
from herdbeat.service.queries.expressions import UpcomingRun
from herdbeat.service.queries.hints import build_hint
from herdbeat.service.queries.schedules import find_schedules
from herdbeat.service.queries.upcoming import (
    ForecastInput,
    build_file_forecast,
    build_ledger_forecast,
    merge_files_and_ledger,
)
from herdbeat.store.reader import Reader, ScheduleQuery
from herdbeat.timestamps import format_timestamp

THUNDERING_HERD_SIZE = 10
"""So many schedules at one instant are worth a word."""

MAX_COUNTED_INSTANTS = 1_000_000
"""Where counting stops: about half a minute of it."""

MAX_RANGE = timedelta(days=31)

_BAR_GLYPHS = " ▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class HourCount:
    """The instants of one hour, and how many schedules meet at each."""

    starts_at: datetime
    schedules_by_instant: Counter[datetime] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.schedules_by_instant.total()

    @property
    def peak(self) -> int:
        return max(self.schedules_by_instant.values(), default=0)


def show_hours(args: ParsedArgs, terminal: Terminal, source: UpcomingSource, time_range: TimeRange) -> None:
    until = time_range.until or time_range.start + timedelta(hours=24)
    if until - time_range.start > MAX_RANGE:
        raise UsageError("--by hour shows at most 31 days.", hint="Give a nearer --until, such as 7d.")
    time_range = replace(time_range, until=until)
    found = islice(time_range.before_end(source.upcoming(time_range.start)), MAX_COUNTED_INSTANTS)
    hours = count_by_hour(found, source.zone, time_range.start, until)
    if args.has(flags.JSON):
        terminal.print(
            json.dumps(_hours_object(hours, source.zone, time_range.start, until), indent=2, ensure_ascii=False)
        )
    elif args.has(flags.PLAIN):
        for hour in hours:
            terminal.print(f"{hour.starts_at.astimezone(source.zone).isoformat()}\t{hour.count}")
    else:
        _show_histogram(terminal, hours, source.zone, has_days=until - time_range.start > timedelta(hours=24))
    if sum(hour.count for hour in hours) == MAX_COUNTED_INSTANTS:
        terminal.info(f"Stopped counting at {MAX_COUNTED_INSTANTS} instants; take a shorter time with --until.")


def count_by_hour(instants: Iterable[UpcomingRun], zone: ZoneInfo, start: datetime, until: datetime) -> list[HourCount]:
    """Every hour from start to end, also the empty ones: a gap is something to see."""
    hours: dict[datetime, HourCount] = {}
    starts_at = _start_of_hour(start, zone)
    while starts_at < until:
        hours[starts_at] = HourCount(starts_at)
        starts_at += timedelta(hours=1)
    for each in instants:
        starts_at = _start_of_hour(each.next_run_at, zone)
        hours.setdefault(starts_at, HourCount(starts_at)).schedules_by_instant[each.next_run_at] += 1
    return [hours[key] for key in sorted(hours)]


def _start_of_hour(moment: datetime, zone: ZoneInfo) -> datetime:
    """The start of its hour on the wall clock of the zone: in India that is half past in UTC."""
    return moment.astimezone(zone).replace(minute=0, second=0, microsecond=0).astimezone(UTC)


def _show_histogram(terminal: Terminal, hours: list[HourCount], zone: ZoneInfo, *, has_days: bool) -> None:
    peak_count = max(hour.count for hour in hours)
    busiest_hour = max(hours, key=lambda hour: hour.peak)
    for hour in hours:
        local = hour.starts_at.astimezone(zone).strftime("%a %d %b  %H" if has_days else "%H")
        bar = terminal.style(_BAR_GLYPHS[-(-hour.count * 8 // peak_count)], "cyan") if peak_count else " "
        remark = terminal.style(_thundering_herd_warning(hour, zone), "yellow") if hour is busiest_hour else ""
        terminal.print(f"{local} {bar} {hour.count:>{len(str(peak_count))}}{remark}")


def _thundering_herd_warning(hour: HourCount, zone: ZoneInfo) -> str:
    """Said once, of the fullest instant of all: it is the first to mend."""
    if hour.peak < THUNDERING_HERD_SIZE:
        return ""
    at = min(moment for moment, count in hour.schedules_by_instant.items() if count == hour.peak)
    return f"   {hour.peak} schedules share {at.astimezone(zone):%H:%M:%S}; `jitter: 10%` would spread them"


def _hours_object(hours: list[HourCount], zone: ZoneInfo, start: datetime, until: datetime) -> dict[str, object]:
    return {
        "from": format_timestamp(start),
        "until": format_timestamp(until),
        "timezone": zone.key,
        "hours": [
            {
                "local": hour.starts_at.astimezone(zone).isoformat(),
                "count": hour.count,
                "most_at_once": hour.peak,
            }
            for hour in hours
        ],
    }


# Which schedules `herdbeat next` is about, and how they stand: from the ledger, the files, or both.


MAX_SCHEDULES = 1_000_000


def load_forecast_inputs(handle: FleetHandle, context: Context, selector: str | None) -> list[ForecastInput]:
    """Raises NotFound, which guesses.

    While a fleet runs, its ledger is all there is to know: files that changed a moment ago, or are broken, are not what
    it runs. Else the files count too, since they are what the next `up` begins with.
    """
    reader = handle.reader
    if reader is None:
        return _filter_by_selector(
            handle, [build_file_forecast(each, handle.now) for each in handle.fleet.schedules], selector
        )
    try:
        if handle.holder_pid is not None or not handle.has_files or not isinstance(handle.path, Path):
            return _load_from_ledger(handle, reader, selector)
        known = reader.find(ScheduleQuery(now=handle.now, limit=MAX_SCHEDULES))
        merged = merge_files_and_ledger(handle.fleet.schedules, known, _active_hints(reader, known, handle), handle.now)
    except StoreUnavailable as error:
        if not handle.has_files:
            raise
        context.terminal.info(f"{error.message.rstrip('.')}. These are the times of the files alone.")
        merged = [build_file_forecast(each, handle.now) for each in handle.fleet.schedules]
    return _filter_by_selector(handle, merged, selector)


def _load_from_ledger(handle: FleetHandle, reader: Reader, selector: str | None) -> list[ForecastInput]:
    names = () if selector is None else (selector,)
    found = find_schedules(reader, ScheduleQuery(now=handle.now, names=names, limit=MAX_SCHEDULES))
    hints = _active_hints(reader, found, handle)
    has_live_node = handle.holder_pid is not None
    return [
        build_ledger_forecast(each, hints.get(each.label, []), handle.now, has_live_node=has_live_node)
        for each in found
    ]


def _active_hints(reader: Reader, records: Iterable[ScheduleRecord], handle: FleetHandle) -> dict[str, list[Hint]]:
    """Those that are not over, by schedule."""
    found: dict[str, list[Hint]] = {}
    if reader.has_hints():
        for each in reader.hints([record.id for record in records], ended_since=handle.now, limit=MAX_SCHEDULES):
            if each.ended_at is None:
                found.setdefault(each.schedule, []).append(build_hint(each))
    return found


def _filter_by_selector(handle: FleetHandle, inputs: list[ForecastInput], selector: str | None) -> list[ForecastInput]:
    """All, a target's, those of a pattern, or one `target/schedule`."""
    if selector is None:
        return inputs
    chosen = [each for each in inputs if matches_selector(each.id, selector)]
    if not chosen and handle.fleet.target(selector) is None:
        raise unknown_selector_error(handle.fleet, selector, (each.label for each in inputs))
    return chosen
