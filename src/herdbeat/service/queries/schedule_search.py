"""Searching schedules by what a person types: words, `tag:x`, `state:failing`, and `-` before what is excluded."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from herdbeat.domain.records import ScheduleRecord
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition, without_dead_runs
from herdbeat.store.reader import Reader, ScheduleQuery

SCAN_PAGE_SIZE = 2_000
MAX_SEARCH_CHARS = 200
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
    rows: list[ScheduleRecord] = field(default_factory=list)
    next_after: int | None = None


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
    rows: list[ScheduleRecord] = []
    for record in _iter_matching(reader, search, now, after, limit, has_live_node=has_live_node):
        if len(rows) == limit:
            return SearchPage(rows=rows, next_after=rows[-1].id)
        rows.append(record)
    return SearchPage(rows=rows)


def search_all_schedules(
    reader: Reader, search: ScheduleSearch, now: datetime, *, has_live_node: bool = True
) -> list[ScheduleRecord]:
    """Return every schedule that is found: what a bulk action changes."""
    return list(_iter_matching(reader, search, now, None, SCAN_PAGE_SIZE, has_live_node=has_live_node))


def _iter_matching(
    reader: Reader, search: ScheduleSearch, now: datetime, after: int | None, limit: int, *, has_live_node: bool
) -> Iterator[ScheduleRecord]:
    # Without a term the first page is what is shown, and reading more would be for nothing.
    size = SCAN_PAGE_SIZE if search.terms else min(SCAN_PAGE_SIZE, limit + 1)
    state = search.state if has_live_node else None
    tags = search.find_exact("tag")
    names = () if tags else tuple(f"{each}/*" for each in search.find_exact("target") if "*" not in each)
    query = ScheduleQuery(now=now, names=names, tags=tags, state=state, limit=size)
    while True:
        page = reader.find(replace(query, after=after))
        for found in page:
            record = found if has_live_node else without_dead_runs(found)
            if matches_search(record, search, now):
                yield record
        if len(page) < size:
            return
        after = page[-1].id


def matches_search(record: ScheduleRecord, search: ScheduleSearch, now: datetime) -> bool:
    return all(_matches_term(record, term, now) is not term.is_excluded for term in search.terms)


def _matches_term(record: ScheduleRecord, term: SearchTerm, now: datetime) -> bool:
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
