"""Lists of schedules: the state of each, its next run and the outcome of its last beats."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.records import BeatMark, HintRecord, ScheduleRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.service.queries.schedule_state import (
    DisplayState,
    ScheduleCondition,
    drop_dead_runs,
    resolve_condition,
)
from herdbeat.service.queries.selectors import (
    build_unknown_name_error,
    build_unknown_schedule_error,
    build_unknown_tag_error,
)
from herdbeat.store.reader import Filter, Reader
from herdbeat.store.reader import ScheduleQuery as ScheduleQuery  # noqa: PLC0414 -- adapters build it, and see no store

if TYPE_CHECKING:
    from herdbeat.domain.account_hold import AccountHold
    from herdbeat.domain.fleet import Fleet
    from herdbeat.domain.records import ScheduleOutline
    from herdbeat.domain.schedule import Schedule

MAX_STRIP_BEATS = 10
_MEASURED = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.TIMED_OUT)
SCAN_PAGE_SIZE = 2_000


class NextRunKind(StrEnum):
    """What can be said about the next run. No view shows a time that will not happen."""

    AT = "at"
    RETRY = "retry"  # the next attempt at a beat that has run
    OVERDUE = "overdue"  # its time has passed
    AFTER_RUN = "after_run"  # decided when the run ends
    RESUMES = "resumes"  # its pause ends at this time, and the next run is decided
    ON_CALL = "on_call"  # only an event can fire it
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary:
    """A schedule in a list. `at` belongs to `next`; `hint` is the interval hint in effect, if any.

    `account_hold` is the usage limit that its waiting beat waits for.
    """

    record: ScheduleRecord
    state: DisplayState
    next: NextRunKind
    at: datetime | None
    strip: tuple[BeatMark, ...] = ()
    hint: HintRecord | None = None
    account_hold: "AccountHold | None" = None

    @property
    def pace(self) -> timedelta | None:
        """The interval in effect, of its hint or its backoff, within its limits; None for a calendar without a hint."""
        return resolve_pace(self.record, None if self.hint is None else self.hint.every)

    @property
    def hinted_pace(self) -> timedelta | None:
        """The interval that its hint leads to within its limits; None without such a hint."""
        every = None if self.hint is None else self.hint.every
        return None if every is None else self.record.plan.policies.limits.clamp(every)

    @property
    def took_p95(self) -> timedelta | None:
        """How long 95 of 100 of the runs in its strip have taken at most; None if none has ended."""
        spent = sorted(each.took for each in self.strip if each.took is not None and each.status in _MEASURED)
        return spent[round((len(spent) - 1) * 0.95)] if spent else None


def resolve_pace(record: "ScheduleRecord | ScheduleOutline", hinted: timedelta | None) -> timedelta | None:
    """Return the interval in effect, given that of its hint, if it has one."""
    from herdbeat.governor.candidates import backoff_interval  # noqa: PLC0415 -- no list of the terminal shows it

    own, policies = record.plan.trigger.interval, record.plan.policies
    wanted = hinted or (None if own is None else backoff_interval(own, policies.backoff, record.failures))
    return None if wanted is None else policies.limits.clamp(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    """A page. `total` counts all schedules of the fleet, if asked for; `next_after` is the cursor of the next page."""

    rows: list[ScheduleSummary] = field(default_factory=list)
    total: int = 0
    next_after: int | None = None


def list_schedules(
    reader: Reader, query: ScheduleQuery, *, has_live_node: bool = True, has_total: bool = True
) -> SchedulePage:
    """Raises NotFound, with the closest name, for a name, tag or group that no schedule has.

    Without `has_total` nothing is counted, which with 100,000 schedules takes longer than the page itself.
    """
    require_known_names(reader, query)
    records = _find_in_state(reader, replace(query, limit=query.limit + 1), has_live_node=has_live_node)
    next_after = records[query.limit - 1].id if len(records) > query.limit else None
    rows = summarize_schedules(reader, records[: query.limit], query.now)
    return SchedulePage(rows=rows, total=reader.count_all_schedules() if has_total else 0, next_after=next_after)


def find_schedules(reader: Reader, query: ScheduleQuery) -> list[ScheduleRecord]:
    """The records without summaries. Raises NotFound like `list_schedules`."""
    require_known_names(reader, query)
    return reader.find(query)


def summarize_schedules(
    reader: Reader, records: list[ScheduleRecord], now: datetime, *, strip_length: int = MAX_STRIP_BEATS
) -> list[ScheduleSummary]:
    ids = [each.id for each in records]
    strips, hints = reader.recent_beat_marks(ids, strip_length), find_interval_hints(reader, ids, now)
    records = expect_next_runs(records, hints, now)
    waiting = reader.oldest_waiting(each.id for each in records if each.waiting)
    holds = find_account_holds(reader, records, now)
    return [
        _summarize_schedule(
            each,
            now,
            waiting.get(each.id),
            strip=tuple(strips.get(each.id, ())),
            hint=hints.get(each.label) if hints else None,
            account_hold=holds.get(each.id),
        )
        for each in records
    ]


def find_account_holds(reader: Reader, records: list[ScheduleRecord], now: datetime) -> dict[int, "AccountHold"]:
    """Return the usage limit that each schedule with a waiting beat waits for."""
    return match_account_holds(reader, [each for each in records if each.waiting], now)


def match_account_holds(reader: Reader, records: list[ScheduleRecord], now: datetime) -> dict[int, "AccountHold"]:
    """Return by schedule the usage limit that holds it back; of several, the last to end.

    A limit of another model than its own holds it back if it has refused its last run: a subagent may use that model.
    """
    holds = reader.holds(now) if records else []
    uses = reader.account_uses() if holds else {}
    matched: dict[int, AccountHold] = {}
    for record in records:
        use = uses.get(record.id)
        of_account = [hold for hold in holds if use is not None and hold.account == use.account]
        own = [hold for hold in of_account if use is not None and hold.concerns(use)]
        if own or (of_account and _was_refused(reader, record)):
            matched[record.id] = (own or of_account)[-1]
    return matched


def _was_refused(reader: Reader, record: ScheduleRecord) -> bool:
    waiting = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
    return any(beat.reason == SkipReason.RATE_LIMITED for beat in reader.beats(waiting))


def list_configured_schedules(fleet: "Fleet", query: ScheduleQuery) -> SchedulePage:
    """The page of a fleet that never ran, from its files: what `up` would begin with. Raises NotFound."""
    rows = [
        _summarize_schedule(_build_new_record(number, each, query.now), query.now, None)
        for number, each in enumerate(fleet.schedules, start=1)
        if number > (query.after or 0) and _is_selected(each, query)
    ]
    if query.has_selectors and not rows:
        raise build_unknown_schedule_error(
            (*query.names, *query.tags, *query.groups)[0], {each.label for each in fleet.schedules}
        )
    rows = [each for each in rows if query.state is None or each.state == query.state]
    next_after = rows[query.limit - 1].record.id if len(rows) > query.limit else None
    return SchedulePage(rows=rows[: query.limit], total=len(fleet.schedules), next_after=next_after)


def resolve_next_run(
    record: ScheduleRecord, condition: ScheduleCondition, pending_since: datetime | None
) -> tuple[NextRunKind, datetime | None]:
    """Return what comes next, and when. `pending_since` is the due time of the oldest beat that waits."""
    state, at = condition.state, record.next_run_at
    if state is DisplayState.DISABLED or condition.is_quarantined:
        return NextRunKind.NEVER, None
    if state is DisplayState.PAUSED:
        return (NextRunKind.NEVER, None) if record.paused_until is None else (NextRunKind.RESUMES, record.paused_until)
    if state is DisplayState.LATE:
        return NextRunKind.OVERDUE, condition.late_since or pending_since or at
    if record.retry_attempt is not None and state is not DisplayState.RUNNING:
        return NextRunKind.RETRY, record.retry_at
    if at is not None:
        return NextRunKind.AT, at
    if record.waits_for_event:
        return NextRunKind.ON_CALL, None
    return (NextRunKind.AFTER_RUN, None) if state is DisplayState.RUNNING else (NextRunKind.NEVER, None)


def _summarize_schedule(
    record: ScheduleRecord,
    now: datetime,
    pending_since: datetime | None,
    *,
    strip: tuple[BeatMark, ...] = (),
    hint: HintRecord | None = None,
    account_hold: "AccountHold | None" = None,
) -> ScheduleSummary:
    condition = resolve_condition(record, now)
    kind, at = resolve_next_run(record, condition, pending_since)
    return ScheduleSummary(
        record=record, state=condition.state, next=kind, at=at, strip=strip, hint=hint, account_hold=account_hold
    )


def _find_in_state(reader: Reader, query: ScheduleQuery, *, has_live_node: bool) -> list[ScheduleRecord]:
    """The ledger preselects rows by state, generously; `resolve_condition` has the last word."""
    find = reader.find if has_live_node else partial(_find_without_dead_runs, reader)
    if query.state is None:
        return find(query)
    found: list[ScheduleRecord] = []
    after = query.after
    while len(found) < query.limit:
        page = find(replace(query, after=after, limit=SCAN_PAGE_SIZE))
        found += [each for each in page if resolve_condition(each, query.now).state == query.state]
        if len(page) < SCAN_PAGE_SIZE:
            break
        after = page[-1].id
    return found[: query.limit]


def _find_without_dead_runs(reader: Reader, query: ScheduleQuery) -> list[ScheduleRecord]:
    """The ledger still counts the runs that died with their node, so it cannot preselect by state."""
    return [drop_dead_runs(each) for each in reader.find(replace(query, state=None))]


def find_interval_hints(reader: Reader, ids: list[int], now: datetime) -> dict[str, HintRecord]:
    """Return the interval hint in effect of each schedule that has one, by label."""
    records = reader.hints(ids, ended_since=now, limit=len(ids) * MAX_STRIP_BEATS) if reader.has_hints() else []
    if not records:
        return {}
    from herdbeat.service.queries.hints import HintState, classify_hints  # noqa: PLC0415 -- few fleets have any at a given moment

    return {
        each.record.schedule: each.record
        for each in classify_hints(records, now)
        if each.state is HintState.ACTIVE and each.record.every is not None
    }


def expect_next_runs(
    records: list[ScheduleRecord], hints: dict[str, HintRecord], now: datetime
) -> list[ScheduleRecord]:
    """Return the records with the times at which they will run, also where a hint ends before the time it asks for."""
    if not hints:
        return records
    from herdbeat.service.queries.hints import build_hint  # noqa: PLC0415 -- few fleets have any at a given moment
    from herdbeat.service.queries.upcoming import expect_next_run  # noqa: PLC0415 -- the same

    return [
        expect_next_run(each, [build_hint(hints[each.label])], now) if each.label in hints else each for each in records
    ]


def require_known_names(reader: Reader, query: ScheduleQuery) -> None:
    """Raises NotFound, with the closest name, for a name, tag or group that no schedule has."""
    first = ScheduleQuery(now=query.now, limit=1)
    for name in query.names:
        if not reader.find(replace(first, names=(name,))):
            raise build_unknown_name_error(reader, name)
    marks = [("tag", tag, replace(first, tags=(tag,))) for tag in query.tags]
    marks += [("group", group, replace(first, groups=(group,))) for group in query.groups]
    for kind, mark, marked in marks:
        if not reader.find(marked):
            raise build_unknown_tag_error(kind, mark, reader.tags_and_groups())


def _is_selected(schedule: "Schedule", query: ScheduleQuery) -> bool:
    policies = schedule.policies
    return (
        not query.has_selectors
        or any(fnmatchcase(schedule.id, name if "/" in name else f"{name}/*") for name in query.names)
        or not set(query.tags).isdisjoint(policies.tags)
        or policies.group in query.groups
    )


def _build_new_record(number: int, schedule: "Schedule", now: datetime) -> ScheduleRecord:
    from herdbeat.governor import ScheduleState, decide  # noqa: PLC0415 -- the ledger has its decisions already

    decision = decide(now, ScheduleState.fresh(schedule, now))
    return ScheduleRecord(
        id=number,
        target=schedule.target,
        name=schedule.name,
        plan=ScheduleSpec(trigger=schedule.trigger, policies=schedule.policies),
        origin=str(schedule.origin or ""),
        enabled=schedule.enabled,
        next_run_at=decision.next_run_at,
        next_due_at=decision.due_at,
        next_source=decision.source,
        next_origin=decision.origin,
        anchor_at=now,
        is_new=True,
    )
