"""The page Schedules: find, group, sort, and change many at once. Its address is its whole state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import STRIP_MARKS, draw_strip
from herdbeat.dashboard.labels import STATE_LABELS, build_beat_label, mark_of_beat
from herdbeat.dashboard.render import format_count, render
from herdbeat.domain.ids import format_short_id, parse_short_id
from herdbeat.domain.records import BeatMark, ScheduleOutline, ScheduleRecord
from herdbeat.service.queries.schedule_search import (
    ScheduleSort,
    find_outlines,
    load_records,
    parse_search,
    read_daily_costs,
    search_schedules,
    sort_outlines,
)
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition
from herdbeat.service.queries.schedules import ScheduleSummary, summarize_schedules

PAGE_SIZE = 50
_NEVER = datetime.max.replace(tzinfo=UTC)
GROUPINGS = ("", "target", "state", "group", "tag")
SORTS = ("", *ScheduleSort)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """A page of records. `total` counts all that was found; `next_page` is what the next page adds to the address."""

    records: list[ScheduleRecord]
    total: int
    next_page: Mapping[str, str]


def show_schedules(context: PageContext) -> str:
    frame, reader, query = context.frame, context.reader, context.query
    text, sort, group = query.get("q", "")[:200], query.get("sort", ""), query.get("group", "")
    sort, group = sort if sort in SORTS else "", group if group in GROUPINGS else ""
    costs = read_daily_costs(reader, frame.now, context.handle.zone)
    found = _find_sorted(context, text, sort, group) if sort or group else _find_page(context, text)
    lines = [
        ScheduleLine(
            summary=each, strip=draw_beat_strip(each.strip, each.record.label), cost=costs.get(each.record.label)
        )
        for each in summarize_schedules(reader, found.records, frame.now, strip_length=STRIP_MARKS)
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
        total=found.total,
        next_page=found.next_page,
        is_first=not (query.get("after") or query.get("page")),
        all_states=tuple(DisplayState),
        tags=sorted(reader.tags_and_groups()),
    )


def _find_page(context: PageContext, text: str) -> FoundPage:
    """In the order of the ledger, a page begins after the last id of the one before."""
    asked = context.query.get("after", "")
    page = search_schedules(
        context.reader,
        parse_search(text),
        context.frame.now,
        after=parse_short_id(asked) if asked else None,
        limit=PAGE_SIZE,
        has_live_node=context.is_running,
    )
    next_page = {} if page.next_after is None else {"after": format_short_id(page.next_after)}
    return FoundPage(records=page.rows, total=page.total, next_page=next_page)


def _find_sorted(context: PageContext, text: str, sort: str, group: str) -> FoundPage:
    """In any other order all that is found is sorted, and a page has a number. Groups come whole, one after another."""
    now = context.frame.now
    found = find_outlines(context.reader, parse_search(text), now, has_live_node=context.is_running)
    if sort:
        found = sort_outlines(context.reader, found, ScheduleSort(sort), now, context.handle.zone)
    if group:
        found.sort(key=lambda each: name_group(group, each, now))
    asked = context.query.get("page", "")
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 7 else 1
    ids = [each.id for each in found[max(0, number - 1) * PAGE_SIZE :][:PAGE_SIZE]]
    return FoundPage(
        records=load_records(context.reader, ids, has_live_node=context.is_running),
        total=len(found),
        next_page={"page": str(number + 1)} if number * PAGE_SIZE < len(found) else {},
    )


def name_group(grouping: str, each: ScheduleOutline | ScheduleRecord, now: datetime) -> str:
    """Return the group of a schedule. One with several tags is in the group of its first."""
    match grouping:
        case "target":
            return each.target
        case "state":
            return STATE_LABELS[resolve_condition(each, now).state].word
        case "group":
            return each.plan.policies.group or "no group"
        case "tag":
            return next(iter(each.plan.policies.tags), "no tag")
        case _:
            return ""


def _group(lines: Sequence[ScheduleLine], grouping: str) -> list[ScheduleGroup]:
    """The lines come sorted by their groups."""
    groups: dict[str, list[ScheduleLine]] = {}
    for line in lines:
        name = STATE_LABELS[line.summary.state].word if grouping == "state" else None
        groups.setdefault(name or name_group(grouping, line.summary.record, _NEVER), []).append(line)
    return [ScheduleGroup(name=name, lines=tuple(each)) for name, each in groups.items()]


def draw_beat_strip(marks: Sequence[BeatMark], label: str) -> Markup:
    """Draw the last beats of a schedule, with one sentence for those who cannot see them."""
    drawn = [mark_of_beat(each.outcome, each.status) for each in marks]
    counts: dict[str, int] = {}
    for each in marks:
        word = build_beat_label(each.outcome, each.status).word
        counts[word] = counts.get(word, 0) + 1
    parts = ", ".join(f"{number} {word}" for word, number in counts.items())
    alt = f"Last {format_count(len(marks), 'beat')} of {label}: {parts}" if marks else f"{label} has had no beat yet"
    return Markup(draw_strip(drawn, alt))  # noqa: S704 -- svg.py escapes every text
