"""`herdbeat explain`: three questions, one trace."""

import json
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.errors import NotFound
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.explanations import show_explanation
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.world import World
from herdbeat.service.budgets import look_around
from herdbeat.service.explain import (
    Explanation,
    Past,
    explain_instant,
    explain_next,
    explain_nothing,
    explain_run,
    explanation_object,
)
from herdbeat.service.hints import stand_of
from herdbeat.service.questions import find_run, find_schedule
from herdbeat.store.reader import Filter

NEAR = timedelta(minutes=1)
"""Who asks for 09:00 means the interval that came due at 09:00:12, too."""


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        explanation = _explain(given, ledger)
        if given.has(flags.JSON):
            world.terminal.say(json.dumps(explanation_object(explanation), indent=2, ensure_ascii=False))
        else:
            show_explanation(world.terminal, ledger, explanation)
    return 0


def _explain(given: Given, ledger: Ledger) -> Explanation:
    """A schedule's name comes first: a target may well be called `beef`, which is also the id of a run."""
    reader, selector = ledger.opened(), given.words[0]
    try:
        record = find_schedule(reader, selector)
    except NotFound:
        found = find_run(reader, selector)
        if found is None:
            raise
        trace, details = reader.trace_of_beat(found.beat_id), reader.details(found.id)
        return explain_run(found, trace, ledger.now, ledger.zone, details)
    at = given.value(flags.AT)
    if at is None:
        pending = Filter(target=record.target, name=record.name, outcome=BeatOutcome.PENDING, limit=1)
        waiting = next(iter(reader.beats(pending)), None) if record.waiting else None
        hints = tuple(stand_of(reader.hints([record.id], ended_since=ledger.now), ledger.now))
        around = look_around(reader, record, ledger.now, is_served=ledger.holder is not None)
        return explain_next(record, ledger.now, is_served=around.is_served, waiting=waiting, hints=hints, around=around)
    return _explain_past(ledger, record, read_past(at, ledger.now, ledger.zone))


def _explain_past(ledger: Ledger, record: ScheduleRecord, at: datetime) -> Explanation:
    reader = ledger.opened()
    held = reader.beat_at(record.target, record.name, at)
    before, after = (None if each is None else reader.beat(each) for each in reader.neighbours(record.id, at))
    beat = reader.beat(held) if held is not None else _nearest(at, before, after)
    if beat is None:
        return explain_nothing(record, at, (before, after), ledger.now, ledger.zone)
    gaps = reader.gaps(beat.due_at) if beat.outcome is BeatOutcome.MISSED else []
    gap = next((gap for gap in gaps if gap.covers(beat.last_due_at)), None)
    runs = tuple(reader.runs(Filter(beat=beat.id, limit=len(beat.runs)))) if beat.runs else ()
    past = Past(beat=beat, gap=gap, runs=runs, trace=reader.trace_of_beat(beat.id))
    return explain_instant(record, past, ledger.now, ledger.zone)


def _nearest(at: datetime, before: BeatRecord | None, after: BeatRecord | None) -> BeatRecord | None:
    """The beat within a minute of the moment that is asked for, if there is one."""
    if after is not None and after.due_at - at < NEAR:
        return after
    return before if before is not None and at - before.last_due_at < NEAR else None
