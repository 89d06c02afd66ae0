"""Many schedules at a glance: how each stands, what comes next, and what became of its last beats."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from herdbeat.domain.plan import Plan
from herdbeat.domain.records import HintRecord, ScheduleRecord, StripMark
from herdbeat.errors import NotFound
from herdbeat.service.selecting import not_found, unmarked
from herdbeat.service.states import State, state_of
from herdbeat.store.looking import Look, LookReader

if TYPE_CHECKING:
    from herdbeat.domain.fleet import Fleet
    from herdbeat.domain.schedule import Schedule

STRIP = 10
PAGE = 2_000


class Next(StrEnum):
    """What there is to say about the next run, so that no face shows a time that will not happen."""

    AT = "at"
    OVERDUE = "overdue"  # its time has passed
    AFTER_RUN = "after_run"  # decided when the run ends
    RESUMES = "resumes"  # a pause with an end: that is when it is decided again
    ON_CALL = "on_call"  # only an event can fire it
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A schedule in a list. `hint` is the pace that counts instead of its own, if there is one."""

    record: ScheduleRecord
    state: State
    next: Next
    at: datetime | None
    strip: tuple[StripMark, ...] = ()
    hint: HintRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page. `total` counts all schedules of the fleet, `next_after` is where the next page begins, if any."""

    rows: list[Listed] = field(default_factory=list)
    total: int = 0
    next_after: int | None = None


def list_schedules(reader: LookReader, look: Look) -> Listing:
    """Raises NotFound, which guesses, for a name, tag or group that nothing has."""
    _refuse_unknown(reader, look)
    records = _of_state(reader, replace(look, limit=look.limit + 1))
    next_after = records[look.limit - 1].id if len(records) > look.limit else None
    rows = look_at(reader, records[: look.limit], look.now)
    return Listing(rows=rows, total=reader.number_of_schedules(), next_after=next_after)


def find_named(reader: LookReader, look: Look) -> list[ScheduleRecord]:
    """The schedules alone. Raises NotFound, which guesses."""
    _refuse_unknown(reader, look)
    return reader.find(look)


def look_at(reader: LookReader, records: list[ScheduleRecord], now: datetime) -> list[Listed]:
    ids = [each.id for each in records]
    strips, paces = reader.strips(ids, STRIP), paces_of(reader, ids, now)
    waiting = reader.oldest_waiting(each.id for each in records if each.waiting)
    return [
        replace(
            _listed(each, now, waiting.get(each.id)),
            strip=tuple(strips.get(each.id, ())),
            hint=paces.get(each.label),
        )
        for each in records
    ]


def list_files(fleet: "Fleet", look: Look) -> Listing:
    """The same from files alone, where nothing has ever run: what `up` would begin with. Raises NotFound."""
    rows = [
        _listed(_unstarted(number, each, look.now), look.now, None)
        for number, each in enumerate(fleet.schedules, start=1)
        if number > (look.after or 0) and _is_meant(each, look)
    ]
    if look.is_narrow and not rows:
        raise not_found((*look.names, *look.tags, *look.groups)[0], {each.label for each in fleet.schedules})
    rows = [each for each in rows if look.state is None or each.state == look.state]
    next_after = rows[look.limit - 1].record.id if len(rows) > look.limit else None
    return Listing(rows=rows[: look.limit], total=len(fleet.schedules), next_after=next_after)


def next_of(record: ScheduleRecord, state: State, waits_since: datetime | None) -> tuple[Next, datetime | None]:
    """What comes next, and when."""
    at = record.next_run_at
    if state is State.DISABLED or record.quarantine is not None:
        return Next.NEVER, None
    if state is State.PAUSED:
        return (Next.NEVER, None) if record.paused_until is None else (Next.RESUMES, record.paused_until)
    if state is State.LATE:
        return Next.OVERDUE, waits_since or at
    if at is not None:
        return Next.AT, at
    if record.plan.trigger.kind.waits_for_event:
        return Next.ON_CALL, None
    return (Next.AFTER_RUN, None) if state is State.RUNNING else (Next.NEVER, None)


def _listed(record: ScheduleRecord, now: datetime, waits_since: datetime | None) -> Listed:
    state = state_of(record, now)
    what, at = next_of(record, state, waits_since)
    return Listed(record=record, state=state, next=what, at=at)


def _of_state(reader: LookReader, look: Look) -> list[ScheduleRecord]:
    """As many as are wanted and are in that state. The ledger throws the net, `state_of` picks from it."""
    if look.state is None:
        return reader.find(look)
    found: list[ScheduleRecord] = []
    after = look.after
    while len(found) < look.limit:
        page = reader.find(replace(look, after=after, limit=PAGE))
        found += [each for each in page if state_of(each, look.now) == look.state]
        if len(page) < PAGE:
            break
        after = page[-1].id
    return found[: look.limit]


def paces_of(reader: LookReader, ids: list[int], now: datetime) -> dict[str, HintRecord]:
    """The pace that is heard, by schedule."""
    found = reader.hints(ids, ended_since=now, limit=len(ids) * STRIP) if reader.has_hints() else []
    if not found:
        return {}
    from herdbeat.service.hints import HintState, stand_of  # noqa: PLC0415 -- few fleets have any at a given moment

    return {
        each.record.schedule: each.record
        for each in stand_of(found, now)
        if each.state is HintState.ACTIVE and each.record.every is not None
    }


def _refuse_unknown(reader: LookReader, look: Look) -> None:
    for name in look.names:
        if not reader.find(Look(now=look.now, names=(name,), limit=1)):
            raise unknown_name(reader, name)
    for what, marks in (("tag", look.tags), ("group", look.groups)):
        for mark in marks:
            named = Look(now=look.now, tags=(mark,), limit=1) if what == "tag" else Look(now=look.now, groups=(mark,))
            if not reader.find(named):
                raise unmarked(what, mark, reader.known_marks())


def unknown_name(reader: LookReader, name: str) -> NotFound:
    return not_found(name, reader.near_names(name))


def _is_meant(schedule: "Schedule", look: Look) -> bool:
    policies = schedule.policies
    return (
        not look.is_narrow
        or any(fnmatchcase(schedule.id, name if "/" in name else f"{name}/*") for name in look.names)
        or not set(look.tags).isdisjoint(policies.tags)
        or policies.group in look.groups
    )


def _unstarted(number: int, schedule: "Schedule", now: datetime) -> ScheduleRecord:
    from herdbeat.governor import ScheduleState, decide  # noqa: PLC0415 -- the ledger has its decisions already

    decision = decide(now, ScheduleState.fresh(schedule, now))
    return ScheduleRecord(
        id=number,
        target=schedule.target,
        name=schedule.name,
        plan=Plan(trigger=schedule.trigger, policies=schedule.policies),
        origin=str(schedule.origin or ""),
        enabled=schedule.enabled,
        disabled_by=None,
        quarantine=None,
        next_run_at=decision.next_run_at,
        next_due_at=decision.due_at,
        next_source=decision.source,
        next_origin=decision.origin,
        next_trace=None,
        anchor_at=now,
        is_new=True,
        failures=0,
        running=0,
        waiting=0,
        paused=False,
        paused_until=None,
        paused_by="",
        paused_reason="",
        last_started_at=None,
        last_run_at=None,
        last_status=None,
        last_error=None,
        target_room=1,
        target_running=0,
    )
