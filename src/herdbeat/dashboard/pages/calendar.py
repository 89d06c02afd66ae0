"""The coming beats as a calendar (RFC 5545), of the schedules that the address filters: `/calendar.ics?q=tag:night`."""

from datetime import UTC, datetime, timedelta

from fastapi import Response

from herdbeat.dashboard.app import PageContext
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.service.queries.expressions import UpcomingRun
from herdbeat.service.queries.schedule_search import find_outlines, parse_search
from herdbeat.service.queries.upcoming import load_upcoming

MAX_SCHEDULES = 50
MAX_EVENTS_PER_SCHEDULE = 40
HORIZON = timedelta(days=31)
SHOWN_LENGTH = timedelta(minutes=5)


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
        events += [_format_event(each, now) for each in view.instants if each.next_run_at < now + HORIZON]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//herdbeat//dashboard//EN", *events, "END:VCALENDAR", ""]
    return Response("\r\n".join(lines), media_type="text/calendar; charset=utf-8")


def _format_event(run: UpcomingRun, now: datetime) -> str:
    label = run.schedule.removesuffix(f"/{DEFAULT_SCHEDULE_NAME}")
    parts = (
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
    return "\r\n".join(parts)


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escape(text: str) -> str:
    """A name cannot begin a line of its own: what is not printable is dropped."""
    printable = "".join(char for char in text if char.isprintable())
    return printable.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
