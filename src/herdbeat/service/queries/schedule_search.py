"""Searching schedules by what a person types: words, `tag:x`, `state:failing`, and `-` before what is excluded.

Also their order: as they were added, or sorted by what a person compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo

from herdbeat.domain.records import ScheduleOutline, ScheduleRecord
from herdbeat.errors import UsageError
from herdbeat.service.queries.agents import CostGrouping, read_costs
from herdbeat.service.queries.hints import HintState, classify_hints
from herdbeat.service.queries.schedule_state import DisplayState, drop_dead_runs, resolve_condition
from herdbeat.service.queries.schedules import (
    SchedulePage,
    list_schedules,
    require_known_names,
    resolve_pace,
    summarize_schedules,
)
from herdbeat.service.queries.selectors import FoundCount
from herdbeat.store.reader import Reader, ScheduleQuery

MAX_SEARCH_CHARS = 200
_NEVER = datetime.max.replace(tzinfo=UTC)
_FIELDS = ("state", "tag", "group", "target", "kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTerm:
    """One part of a search. Without a field, the word is a part of the name."""

    word: str
    field: str = ""
    is_excluded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSearch:
    """A schedule is found if all terms agree."""

    terms: tuple[SearchTerm, ...] = ()

    @property
    def state(self) -> DisplayState | None:
        """The state that the ledger can preselect by."""
        states = [each.word for each in self.terms if each.field == "state" and not each.is_excluded]
        return DisplayState(states[0]) if len(states) == 1 and states[0] in set(DisplayState) else None

    def find_exact(self, field_name: str) -> tuple[str, ...]:
        """The first word of a field that must be equal: the ledger preselects by one of them."""
        words = (each.word for each in self.terms if each.field == field_name and not each.is_excluded)
        return tuple(islice(words, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """A page of what was found. `total` counts all of it, exactly."""

    rows: list[ScheduleRecord] = field(default_factory=list)
    next_after: int | None = None
    total: int = 0


def parse_search(text: str) -> ScheduleSearch:
    """Parse `triage -tag:slow state:late`. Nothing is an error: an unknown field is a part of the word."""
    return ScheduleSearch(terms=tuple(_parse_term(each) for each in text[:MAX_SEARCH_CHARS].split()))


def _parse_term(text: str) -> SearchTerm:
    is_excluded = text.startswith("-") and len(text) > 1
    word = text.removeprefix("-") if is_excluded else text
    name, colon, value = word.partition(":")
    if colon and name in _FIELDS and value:
        return SearchTerm(word=value, field=name, is_excluded=is_excluded)
    return SearchTerm(word=word.lower(), is_excluded=is_excluded)


def search_schedules(
    reader: Reader, search: ScheduleSearch, now: datetime, *, after: int | None, limit: int, has_live_node: bool = True
) -> SearchPage:
    """Return a page in the order the schedules were added."""
    if not search.terms:
        found = reader.find(ScheduleQuery(now=now, after=after, limit=limit + 1))
        ids, total = [each.id for each in found], reader.count_all_schedules()
        rows = [each if has_live_node else drop_dead_runs(each) for each in found[:limit]]
    else:
        outlines = find_outlines(reader, search, now, has_live_node=has_live_node)
        ids = [each.id for each in outlines if after is None or each.id > after]
        rows, total = load_records(reader, ids[:limit], has_live_node=has_live_node), len(outlines)
    return SearchPage(rows=rows, next_after=ids[limit - 1] if len(ids) > limit else None, total=total)


class ScheduleSort(StrEnum):
    """Orders of a list. What is equal stays in the order it was added."""

    NAME = "name"
    NEXT = "next"  # the soonest first
    LAST = "last"  # the run that ended last first
    FAILURES = "failures"  # the most failures in a row first
    COST = "cost"  # the most expensive of the last day first
    PACE = "pace"  # the shortest interval in effect first


def read_daily_costs(reader: Reader, now: datetime, zone: ZoneInfo) -> Mapping[str, float]:
    """Return what each schedule has cost since yesterday, in dollars, as far as that is known."""
    since = now - timedelta(days=1)
    report = read_costs(reader, None, since=since, zone=zone, by=CostGrouping.SCHEDULE)
    return {line.subject: line.usd for line in report.lines if line.usd is not None}


def sort_outlines(
    reader: Reader, found: Sequence[ScheduleOutline], sort: ScheduleSort, now: datetime, zone: ZoneInfo
) -> list[ScheduleOutline]:
    match sort:
        case ScheduleSort.NAME:
            return sorted(found, key=lambda each: each.label)
        case ScheduleSort.NEXT:
            return sorted(found, key=lambda each: each.next_run_at or _NEVER)
        case ScheduleSort.LAST:
            return sorted(found, key=lambda each: -(each.last_run_at.timestamp() if each.last_run_at else 0.0))
        case ScheduleSort.FAILURES:
            return sorted(found, key=lambda each: -each.failures)
        case ScheduleSort.COST:
            costs = read_daily_costs(reader, now, zone)
            return sorted(found, key=lambda each: -costs.get(each.label, 0.0))
        case ScheduleSort.PACE:
            hinted = _read_hinted_intervals(reader, now)
            return sorted(found, key=lambda each: resolve_pace(each, hinted.get(each.label)) or timedelta.max)


def _read_hinted_intervals(reader: Reader, now: datetime) -> Mapping[str, timedelta]:
    """Return the intervals that hints ask for now, by label."""
    return {
        each.record.schedule: each.record.every
        for each in classify_hints(reader.hints(None, ended_since=now), now)
        if each.state is HintState.ACTIVE and each.record.every is not None
    }


def find_page_after(
    reader: Reader, found: Sequence[ScheduleOutline], now: datetime, *, after: int | None, limit: int
) -> SchedulePage:
    """Return the page of sorted schedules that follows the one with the id `after`, wherever it is in the order now.

    Raises UsageError if that schedule is no longer found.
    """
    ids = [each.id for each in found]
    if after is not None and after not in ids:
        raise UsageError("The last schedule of the previous page is gone.", hint="Read the list from its first page.")
    start = 0 if after is None else ids.index(after) + 1
    page = ids[start : start + limit]
    rows = summarize_schedules(reader, load_records(reader, page), now)
    return SchedulePage(rows=rows, total=len(ids), next_after=page[-1] if start + limit < len(ids) else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilters:
    """Which schedules a list has: what a person types, or else those that any name, tag or group selects."""

    target: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    state: DisplayState | None = None
    text: str = ""
    only_target: str = ""
    """Narrows what is typed to the schedules of one target, whatever it says."""

    def to_search(self) -> ScheduleSearch:
        search = parse_search(self.text)
        own = (SearchTerm(word=self.only_target, field="target"),) if self.only_target else ()
        return ScheduleSearch(terms=(*own, *search.terms))

    def to_query(self, now: datetime, *, after: int | None = None, limit: int = 1) -> ScheduleQuery:
        return ScheduleQuery(
            now=now, names=self.target, tags=self.tag, groups=self.group, state=self.state, after=after, limit=limit
        )


def list_found(
    reader: Reader,
    filters: ScheduleFilters,
    now: datetime,
    zone: ZoneInfo,
    *,
    after: int | None,
    limit: int,
    sort: ScheduleSort | None = None,
) -> SchedulePage:
    """Return a page of what is found. Raises NotFound for a name that nothing has, UsageError for an old cursor."""
    if sort is not None:
        found = sort_outlines(reader, _filter_outlines(reader, filters, now), sort, now, zone)
        return find_page_after(reader, found, now, after=after, limit=limit)
    if not filters.text:
        return list_schedules(reader, filters.to_query(now, after=after, limit=limit), has_total=False)
    page = search_schedules(reader, filters.to_search(), now, after=after, limit=limit)
    return SchedulePage(rows=summarize_schedules(reader, page.rows, now), next_after=page.next_after)


def count_found(reader: Reader, filters: ScheduleFilters, now: datetime) -> FoundCount:
    """Schedules are counted exactly. Raises NotFound for a name that nothing has."""
    if filters == ScheduleFilters():
        return FoundCount(number=reader.count_all_schedules())
    return FoundCount(number=len(_filter_outlines(reader, filters, now)))


def _filter_outlines(reader: Reader, filters: ScheduleFilters, now: datetime) -> list[ScheduleOutline]:
    if filters.text:
        return find_outlines(reader, filters.to_search(), now)
    query = filters.to_query(now)
    require_known_names(reader, query)
    found = reader.outlines(query)
    return [each for each in found if filters.state in (None, resolve_condition(each, now).state)]


def find_outlines(
    reader: Reader, search: ScheduleSearch, now: datetime, *, has_live_node: bool = True
) -> list[ScheduleOutline]:
    """Return every schedule that is found, in the order they were added: what a bulk action changes."""
    tags = search.find_exact("tag")
    names = () if tags else tuple(f"{each}/*" for each in search.find_exact("target") if "*" not in each)
    state = search.state if has_live_node else None
    found = reader.outlines(ScheduleQuery(now=now, names=names, tags=tags, state=state))
    if not has_live_node:  # what the ledger calls running was cut off when the node died
        found = [each._replace(running=0, was_cut_off=True) if each.running else each for each in found]
    return [each for each in found if matches_search(each, search, now)] if search.terms else found


def load_records(reader: Reader, ids: Sequence[int], *, has_live_node: bool = True) -> list[ScheduleRecord]:
    """Return whole records in the order of the ids."""
    records = {each.id: each for each in reader.schedules_by_id(ids)}
    found = [records[each] for each in ids if each in records]
    return found if has_live_node else [drop_dead_runs(each) for each in found]


def matches_search(record: ScheduleOutline | ScheduleRecord, search: ScheduleSearch, now: datetime) -> bool:
    return all(_matches_term(record, term, now) is not term.is_excluded for term in search.terms)


def _matches_term(record: ScheduleOutline | ScheduleRecord, term: SearchTerm, now: datetime) -> bool:
    policies = record.plan.policies
    match term.field:
        case "state":
            return resolve_condition(record, now).state == term.word
        case "tag":
            return term.word in policies.tags
        case "group":
            return policies.group == term.word
        case "target":
            return record.target == term.word
        case "kind":
            return record.plan.trigger.kind == term.word
        case _:
            return term.word in record.label.lower()
