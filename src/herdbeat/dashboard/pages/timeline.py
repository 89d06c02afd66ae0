"""The page Timeline: what overlapped, where the gap is, what changed just before. At most 50 rows, the worst first.

Also the coming beats as a calendar (RFC 5545) of the schedules that the address filters: `/calendar.ics?q=tag:night`.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from fastapi import Response
from markupsafe import Markup

from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import Bar, ChartSpan, Event, MarkState, Row, draw_timeline
from herdbeat.dashboard.pages.now import build_row
from herdbeat.dashboard.pages.schedules import GROUPINGS, name_group
from herdbeat.dashboard.pages.system import describe_subjects
from herdbeat.dashboard.render import PageFrame, render
from herdbeat.domain.beat import Gap
from herdbeat.domain.change import Change
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.durations import humanize
from herdbeat.errors import TimeParseError
from herdbeat.service.queries.expressions import UpcomingRun
from herdbeat.service.queries.schedule_search import find_outlines, parse_search
from herdbeat.service.queries.selectors import find_changes
from herdbeat.service.queries.timeline import WorstTimeline, iter_thinned_spans, load_worst_timeline
from herdbeat.service.queries.upcoming import load_upcoming
from herdbeat.timestamps import format_timestamp, parse_timestamp

RANGES = {
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
DEFAULT_RANGE = timedelta(hours=1)
MAX_ROWS = 50
MAX_PLACES = 250
"""Places of a row, about three pixels each."""
MAX_EVENTS = 200
PLANNED_SHARE = 0.15
PRESENT_SHARE = 0.1
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePeriod:
    """What the page shows. `until` is None for the period that ends now."""

    length: str
    until: datetime | None
    now: datetime

    @property
    def end(self) -> datetime:
        return self.until or self.now

    @property
    def since(self) -> datetime:
        return self.end - RANGES[self.length]

    @property
    def span(self) -> ChartSpan:
        """The present also shows what is planned."""
        planned = timedelta(0) if self.until else RANGES[self.length] * PLANNED_SHARE
        return ChartSpan(self.since, self.end + planned)

    @property
    def earlier(self) -> str:
        return format_timestamp(self.since.replace(microsecond=0))

    @property
    def later(self) -> str:
        """The end of the period after this one; "" for the one that ends now."""
        length = RANGES[self.length]
        end = self.end + length
        # One who went back and returns means the present, although some seconds have passed meanwhile.
        is_present = end + length * PRESENT_SHARE >= self.now
        return "" if self.until is None or is_present else format_timestamp(end)


def show_timeline(context: PageContext) -> str:
    frame, query = context.frame, context.query
    text, group = query.get("q", "")[:200], query.get("group", "")
    group = group if group in GROUPINGS else ""
    period = _read_period(context)
    loaded = load_worst_timeline(
        context.reader,
        parse_search(text),
        since=period.since,
        until=period.until,
        now=frame.now,
        max_rows=MAX_ROWS,
        has_live_node=context.is_running,
    )
    rows = _build_rows(loaded, period, group, frame)
    events = _list_events(context, period, loaded.gaps)
    words = f"until {frame.clock(period.until)}" if period.until else "and what is planned"
    alt = f"Runs of {len(loaded.schedules)} schedules in {period.length}, {words}"
    return render(
        "timeline.html",
        frame,
        chart=Markup(draw_timeline(rows, events, period.span, frame.now, frame.zone, alt)),  # noqa: S704 -- svg.py escapes
        rows=rows,
        events=events,
        ranges=tuple(RANGES),
        groupings=GROUPINGS,
        period=period,
        until=format_timestamp(period.until) if period.until else "",
        group=group,
        text=text,
        total=loaded.total,
        shown=len(loaded.schedules),
    )


def _read_period(context: PageContext) -> TimelinePeriod:
    """Read the period of the address. One that ends in the future, or cannot be read, ends now."""
    length, now = context.query.get("range", ""), context.frame.now
    try:
        until = parse_timestamp(context.query.get("until", "")[:40])
    except TimeParseError:
        until = now
    length = length if length in RANGES else _choose_range(context)
    is_past = until < now and until - RANGES[length] > EARLIEST
    return TimelinePeriod(length=length, until=until if is_past else None, now=now)


def _choose_range(context: PageContext) -> str:
    """Return an hour, or less for a fleet that is younger: its first minutes should not be a thin line."""
    first = context.reader.runs_by_id(context.reader.runs_after(0, 1))
    age = context.frame.now - first[0].began_at if first else timedelta(0)
    return next((name for name, length in RANGES.items() if length >= min(age, DEFAULT_RANGE)), "1h")


def _build_rows(loaded: WorstTimeline, period: TimelinePeriod, group: str, frame: PageFrame) -> list[Row]:
    """The worst first; with groups, the group of the worst first, and a row with its name before its rows."""
    groups: dict[str, list[Row]] = {}
    for record in loaded.schedules:
        spans = iter_thinned_spans(loaded.spans.get(record.id, ()), period.since, period.end, MAX_PLACES)
        row = build_row(record, list(spans), frame)
        if (busy := loaded.busy.get(record.id)) is not None:
            title = f"ran often until {frame.clock(busy[1])}: take a shorter range to see each run"
            row = replace(row, bars=(Bar(*busy, MarkState.BUSY, title), *row.bars))
        groups.setdefault(name_group(group, record, frame.now), []).append(row)
    if not group:
        return [row for rows in groups.values() for row in rows]
    return [row for name, rows in groups.items() for row in (Row(name, (), is_heading=True), *rows)]


def _list_events(context: PageContext, period: TimelinePeriod, gaps: list[Gap]) -> list[Event]:
    frame, since = context.frame, period.since
    changes = find_changes(context.reader, None, since=since, until=period.until, before=None, limit=MAX_EVENTS)
    events = _group_changes([each for each in changes if each.at >= since], frame)
    for gap in gaps:
        if gap.until > since:
            text = f"{frame.clock(gap.from_at)} no scheduler for {humanize(gap.until - gap.from_at)}: {gap.reason}"
            events.append(Event(max(gap.from_at, since), text))
    return sorted(events, key=lambda event: event.at)


def _group_changes(changes: list[Change], frame: PageFrame) -> list[Event]:
    """One line for what happened at once: an apply of a file changes many schedules."""
    groups: dict[tuple[datetime, str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.at, change.who, str(change.what)), []).append(change)
    return [
        Event(at, f"{frame.clock(at)} {who}: {what.replace('_', ' ')} {describe_subjects(same)}")
        for (at, who, what), same in groups.items()
    ]


MAX_SCHEDULES = 50
MAX_EVENTS_PER_SCHEDULE = 40
HORIZON = timedelta(days=31)
SHOWN_LENGTH = timedelta(minutes=5)
MAX_LINE_BYTES = 75


def show_calendar(context: PageContext) -> Response:
    """Return at most a month of beats. Short intervals are left out after some, or they would fill the calendar."""
    reader, now = context.reader, context.frame.now
    search = parse_search(context.query.get("q", "")[:200])
    events: list[str] = []
    for record in find_outlines(reader, search, now, has_live_node=context.is_running)[:MAX_SCHEDULES]:
        name = f"{record.target}/{record.name}"
        view = load_upcoming(
            reader, name, now, start=now, count=MAX_EVENTS_PER_SCHEDULE, has_live_node=context.is_running
        )
        coming = (each for each in view.instants if each.next_run_at < now + HORIZON)
        events += [line for each in coming for line in _format_event(each, now)]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//herdbeat//dashboard//EN", *events, "END:VCALENDAR", ""]
    return Response("\r\n".join(map(_fold, lines)), media_type="text/calendar; charset=utf-8")


def _fold(line: str) -> str:
    """Break a line after 75 bytes, as the standard asks; a character is not split."""
    if len(line.encode()) <= MAX_LINE_BYTES:
        return line
    parts, part = [], ""
    for char in line:
        if len(f"{part}{char}".encode()) > MAX_LINE_BYTES:
            parts.append(part)
            part = " "
        part += char
    return "\r\n".join([*parts, part])


def _format_event(run: UpcomingRun, now: datetime) -> tuple[str, ...]:
    label = run.schedule.removesuffix(f"/{DEFAULT_SCHEDULE_NAME}")
    return (
        "BEGIN:VEVENT",
        f"UID:{_format_time(run.due_at)}-{_escape(run.schedule)}@herdbeat",
        f"DTSTAMP:{_format_time(now)}",
        f"DTSTART:{_format_time(run.next_run_at)}",
        f"DTEND:{_format_time(run.next_run_at + SHOWN_LENGTH)}",
        f"SUMMARY:{_escape(label)}",
        f"DESCRIPTION:{_escape('; '.join((str(run.source), *run.notes)))}",
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
    )


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escape(text: str) -> str:
    """A name cannot begin a line of its own: what is not printable is dropped."""
    printable = "".join(char for char in text if char.isprintable())
    return printable.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
