"""What is said of a schedule's next run: when and why, or why there is none, and what is in its way."""

from datetime import datetime, timedelta

from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.durations import humanize
from herdbeat.scheduler.overlap import OverlapAction, resolve_overlap
from herdbeat.service.holds import describe_disabled, describe_pause, is_paused
from herdbeat.service.objects import JsonObject
from herdbeat.service.states import DisplayState

_NOW_THRESHOLD = timedelta(seconds=1)


def describe_next_run(
    record: ScheduleRecord, now: datetime, state: DisplayState, steps: tuple[JsonObject, ...], *, has_live_node: bool
) -> str:
    at = record.next_run_at
    if state is DisplayState.DISABLED:
        return f"no next run: {describe_disabled(record)}"
    if record.quarantine is not None:
        again = f"edit it, or try it again: herdbeat reset {record.label}"
        return f"no next run: it cannot be decided ({record.quarantine}); {again}"
    if state is DisplayState.PAUSED:
        return describe_pause(record, now)
    if state is DisplayState.RUNNING and (is_paused(record, now) or at is None):
        held = describe_pause(record, now) if is_paused(record, now) else "the next time is decided when the run ends"
        return f"it is running; {held}"
    if at is None:
        return _describe_no_next_run(record, steps)
    if state is DisplayState.LATE and at <= now:
        what = "for its turn" if has_live_node else "nobody runs this fleet"
        return f"it is due, {humanize(now - at)} ago, and waits: {what}"
    if state is DisplayState.RUNNING:
        return f"it is running; {_describe_overlap(record, at, now, steps)}"
    return f"next run {_format_distance(at, now)} because of {_describe_cause(record, steps)}"


def describe_pending_beat(record: ScheduleRecord, beat: BeatRecord, now: datetime, *, has_live_node: bool) -> str:
    """Of a beat that is due and has not started."""
    why = f"{beat.reason}, {record.target_running} of {record.target_room} running" if beat.reason else "for its turn"
    since = humanize(now - beat.due_at)
    return f"a beat due {since} ago waits ({why if has_live_node else 'nobody runs this fleet'})"


def describe_last_failure(record: ScheduleRecord, now: datetime) -> str:
    """How its last run ended, where that is why it waits longer; empty if all is well."""
    if not record.failures or record.last_status is None or record.last_run_at is None:
        return ""
    error = f": {record.last_error}" if record.last_error else ""
    return f"{record.last_status} {humanize(now - record.last_run_at)} ago{error}"


def _describe_no_next_run(record: ScheduleRecord, steps: tuple[JsonObject, ...]) -> str:
    if record.waiting:
        return "the next time is decided when that one has run"
    detail = next((str(step["text"]) for step in reversed(steps)), "nothing is planned")
    return f"no next run: {detail}"


def _describe_overlap(record: ScheduleRecord, at: datetime, now: datetime, steps: tuple[JsonObject, ...]) -> str:
    """Of an instant that may come while the run is still going. It is a beat in any case, and a run only perhaps."""
    overlap = record.plan.policies.overlap
    action = resolve_overlap(overlap, running=True, waiting=record.waiting > 0)
    due = f"{_format_distance(at, now)} because of {_describe_cause(record, steps)}"
    if action is OverlapAction.START:
        return f"next run {due}"
    return f"next beat {due}, {_OVERLAP_PHRASES[action]} (overlap: {overlap})"


_OVERLAP_PHRASES = {
    OverlapAction.SKIP: "skipped if the run is still going",
    OverlapAction.ENQUEUE: "which waits until the run is over",
    OverlapAction.MERGE: "merged into the one that waits",
    OverlapAction.REPLACE: "which stops the run if it is still going",
}


def _format_distance(at: datetime, now: datetime) -> str:
    return f"in {humanize(at - now)}" if at - now >= _NOW_THRESHOLD else "now"


def _describe_cause(record: ScheduleRecord, steps: tuple[JsonObject, ...]) -> str:
    won = next((str(step["text"]) for step in steps if step.get("won")), "")
    return won or str(record.next_source)
