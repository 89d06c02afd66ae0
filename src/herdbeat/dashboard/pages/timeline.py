"""The page Timeline: what overlapped, where the gap is, what changed just before. At most 50 rows, the worst first."""

from datetime import datetime, timedelta

from markupsafe import Markup

from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import ChartSpan, Event, draw_timeline
from herdbeat.dashboard.pages.now import build_row
from herdbeat.dashboard.render import PageFrame, render
from herdbeat.domain.beat import BeatOutcome, Gap
from herdbeat.domain.change import Change
from herdbeat.domain.records import ScheduleRecord, TimelineSpan
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.durations import humanize
from herdbeat.service.queries.schedule_search import matches_search, parse_search
from herdbeat.service.queries.selectors import find_changes
from herdbeat.service.queries.timeline import load_timeline

RANGES = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
MAX_ROWS = 50
MAX_CANDIDATES = 500
MAX_EVENTS = 200
MAX_NAMED = 4
PLANNED_SHARE = 0.15
_FAILED = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.INTERRUPTED)


def show_timeline(context: PageContext) -> str:
    frame, query = context.frame, context.query
    length = query.get("range", "1h")
    length = length if length in RANGES else "1h"
    text = query.get("q", "")[:200]
    since = frame.now - RANGES[length]
    loaded = load_timeline(
        context.reader, (), since=since, now=frame.now, max_rows=MAX_CANDIDATES, has_live_node=context.is_running
    )
    search = parse_search(text)
    records = [each for each in loaded.schedules if matches_search(each, search, frame.now)]
    records.sort(key=lambda record: _badness(record, loaded.spans_for(record)))
    shown = records[:MAX_ROWS]
    rows = [build_row(each, loaded.spans_for(each), frame) for each in shown]
    events = _list_events(context, since, loaded.gaps)
    span = ChartSpan(since, frame.now + RANGES[length] * PLANNED_SHARE)
    alt = f"Runs of {len(rows)} schedules in the last {length}, and what is planned"
    return render(
        "timeline.html",
        frame,
        chart=Markup(draw_timeline(rows, events, span, frame.now, frame.zone, alt)),  # noqa: S704 -- svg.py escapes
        rows=rows,
        events=events,
        ranges=tuple(RANGES),
        length=length,
        text=text,
        left_out=len(records) - len(shown) + loaded.left_out,
    )


def _badness(record: ScheduleRecord, spans: list[TimelineSpan]) -> tuple[int, str]:
    """The worst first: failures and misses, then what is busy."""
    failed = sum(each.status in _FAILED for each in spans)
    missed = sum(each.number for each in spans if each.outcome is BeatOutcome.MISSED)
    return -(1_000 * (failed + missed) + len(spans)), record.label


def _list_events(context: PageContext, since: datetime, gaps: list[Gap]) -> list[Event]:
    frame = context.frame
    changes = find_changes(context.reader, None, since=since, before=None, limit=MAX_EVENTS)
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
        Event(at, f"{frame.clock(at)} {who}: {what.replace('_', ' ')} {_describe_subjects(same)}")
        for (at, who, what), same in groups.items()
    ]


def _describe_subjects(changes: list[Change]) -> str:
    names = ", ".join(each.subject.removesuffix(f"/{DEFAULT_SCHEDULE_NAME}") for each in changes[:MAX_NAMED])
    return names if len(changes) <= MAX_NAMED else f"{names} and {len(changes) - MAX_NAMED} more"
