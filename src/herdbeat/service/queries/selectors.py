"""Selectors: from what a person writes to the schedules or the run it names.

`target`, `target/schedule`, `target/*`, a tag, a group or everything name schedules; a short id such as `7f3k` names a
run. A target alone means all its schedules. There are no abbreviations; a typo gets the closest name as a guess.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import DEFAULT_SCHEDULE_NAME, parse_short_id
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.selection import Selection
from herdbeat.errors import NotFound, UsageError, did_you_mean_suffix, truncate_for_message
from herdbeat.store.reader import Filter, Reader

Moment = datetime | None

PAGE_SIZE = 10_000
MAX_NAMED_SCHEDULES = 20

SCANNED_PAGE_SIZE = 1_000
MAX_SCANNED_PAGES = 20
_LIST_HINT = "List all schedules: herdbeat list"


def select_schedules(reader: Reader, selection: Selection) -> list[ScheduleRecord]:
    """Return the selected schedules, each once, in the order of the ledger. Never empty.

    Raises UsageError if nothing was named, NotFound with a guess for a name, tag or group that no schedule has.
    """
    _validate_selection(selection)
    if selection.everything:
        if everything := list(_iter_schedules(reader)):
            return everything
        raise NotFound("This fleet has no schedules.", hint=_LIST_HINT)
    selected = {each.id: each for name in selection.names for each in _select_by_name(reader, name)}
    if selection.tags or selection.groups:
        tags = [(each, each.plan.policies.tags) for each in _iter_schedules(reader)]
        groups = [(each, (group,) if (group := each.plan.policies.group) else ()) for each, _ in tags]
        for kind, marks, marked in (("tag", selection.tags, tags), ("group", selection.groups, groups)):
            selected |= {each.id: each for mark in marks for each in _select_by_mark(kind, mark, marked)}
    return [selected[schedule_id] for schedule_id in sorted(selected)]


def split_selector(selector: str) -> tuple[str, str | None]:
    """Split `target/schedule`. A target alone has None for its schedule."""
    target, slash, name = selector.rpartition("/")
    return (target, name) if slash else (name, None)


def build_unknown_name_error(reader: Reader, selector: str) -> NotFound | UsageError:
    """Return the error for a name that the ledger does not have, with the closest one as a guess.

    A pattern that matches schedules is refused where one name is asked for: the first would be as good as any other.
    """
    if "*" in selector and _match_pattern(reader, selector):
        message = f'"{truncate_for_message(selector)}" is a pattern. Name one target or schedule.'
        return UsageError(message, hint=f"List what matches: herdbeat list '{truncate_for_message(selector)}'")
    return build_unknown_schedule_error(selector, reader.similar_names(selector))


def build_unknown_schedule_error(selector: str, known: Iterable[str]) -> NotFound:
    if "*" in selector:
        return NotFound(f'No schedule matches "{truncate_for_message(selector)}".', hint=_LIST_HINT)
    names = set(known)
    without_target = sorted(each for each in names if each.endswith(f"/{selector}"))
    suffix = did_you_mean_suffix(without_target[0] if without_target else find_close_match(selector, names))
    return NotFound(f'There is no target or schedule "{truncate_for_message(selector)}"{suffix}', hint=_LIST_HINT)


def build_unknown_tag_error(what: str, mark: str, known: Iterable[str]) -> NotFound:
    suffix = did_you_mean_suffix(find_close_match(mark, known))
    return NotFound(f'No schedule has the {what} "{truncate_for_message(mark)}"{suffix}', hint=_LIST_HINT)


def find_close_match(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 -- only a typo needs it

    return next(iter(get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)), None)


def _validate_selection(selection: Selection) -> None:
    is_named = bool(selection.names or selection.tags or selection.groups)
    if not is_named and not selection.everything:
        hint = "Give a TARGET, TARGET/SCHEDULE or TARGET/*, or use --tag, --group or --all."
        raise UsageError("No schedule is selected.", hint=hint)
    if is_named and selection.everything:
        raise UsageError("--all cannot be combined with other selectors.", hint="Remove one of them.")


def _select_by_name(reader: Reader, selector: str) -> list[ScheduleRecord]:
    if "*" in selector:
        matching = _match_pattern(reader, selector)
        if not matching:
            raise build_unknown_schedule_error(selector, ())
        return matching
    if found := list(_iter_schedules(reader, *split_selector(selector))):
        return found
    raise build_unknown_name_error(reader, selector)


def _match_pattern(reader: Reader, pattern: str) -> list[ScheduleRecord]:
    return [each for each in _iter_schedules(reader) if fnmatchcase(f"{each.target}/{each.name}", pattern)]


def _select_by_mark(
    kind: str, mark: str, marked: Sequence[tuple[ScheduleRecord, tuple[str, ...]]]
) -> list[ScheduleRecord]:
    """`marked` has every schedule with its tags, or with its group."""
    matching = [record for record, marks in marked if mark in marks]
    if not matching:
        raise build_unknown_tag_error(kind, mark, {each for _, marks in marked for each in marks})
    return matching


def _iter_schedules(reader: Reader, target: str | None = None, name: str | None = None) -> Iterator[ScheduleRecord]:
    after: int | None = None
    while page := reader.schedules(Filter(target=target, name=name, before=after, limit=PAGE_SIZE)):
        yield from page
        if len(page) < PAGE_SIZE:
            return
        after = page[-1].id


def find_schedule(reader: Reader, selector: str) -> ScheduleRecord:
    """Return `target/schedule`, or the first schedule of a target. Raises NotFound with a guess."""
    target, name = split_selector(selector)
    for record in reader.schedules(Filter(target=target, name=name, limit=1)):
        return record
    raise build_unknown_name_error(reader, selector)


class AmbiguousSchedule(UsageError):
    """A target was named that has several schedules. `labels` are theirs."""

    def __init__(self, selector: str, labels: tuple[str, ...]) -> None:
        named = ", ".join(labels[:MAX_NAMED_SCHEDULES]) + (", …" if len(labels) > MAX_NAMED_SCHEDULES else "")
        super().__init__(f"{truncate_for_message(selector)} has {len(labels)} schedules: {named}.", hint="Name one.")
        self.labels = labels


def find_single_schedule(reader: Reader, selector: str) -> ScheduleRecord:
    """Return `target/schedule`, or the schedule of a target that has one, or one of the target's own name.

    Raises NotFound with a guess, AmbiguousSchedule for a target with several: the first would be as good as any other.
    """
    found = list(_iter_schedules(reader, *split_selector(selector)))
    if not found:
        raise build_unknown_name_error(reader, selector)
    own = [each for each in found if each.name == DEFAULT_SCHEDULE_NAME]
    if len(found) > 1 and not own:
        raise AmbiguousSchedule(selector, tuple(each.label for each in found))
    return own[0] if own else found[0]


def find_run(reader: Reader, text: str) -> RunRecord | None:
    """Return the run of a short id such as `7f3k`; None if the text is no id, or there is no such run."""
    number = parse_short_id(text)
    return reader.run(number) if number and number < 1 << 62 else None


def find_latest_attempt(reader: Reader, beat: str) -> RunRecord | None:
    """Return the newest run of a beat, by the short id of the beat; None while there is none."""
    number = parse_short_id(beat)
    return None if number is None else next(iter(reader.runs(Filter(beat=number, limit=1))), None)


def is_beat_open(reader: Reader, beat: str) -> bool:
    """Whether the beat with this short id may still get a run: it is neither settled nor unknown."""
    number = parse_short_id(beat)
    record = None if number is None else reader.beat(number)
    return record is not None and record.outcome in (BeatOutcome.PENDING, BeatOutcome.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorMatch:
    """Either schedules or one run."""

    schedules: tuple[ScheduleRecord, ...] = ()
    run: RunRecord | None = None


def resolve_selector(reader: Reader, selector: str) -> SelectorMatch:
    """Try names before ids: `scan` is a target if there is one, and the id of a run otherwise. Raises NotFound."""
    try:
        return SelectorMatch(schedules=tuple(select_schedules(reader, Selection(names=(selector,)))))
    except NotFound as unknown:
        run = find_run(reader, selector)
        if run is None:
            message = unknown.message.replace("There is no target or schedule", "There is no target, schedule or run")
            raise NotFound(message, hint="List them: herdbeat list, herdbeat runs") from None
        return SelectorMatch(run=run)


def find_latest_run(reader: Reader, schedule: ScheduleRecord) -> RunRecord:
    """Return the last run that was not skipped before it began. Raises NotFound if the schedule never ran."""
    before: int | None = None
    while found := reader.runs(Filter(target=schedule.target, name=schedule.name, before=before, limit=20)):
        for run in found:
            if run.status is not RunStatus.SKIPPED:
                return run
        before = found[-1].id
    message = f'"{truncate_for_message(schedule.label)}" has never run.'
    raise NotFound(message, hint=f"Run it now: herdbeat run {schedule.label}")


MAX_COUNTED_ROWS = 10_000
"""Rows that a list counts. Beyond them the number is of no use, and counting would take longer than the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCount:
    """How many rows a list has in all. A number that is not exact is the least that there are."""

    number: int
    is_exact: bool = True

    @classmethod
    def up_to_limit(cls, counted: int) -> "FoundCount":
        """`counted` rows were found when one more than the limit was asked for."""
        return cls(number=min(counted, MAX_COUNTED_ROWS), is_exact=counted <= MAX_COUNTED_ROWS)


def count_beats(
    reader: Reader, selector: str | None, outcome: BeatOutcome | None, result: RunStatus | None, *, since: Moment
) -> FoundCount:
    """Raises NotFound for what the ledger does not know."""
    wanted = Filter(outcome=outcome, result=result, since=since, limit=MAX_COUNTED_ROWS + 1)
    return FoundCount.up_to_limit(reader.count_beats(_narrow(reader, wanted, selector)))


def count_runs(
    reader: Reader,
    selector: str | None,
    status: RunStatus | None,
    *,
    since: Moment,
    source: Source | None = None,
    origin: str | None = None,
) -> FoundCount:
    """Raises NotFound. Runs of a `source` or an `origin` are counted where they are looked for: see `find_runs`."""
    if source is not None or origin is not None:
        limit = SCANNED_PAGE_SIZE * MAX_SCANNED_PAGES
        found = find_runs(reader, selector, status, since=since, before=None, limit=limit, source=source, origin=origin)
        return FoundCount.up_to_limit(len(found))
    wanted = Filter(status=status, since=since, limit=MAX_COUNTED_ROWS + 1, include_declined=status is not None)
    return FoundCount.up_to_limit(reader.count_runs(_narrow(reader, wanted, selector)))


def find_beats(
    reader: Reader,
    selector: str | None,
    outcome: BeatOutcome | None,
    result: RunStatus | None = None,
    *,
    since: Moment,
    before: int | None,
    limit: int,
) -> list[BeatRecord]:
    """Raises NotFound for what the ledger does not know."""
    wanted = Filter(outcome=outcome, result=result, since=since, before=before, limit=limit)
    return reader.beats(_narrow(reader, wanted, selector))


def find_runs(
    reader: Reader,
    selector: str | None,
    status: RunStatus | None,
    *,
    since: Moment,
    before: int | None,
    limit: int,
    source: Source | None = None,
    origin: str | None = None,
) -> list[RunRecord]:
    """Runs that declined to work are left out, unless a status is given. Raises NotFound.

    The ledger has no index of causes: runs of a `source` or an `origin` are looked for among the newest ones.
    """
    wanted = Filter(status=status, since=since, before=before, limit=limit, include_declined=status is not None)
    wanted = _narrow(reader, wanted, selector)
    if source is None and origin is None:
        return reader.runs(wanted)
    found: list[RunRecord] = []
    for _ in range(MAX_SCANNED_PAGES):
        page = reader.runs(replace(wanted, limit=SCANNED_PAGE_SIZE))
        found += [each for each in page if source in (None, each.source) and origin in (None, each.origin)]
        if len(found) >= limit or len(page) < SCANNED_PAGE_SIZE:
            break
        wanted = replace(wanted, before=page[-1].id)
    return found[:limit]


def find_changes(
    reader: Reader,
    selector: str | None,
    *,
    since: Moment,
    before: int | None,
    limit: int,
    until: Moment = None,
) -> list[Change]:
    """Return who changed what: everywhere, in a target with its schedules, or in one schedule. Raises NotFound."""
    target, name = (None, None) if selector is None else split_selector(selector)
    changes = reader.changes(Filter(target=target, name=name, since=since, until=until, before=before, limit=limit))
    if not changes and selector is not None:
        find_schedule(reader, selector)  # a removed schedule keeps its changes, so they come first
    return changes


def _narrow(reader: Reader, wanted: Filter, selector: str | None) -> Filter:
    """Return the filter for what a selector names. Raises NotFound for what the ledger does not know."""
    if selector is None:
        return wanted
    target, name = split_selector(selector)
    if not reader.beats(Filter(target=target, name=name, limit=1)):
        find_schedule(reader, selector)  # a removed schedule keeps its history, so the beats come first
    return replace(wanted, target=target, name=name)
