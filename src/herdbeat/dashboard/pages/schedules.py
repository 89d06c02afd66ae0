"""The page Schedules: find, group, sort, and change many at once. Its address is its whole state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import STRIP_MARKS, StripMark, draw_strip
from herdbeat.dashboard.labels import STATE_LABELS, label_of_beat, mark_of_beat
from herdbeat.dashboard.render import format_count, render
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.records import BeatMark, ScheduleRecord
from herdbeat.service.queries.agents import CostGrouping, read_costs
from herdbeat.service.queries.schedule_search import (
    parse_search,
    search_all_schedules,
    search_schedules,
)
from herdbeat.service.queries.schedule_state import DisplayState
from herdbeat.service.queries.schedules import ScheduleSummary, summarize_schedules

PAGE_SIZE = 50
MAX_SORTED = 5_000
"""Schedules that are sorted by something other than their order in the ledger."""

_NEVER = datetime.max.replace(tzinfo=UTC)
GROUPINGS = ("", "target", "state", "group", "tag")
SORTS = ("", "name", "next", "last", "failures", "cost", "pace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLine:
    """A row. `cost` is what it has cost since yesterday; `strip` draws its last beats."""

    summary: ScheduleSummary
    strip: Markup
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleGroup:
    name: str
    lines: tuple[ScheduleLine, ...]


def show_schedules(context: PageContext) -> str:
    frame, reader, query = context.frame, context.reader, context.query
    text, sort, group = query.get("q", "")[:200], query.get("sort", ""), query.get("group", "")
    sort, group = sort if sort in SORTS else "", group if group in GROUPINGS else ""
    search = parse_search(text)
    after = parse_short_id(query.get("after", "")) if query.get("after") else None
    costs = _read_costs(context)
    next_after = None
    if sort:
        found = search_all_schedules(reader, search, frame.now, has_live_node=context.is_running)[:MAX_SORTED]
        found.sort(key=lambda record: _sort_key(sort, record, costs))
        total, records = len(found), found[:PAGE_SIZE]
    else:
        page = search_schedules(
            reader, search, frame.now, after=after, limit=PAGE_SIZE, has_live_node=context.is_running
        )
        records, next_after = page.rows, page.next_after
        total = _count(context, text, records, is_whole=after is None and next_after is None)
    lines = [
        ScheduleLine(
            summary=each, strip=draw_beat_strip(each.strip, each.record.label), cost=costs.get(each.record.label)
        )
        for each in summarize_schedules(reader, records, frame.now, strip_length=STRIP_MARKS)
    ]
    return render(
        "schedules.html",
        frame,
        text=text,
        sort=sort,
        group=group,
        sorts=SORTS,
        groupings=GROUPINGS,
        groups=_group(lines, group),
        total=total,
        next_after=None if next_after is None else format_short_id(next_after),
        all_states=tuple(DisplayState),
        tags=sorted(reader.tags_and_groups()),
    )


def _count(context: PageContext, text: str, records: Sequence[ScheduleRecord], *, is_whole: bool) -> int:
    """Count what a bulk action on the whole filter would change."""
    if is_whole:
        return len(records)
    if not text.strip():
        return context.reader.count_all_schedules()
    found = search_all_schedules(
        context.reader, parse_search(text), context.frame.now, has_live_node=context.is_running
    )
    return len(found)


def _read_costs(context: PageContext) -> Mapping[str, float]:
    since = context.frame.now - timedelta(days=1)
    report = read_costs(context.reader, None, since=since, zone=context.handle.zone, by=CostGrouping.SCHEDULE)
    return {line.subject: line.usd for line in report.lines if line.usd is not None}


def _sort_key(sort: str, record: ScheduleRecord, costs: Mapping[str, float]) -> tuple[Any, ...]:
    keys: dict[str, Callable[[], Any]] = {
        "name": lambda: record.label,
        "next": lambda: record.next_run_at or _NEVER,
        "last": lambda: -(record.last_run_at.timestamp() if record.last_run_at else 0.0),
        "failures": lambda: -record.failures,
        "cost": lambda: -costs.get(record.label, 0.0),
        "pace": lambda: record.plan.trigger.interval or timedelta.max,
    }
    return (keys[sort](), record.label)


def _group(lines: Sequence[ScheduleLine], grouping: str) -> list[ScheduleGroup]:
    """A schedule with several tags is in the group of its first."""
    if not grouping:
        return [ScheduleGroup(name="", lines=tuple(lines))]
    names: dict[str, Callable[[ScheduleLine], str]] = {
        "target": lambda line: line.summary.record.target,
        "state": lambda line: STATE_LABELS[line.summary.state].word,
        "group": lambda line: line.summary.record.plan.policies.group or "no group",
        "tag": lambda line: next(iter(line.summary.record.plan.policies.tags), "no tag"),
    }
    groups: dict[str, list[ScheduleLine]] = {}
    for line in lines:
        groups.setdefault(names[grouping](line), []).append(line)
    return [ScheduleGroup(name=name, lines=tuple(groups[name])) for name in sorted(groups)]


def draw_beat_strip(marks: Sequence[BeatMark], label: str) -> Markup:
    """Draw the last beats of a schedule, with one sentence for those who cannot see them."""
    drawn = [
        StripMark(
            mark_of_beat(each.outcome, each.status),
            f"{label_of_beat(each.outcome, each.status).word}{f' {each.number} times' if each.number > 1 else ''}",
        )
        for each in marks
    ]
    counts: dict[str, int] = {}
    for each in marks:
        word = label_of_beat(each.outcome, each.status).word
        counts[word] = counts.get(word, 0) + 1
    parts = ", ".join(f"{number} {word}" for word, number in counts.items())
    alt = f"Last {format_count(len(marks), 'beat')} of {label}: {parts}" if marks else f"{label} has had no beat yet"
    return Markup(draw_strip(drawn, alt))  # noqa: S704 -- svg.py escapes every text
