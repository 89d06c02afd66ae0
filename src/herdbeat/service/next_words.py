"""What is said of a schedule's next run: when and why, or why there is none, and what is in its way."""

from datetime import datetime, timedelta

from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.durations import spoken_duration
from herdbeat.scheduler.overlap import Meeting, meet
from herdbeat.service.holds import disabled_words, is_paused, paused_words
from herdbeat.service.objects import Json
from herdbeat.service.states import State

_A_MOMENT = timedelta(seconds=1)


def next_words(record: ScheduleRecord, now: datetime, state: State, steps: tuple[Json, ...], *, is_served: bool) -> str:
    at = record.next_run_at
    if state is State.DISABLED:
        return f"no next run: {disabled_words(record)}"
    if record.quarantine is not None:
        again = f"edit it, or try it again: herdbeat reset {record.label}"
        return f"no next run: it cannot be decided ({record.quarantine}); {again}"
    if state is State.PAUSED:
        return paused_words(record, now)
    if state is State.RUNNING and (is_paused(record, now) or at is None):
        held = paused_words(record, now) if is_paused(record, now) else "the next time is decided when the run ends"
        return f"it is running; {held}"
    if at is None:
        return _timeless_words(record, steps)
    if state is State.LATE and at <= now:
        what = "for its turn" if is_served else "nobody runs this fleet"
        return f"it is due, {spoken_duration(now - at)} ago, and waits: {what}"
    if state is State.RUNNING:
        return f"it is running; {_meeting_words(record, at, now, steps)}"
    return f"next run {_distance(at, now)} because of {_cause(record, steps)}"


def waiting_words(record: ScheduleRecord, beat: BeatRecord, now: datetime, *, is_served: bool) -> str:
    """Of a beat that is due and has not started."""
    why = f"{beat.reason}, {record.target_running} of {record.target_room} running" if beat.reason else "for its turn"
    since = spoken_duration(now - beat.due_at)
    return f"a beat due {since} ago waits ({why if is_served else 'nobody runs this fleet'})"


def last_words(record: ScheduleRecord, now: datetime) -> str:
    """How its last run ended, where that is why it waits longer; empty if all is well."""
    if not record.failures or record.last_status is None or record.last_run_at is None:
        return ""
    error = f": {record.last_error}" if record.last_error else ""
    return f"{record.last_status} {spoken_duration(now - record.last_run_at)} ago{error}"


def _timeless_words(record: ScheduleRecord, steps: tuple[Json, ...]) -> str:
    if record.waiting:
        return "the next time is decided when that one has run"
    told = next((str(step["text"]) for step in reversed(steps)), "nothing is planned")
    return f"no next run: {told}"


def _meeting_words(record: ScheduleRecord, at: datetime, now: datetime, steps: tuple[Json, ...]) -> str:
    """Of an instant that may come while the run is still going. It is a beat in any case, and a run only perhaps."""
    overlap = record.plan.policies.overlap
    met = meet(overlap, running=True, waiting=record.waiting > 0)
    due = f"{_distance(at, now)} because of {_cause(record, steps)}"
    if met is Meeting.START:
        return f"next run {due}"
    return f"next beat {due}, {_MET[met]} (overlap: {overlap})"


_MET = {
    Meeting.SKIP: "skipped if the run is still going",
    Meeting.WAIT: "which waits until the run is over",
    Meeting.MERGE: "merged into the one that waits",
    Meeting.REPLACE: "which stops the run if it is still going",
}


def _distance(at: datetime, now: datetime) -> str:
    return f"in {spoken_duration(at - now)}" if at - now >= _A_MOMENT else "now"


def _cause(record: ScheduleRecord, steps: tuple[Json, ...]) -> str:
    won = next((str(step["text"]) for step in steps if step.get("won")), "")
    return won or str(record.next_source)
