"""What `explain` needs of a ledger, looked up: so that every face gives the same answer to the same question."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.service.budgets import load_gate_context, load_schedule_budgets
from herdbeat.service.explain import (
    BeatHistory,
    Explanation,
    explain_instant,
    explain_next,
    explain_no_beat,
    explain_run,
)
from herdbeat.service.hints import classify_hints
from herdbeat.store.looking import QueryReader
from herdbeat.store.reader import Filter, Reader

NEAREST_BEAT_TOLERANCE = timedelta(minutes=1)
"""Who asks for 09:00 means the interval that came due at 09:00:12, too."""


def load_next_explanation(reader: Reader, record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> Explanation:
    """Why is the next run then, or why is there none? `is_served` says whether anybody runs the ledger."""
    pending = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
    return explain_next(
        record,
        now,
        has_live_node=has_live_node,
        waiting=next(iter(reader.beats(pending)), None) if record.waiting else None,
        hints=tuple(classify_hints(reader.hints([record.id], ended_since=now), now)),
        context=load_gate_context(reader, record, now, has_live_node=has_live_node),
    )


def load_instant_explanation(
    reader: Reader, record: ScheduleRecord, at: datetime, now: datetime, zone: ZoneInfo
) -> Explanation:
    """What became of that moment?"""
    beat_id = reader.beat_at(record.target, record.name, at)
    before, after = (None if each is None else reader.beat(each) for each in reader.adjacent_beats(record.id, at))
    beat = reader.beat(beat_id) if beat_id is not None else _find_nearest_beat(at, before, after)
    if beat is None:
        return explain_no_beat(record, at, (before, after), now, zone)
    gaps = reader.gaps(beat.due_at) if beat.outcome is BeatOutcome.MISSED else []
    gap = next((gap for gap in gaps if gap.covers(beat.last_due_at)), None)
    runs = tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs)))) if beat.runs else ()
    budgets = (
        load_schedule_budgets(reader, record, beat.last_due_at) if beat.reason == SkipReason.BUDGET_EXCEEDED else None
    )
    past = BeatHistory(beat=beat, gap=gap, runs=runs, trace=reader.beat_trace(beat.id), budgets=budgets)
    return explain_instant(record, past, now, zone)


def load_run_explanation(reader: QueryReader, run: RunRecord, now: datetime, zone: ZoneInfo) -> Explanation:
    """Why did this run happen?"""
    return explain_run(run, reader.beat_trace(run.beat_id), now, zone, reader.details(run.id))


def _find_nearest_beat(at: datetime, before: BeatRecord | None, after: BeatRecord | None) -> BeatRecord | None:
    """The beat within a minute of the moment that is asked for, if there is one."""
    if after is not None and after.due_at - at < NEAREST_BEAT_TOLERANCE:
        return after
    return before if before is not None and at - before.last_due_at < NEAREST_BEAT_TOLERANCE else None
