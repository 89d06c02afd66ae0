"""Searching schedules by what a person types: words, `tag:x`, `state:failing`, and `-` before what is excluded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from herdbeat.domain.records import ScheduleOutline, ScheduleRecord
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition, without_dead_runs
from herdbeat.service.queries.schedules import SchedulePage, summarize_schedules
from herdbeat.store.reader import Reader, ScheduleQuery

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
        rows = [each if has_live_node else without_dead_runs(each) for each in found[:limit]]
    else:
        outlines = find_outlines(reader, search, now, has_live_node=has_live_node)
        ids = [each.id for each in outlines if after is None or each.id > after]
        rows, total = load_records(reader, ids[:limit], has_live_node=has_live_node), len(outlines)
    return SearchPage(rows=rows, next_after=ids[limit - 1] if len(ids) > limit else None, total=total)


def search_summaries(reader: Reader, text: str, now: datetime, *, after: int | None, limit: int) -> SchedulePage:
    """Return a page of what a person looks for, as a list shows it."""
    found = search_schedules(reader, parse_search(text), now, after=after, limit=limit)
    return SchedulePage(rows=summarize_schedules(reader, found.rows, now), next_after=found.next_after)


def find_outlines(
    reader: Reader, search: ScheduleSearch, now: datetime, *, has_live_node: bool = True
) -> list[ScheduleOutline]:
    """Return every schedule that is found, in the order they were added: what a bulk action changes."""
    tags = search.find_exact("tag")
    names = () if tags else tuple(f"{each}/*" for each in search.find_exact("target") if "*" not in each)
    state = search.state if has_live_node else None
    found = reader.outlines(ScheduleQuery(now=now, names=names, tags=tags, state=state))
    if not has_live_node:  # what the ledger calls running was cut off when the node died
        found = [each._replace(running=0) if each.running else each for each in found]
    return [each for each in found if matches_search(each, search, now)] if search.terms else found


def load_records(reader: Reader, ids: Sequence[int], *, has_live_node: bool = True) -> list[ScheduleRecord]:
    """Return whole records in the order of the ids."""
    records = {each.id: each for each in reader.schedules_by_id(ids)}
    found = [records[each] for each in ids if each in records]
    return found if has_live_node else [without_dead_runs(each) for each in found]


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
