"""What `explain` needs of a ledger, looked up: so that every face gives the same answer to the same question."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.service.budgets import look_around, wallet_of
from herdbeat.service.explain import (
    Explanation,
    Past,
    explain_instant,
    explain_next,
    explain_nothing,
    explain_run,
)
from herdbeat.service.hints import stand_of
from herdbeat.store.looking import LookReader
from herdbeat.store.reader import Filter, Reader

NEAR = timedelta(minutes=1)
"""Who asks for 09:00 means the interval that came due at 09:00:12, too."""


def why_next(reader: Reader, record: ScheduleRecord, now: datetime, *, is_served: bool) -> Explanation:
    """Why is the next run then, or why is there none? `is_served` says whether anybody runs the ledger."""
    pending = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
    return explain_next(
        record,
        now,
        is_served=is_served,
        waiting=next(iter(reader.beats(pending)), None) if record.waiting else None,
        hints=tuple(stand_of(reader.hints([record.id], ended_since=now), now)),
        around=look_around(reader, record, now, is_served=is_served),
    )


def why_then(reader: Reader, record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo) -> Explanation:
    """What became of that moment?"""
    held = reader.beat_at(record.target, record.name, at)
    before, after = (None if each is None else reader.beat(each) for each in reader.neighbours(record.id, at))
    beat = reader.beat(held) if held is not None else _nearest(at, before, after)
    if beat is None:
        return explain_nothing(record, at, (before, after), now, zone)
    gaps = reader.gaps(beat.due_at) if beat.outcome is BeatOutcome.MISSED else []
    gap = next((gap for gap in gaps if gap.covers(beat.last_due_at)), None)
    runs = tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs)))) if beat.runs else ()
    wallet = wallet_of(reader, record, beat.last_due_at) if beat.reason == SkipReason.BUDGET_EXCEEDED else None
    past = Past(beat=beat, gap=gap, runs=runs, trace=reader.trace_of_beat(beat.id), wallet=wallet)
    return explain_instant(record, past, now, zone)


def why_run(reader: LookReader, run: RunRecord, now: datetime, zone: ZoneInfo) -> Explanation:
    """Why did this run happen?"""
    return explain_run(run, reader.trace_of_beat(run.beat_id), now, zone, reader.details(run.id))


def _nearest(at: datetime, before: BeatRecord | None, after: BeatRecord | None) -> BeatRecord | None:
    """The beat within a minute of the moment that is asked for, if there is one."""
    if after is not None and after.due_at - at < NEAR:
        return after
    return before if before is not None and at - before.last_due_at < NEAR else None
