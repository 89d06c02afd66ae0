"""`herdbeat next`: what to look at, from when to when, and in which form."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.time_format import parse_time, parse_zone_flags
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import UsageError
from herdbeat.service.queries.expressions import (
    UnscheduledEntry,
    UpcomingRun,
    iter_trigger_runs,
    parse_cron,
    parse_expression,
)

if TYPE_CHECKING:
    from herdbeat.service.queries.upcoming import ForecastInput

DEFAULT_INSTANTS = 5
MAX_INSTANTS = 100_000
"""Past that many instants nobody reads on, and a fleet of seconds would count for minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """The part of time that is asked for."""

    now: datetime
    start: datetime
    until: datetime | None
    count: int | None

    @property
    def is_from_now(self) -> bool:
        return self.start == self.now

    def take(self, instants: Iterator[UpcomingRun], default_count: int = MAX_INSTANTS) -> list[UpcomingRun]:
        """Those inside. Without a count or an end, the usual number of them."""
        limit = self.count or (default_count if self.until is None else MAX_INSTANTS)
        return list(islice(self.before_end(instants), limit))

    def before_end(self, instants: Iterator[UpcomingRun]) -> Iterator[UpcomingRun]:
        until = self.until
        return instants if until is None else takewhile(lambda each: each.next_run_at <= until, instants)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingSource:
    """What is asked about: a bare expression, or schedules of a fleet."""

    zone: ZoneInfo
    trigger: Trigger | None = None
    schedules: "tuple[ForecastInput, ...]" = ()

    @property
    def is_single(self) -> bool:
        return self.trigger is not None or len(self.schedules) == 1

    def upcoming(self, start: datetime) -> Iterator[UpcomingRun]:
        """Every instant, by time."""
        if self.trigger is not None:
            return iter_trigger_runs(self.trigger, start)
        from herdbeat.service.queries.upcoming import iter_fleet_runs  # noqa: PLC0415 -- an expression needs no governor

        return iter_fleet_runs(self.schedules, start)

    def instants(self, time_range: TimeRange) -> list[UpcomingRun]:
        """Those to show: of many schedules each one's first, unless a number or an end was given."""
        found = self._instants(time_range)
        wishes = {each.label: each.skips for each in self.schedules if each.skips}
        if not wishes or not time_range.is_from_now:
            return found
        from herdbeat.service.queries.upcoming import annotate_skips  # noqa: PLC0415

        return list(annotate_skips(found, wishes))

    def _instants(self, time_range: TimeRange) -> list[UpcomingRun]:
        if self.is_single:
            return time_range.take(self.upcoming(time_range.start), DEFAULT_INSTANTS)
        if time_range.count is not None or time_range.until is not None:
            return time_range.take(self.upcoming(time_range.start))
        from herdbeat.service.queries.upcoming import find_next_runs  # noqa: PLC0415

        return find_next_runs(self.schedules, time_range.start)

    def idle(self, time_range: TimeRange) -> list[UnscheduledEntry]:
        """The schedules without a time."""
        if not self.schedules:
            return []
        from herdbeat.service.queries.upcoming import find_unscheduled  # noqa: PLC0415

        return find_unscheduled(self.schedules, time_range.start)


def run_next(args: ParsedArgs, context: Context) -> int:
    zone = parse_zone_flags(args)
    source = _resolve_source(args, context, zone)
    time_range = _parse_time_range(args, context, source.zone)
    _show_output(args, context, source, time_range)
    return 0


def _show_output(args: ParsedArgs, context: Context, source: UpcomingSource, time_range: TimeRange) -> None:
    if args.value(flags.BY):
        from herdbeat.cli.output.upcoming_fleet import show_hours  # noqa: PLC0415 -- each form is loaded when asked for

        show_hours(args, context.terminal, source, time_range)
    elif args.has(flags.JSON):
        from herdbeat.cli.output.upcoming import show_upcoming_json  # noqa: PLC0415

        show_upcoming_json(context.terminal, source, time_range)
    else:
        from herdbeat.cli.output.upcoming import show_upcoming  # noqa: PLC0415

        show_upcoming(args, context.terminal, source, time_range)


def _resolve_source(args: ParsedArgs, context: Context, zone: ZoneInfo | None) -> UpcomingSource:
    cron, what = args.value(flags.CRON), args.positional(0)
    if cron is not None and what is not None:
        raise UsageError("--cron and WHAT exclude each other.", hint="Give the expression once.")
    if cron is not None or what is not None:
        from herdbeat.bootstrap.config import detect_system_zone  # noqa: PLC0415 -- asks the file system, so only if needed

        here = zone or detect_system_zone(context.environ)
        trigger = parse_expression(what, here) if what is not None else parse_cron(cron or "", here)
        if trigger is not None:
            return UpcomingSource(zone=here, trigger=trigger)
    return _fleet_source(args, context, zone)


def _fleet_source(args: ParsedArgs, context: Context, zone: ZoneInfo | None) -> UpcomingSource:
    """A fleet is read only if one is meant: an expression must not pay for YAML, nor for the ledger."""
    from herdbeat.cli.fleet_handle import open_fleet_handle  # noqa: PLC0415
    from herdbeat.cli.output.upcoming_fleet import load_forecast_inputs  # noqa: PLC0415

    with open_fleet_handle(args, context) as handle:
        schedules = load_forecast_inputs(handle, context, args.positional(0))
        own = schedules[0].zone if len(schedules) == 1 else handle.zone
    return UpcomingSource(zone=zone or own, schedules=tuple(schedules))


def _parse_time_range(args: ParsedArgs, context: Context, zone: ZoneInfo) -> TimeRange:
    now = context.clock.now()
    start_text, until_text = args.value(flags.FROM), args.value(flags.UNTIL)
    start = now if start_text is None else parse_time(start_text, now, zone)
    until = None if until_text is None else parse_time(until_text, start, zone)
    if until is not None and until <= start:
        raise UsageError("--until lies before the start.", hint="Give a later time, or a duration such as 24h.")
    return TimeRange(now=now, start=start, until=until, count=_parse_count(args.value(flags.COUNT)))


def _parse_count(text: str | None) -> int | None:
    if text is None:
        return None
    # isdecimal() alone lets ٣ through, which is a number to Python and a puzzle to everybody else.
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 7 and 0 < int(text) <= MAX_INSTANTS):
        raise UsageError(f'--count cannot be "{text[:20]}".', hint=f"Write a whole number from 1 to {MAX_INSTANTS}.")
    return int(text)
