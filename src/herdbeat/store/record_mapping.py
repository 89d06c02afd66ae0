"""Rows of the readers, read as records. Nothing of the writer's side is loaded here.

The statements name each column after a field of the record, so a record is built by name. What a column holds (a
moment, a status, JSON) follows from its name, too.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.codec import from_json
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import display_name
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.policies import Budget, Catchup, Policies
from herdbeat.domain.records import BeatRecord, HintRecord, RunRecord, ScheduleOutline, ScheduleRecord, TimelineSpan
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import HerdbeatError
from herdbeat.timestamps import from_any_micros, from_micros
from herdbeat.triggers import Delay, Manual, load_trigger

if TYPE_CHECKING:
    from herdbeat.domain.budget import BudgetOwner
    from herdbeat.domain.schedule import RunSpec
    from herdbeat.domain.target import TargetSpec
    from herdbeat.domain.work_claim import WorkClaimRecord
    from herdbeat.domain.work_item import WorkItem

R = TypeVar("R")
Fields: TypeAlias = dict[str, Any]
"""The columns of one row by name, on the way to a record. They never leave this module."""

# ── records ──

_TIME_COLUMNS = (
    *("at", "due_at", "last_due_at", "settled_at", "claimed_at", "started_at", "finished_at", "created_at"),
    *("next_run_at", "next_due_at", "anchor_at", "paused_until", "last_started_at", "last_run_at", "retry_at"),
    *("expires_at", "ended_at", "seen_at", "stopped_at", "lease_until", "revoked_at"),
)
_COLUMN_READERS: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(_TIME_COLUMNS, from_any_micros),
    **dict.fromkeys(("enabled", "is_new", "paused", "works", "quiet", "empty_answer", "is_notional"), bool),
    **dict.fromkeys(("status", "last_status"), RunStatus),
    **dict.fromkeys(("source", "next_source"), Source),
    **dict.fromkeys(("before", "after", "response", "usage"), json.loads),
    "every": lambda micros: timedelta(microseconds=micros),
    **dict.fromkeys(("labels", "needs_you"), lambda text: tuple(json.loads(text))),
    "outcome": BeatOutcome,
    "what": ChangeKind,
}


def read_records(record_type: Callable[..., R], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[R]:
    """Build a record from each row, by the names of its columns. NULL is None in every column."""
    names = [intern(column) for column in columns]  # else each keyword of a record is compared letter by letter
    readers = [(name, _COLUMN_READERS[name]) for name in names if name in _COLUMN_READERS]
    derive_fields = _DERIVED_FIELDS.get(record_type)
    records = []
    for row in rows:
        fields = dict(zip(names, row, strict=True))
        for name, read in readers:
            if fields[name] is not None:
                fields[name] = read(fields[name])
        if derive_fields is not None:
            derive_fields(fields)
        records.append(record_type(**fields))
    return records


def _derive_label(fields: Fields) -> None:
    fields["schedule"] = display_name(fields.pop("target"), fields.pop("name"))


def _derive_beat(fields: Fields) -> None:
    _derive_label(fields)
    fields["runs"] = tuple(json.loads(fields["runs"]))


def _derive_schedule(fields: Fields) -> None:
    """A schedule whose plan cannot be read has a placeholder and is in quarantine."""
    fields["plan"], unreadable = read_plan_or_placeholder(fields["plan"])
    fields["quarantine"] = fields["quarantine"] or unreadable
    fields["windows"] = () if fields["windows"] is None else read_windows(json.loads(fields["windows"]))


_DERIVED_FIELDS: dict[Callable[..., object], Callable[[Fields], None]] = {
    BeatRecord: _derive_beat,
    RunRecord: _derive_label,
    HintRecord: _derive_label,
    ScheduleRecord: _derive_schedule,
}


def read_outlines(
    rows: Sequence[Sequence[Any]], plans: dict[int, str], retries: dict[int, tuple[int | None, int]]
) -> list[ScheduleOutline]:
    """Build outlines by position, which is faster than by name. `plans` has texts by id, `retries` what waits."""
    read = {number: read_plan_or_placeholder(text) for number, text in plans.items()}
    outlines = []
    for row in rows:
        plan, unreadable = read[row[3]]
        retry_at, attempt = retries.get(row[0], (None, None))
        outlines.append(
            ScheduleOutline(
                *(row[0], row[1], row[2], plan, bool(row[4]), row[5], row[6] or unreadable),
                *(from_micros(row[7]), row[8], row[9], row[10], bool(row[11]), from_micros(row[12])),
                *(from_micros(row[13]), from_micros(row[14]), row[15], bool(row[16]), from_micros(retry_at), attempt),
            )
        )
    return outlines


def read_spans(rows: Iterable[Sequence[Any]]) -> list[TimelineSpan]:
    """Build spans by position: a timeline has thousands."""
    return [
        TimelineSpan(
            schedule,
            BeatOutcome(outcome),
            from_micros(due_at),
            from_micros(last_due_at),
            number,
            None if status is None else RunStatus(status),
            from_micros(started_at),
            from_micros(finished_at),
            run,
        )
        for schedule, outcome, due_at, last_due_at, number, status, started_at, finished_at, run in rows
    ]


def read_windows(rows: Iterable[Sequence[Any]]) -> tuple[PauseWindow, ...]:
    """Read the planned pauses of one schedule, in the order in which they begin."""
    return tuple(sorted(map(read_window, rows), key=lambda each: (each.from_at, each.id)))


def read_window(row: Sequence[Any]) -> PauseWindow:
    number, from_at, until, by, reason = row
    return PauseWindow(id=number, from_at=from_micros(from_at), until=from_micros(until), by=by, reason=reason)


def read_gaps(rows: Iterable[Sequence[Any]]) -> list[Gap]:
    return [
        Gap(from_at=from_micros(start), until=from_micros(until), reason=MissedReason(reason))
        for start, until, reason in rows
    ]


# ── stored JSON ──

PLACEHOLDER_PLAN = ScheduleSpec(
    trigger=Manual(),
    policies=Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.SKIP),
)
"""A plan without a time: code that overlooks that the real one is unreadable starts nothing by it."""


class UnreadablePlan(Exception):
    """A stored plan is damaged, or names a zone that this machine does not have."""


def read_plan(text: str) -> ScheduleSpec:
    """Raises UnreadablePlan."""
    try:
        return from_json(ScheduleSpec, json.loads(text) or {}, load_trigger)  # null would be read as None
    except Exception as error:  # whatever is wrong with one plan, the other schedules must be readable
        raise UnreadablePlan(_describe_error(error)) from error


# A listing of ten thousand schedules has a handful of texts; at worst, each has its own.
@lru_cache(maxsize=32_768)
def read_plan_or_placeholder(text: str) -> tuple[ScheduleSpec, str | None]:
    """Return the plan, or a placeholder and why the plan cannot be read."""
    try:
        return read_plan(text), None
    except UnreadablePlan as error:
        return PLACEHOLDER_PLAN, describe_read_error(error)


def describe_read_error(error: Exception) -> str:
    reason = str(error) if isinstance(error, UnreadablePlan) else _describe_error(error)
    return f"its stored definition cannot be read ({reason})"


def _describe_error(error: Exception) -> str:
    return error.message if isinstance(error, HerdbeatError) else f"{type(error).__name__}: {error}"


def apply_arm(plan: ScheduleSpec, arm: int) -> ScheduleSpec:
    """Return the plan of a re-armed one-shot, which fires under another dedup id.

    Schedules share plans, so the arm is stored with the schedule.
    """
    if arm == 1 or not isinstance(plan.trigger, Delay):
        return plan
    return replace(plan, trigger=replace(plan.trigger, arm=arm))


def read_budgets(rows: Iterable[tuple[str, int, str]]) -> "dict[BudgetOwner, Budget]":
    from herdbeat.domain.budget import BudgetOwner, BudgetScope  # noqa: PLC0415 - few commands need it

    return {BudgetOwner(BudgetScope(scope), number): _read_budget(text) for scope, number, text in rows}


# Read at every claim, and mostly the same.
@lru_cache(maxsize=10_000)
def _read_budget(text: str) -> Budget:
    return from_json(Budget, json.loads(text), load_trigger)


# Thousands of schedules have the same texts: each is read once.
@lru_cache(maxsize=1_000)
def read_run_spec(text: str) -> "RunSpec":
    from herdbeat.domain.schedule import RunSpec  # noqa: PLC0415 - few commands need it

    return from_json(RunSpec, json.loads(text), load_trigger)


@lru_cache(maxsize=1_000)
def read_target_spec(kind: str, text: str) -> "TargetSpec":
    from herdbeat.domain.target import SPEC_TYPES  # noqa: PLC0415 - few commands need it

    return from_json(SPEC_TYPES[kind], json.loads(text), load_trigger)


def _read_kept_item(item_id: str, data: dict[str, Any]) -> "WorkItem":
    from herdbeat.domain.work_item import WorkItem  # noqa: PLC0415 - few commands need it

    labels = tuple(data.get("labels", ()))
    texts = {name: data.get(name, "") for name in ("title", "url", "assignee", "priority")}
    return WorkItem(id=item_id, **texts, labels=labels, metadata=data.get("metadata", {}))


def read_work_claim(row: Sequence[Any]) -> "WorkClaimRecord":
    """Return the claim of a row in the order of `work_claim_columns`."""

    from herdbeat.domain.work_claim import AttemptUse, WorkClaimRecord, WorkClaimState  # noqa: PLC0415 - few commands need it
    from herdbeat.domain.work_item import Report  # noqa: PLC0415 - few commands need it

    (number, source, item, marker, schedule_id, run_id, attempt, max_attempts, state, data, spec, host) = row[:12]
    (remembers, claimed_at, offered_at, ended_at, used, report, reason, tries, next_at) = row[12:21]
    return WorkClaimRecord(
        id=number,
        source=source,
        item=item,
        marker=marker,
        schedule_id=schedule_id,
        run_id=run_id,
        attempt=attempt,
        max_attempts=max_attempts,
        state=WorkClaimState(state),
        kept=_read_kept_item(item, json.loads(data)),
        spec=json.loads(spec),
        host=host,
        remembers=bool(remembers),
        claimed_at=from_micros(claimed_at),
        offered_at=from_micros(offered_at),
        ended_at=from_micros(ended_at),
        used=AttemptUse(used),
        report=None if report is None else Report(**json.loads(report)),
        reason=reason,
        tries=tries,
        next_at=from_micros(next_at) if next_at else None,
    )
