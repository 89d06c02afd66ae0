"""What a change is said to have done: what changed, when it takes effect, how to undo it."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.change import ChangeKind
from herdbeat.faces.cli.changing import ChangeResult, ResultItem
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import format_count, format_time
from herdbeat.faces.cli.terminal import printable
from herdbeat.moments import parse_timestamp

PAST_TENSE = {
    ChangeKind.PAUSE: "Paused",
    ChangeKind.RESUME: "Resumed",
    ChangeKind.DISABLE: "Disabled",
    ChangeKind.ENABLE: "Enabled",
    ChangeKind.RESET: "Reset",
    ChangeKind.SKIP: "Skips",
    ChangeKind.CLEAR_HINTS: "Cleared the hints of",
}


def result_lines(
    handle: FleetHandle, what: ChangeKind, result: ChangeResult, undo: str, *, cancelled: bool = False
) -> Iterator[str]:
    """A headline for what was changed, then a line for each schedule that has something to say."""
    changed = result.changed
    if changed:
        subject = printable(changed[0]["schedule"]) if len(changed) == 1 else format_count(len(changed), "schedule")
        text = f"{PAST_TENSE[what]} {subject}{_describe_effect(handle, what, changed, cancelled=cancelled)}"
        yield f"{text}   undo: {undo}" if undo else text
    for item in result.items:
        yield from _item_lines(handle, item, is_single=len(changed) == 1)


def format_until(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """16:04 CET, "tomorrow 09:00 CET": without seconds where there are none."""
    text = format_time(moment, now, zone)
    local = moment.astimezone(zone)
    return f"{text.removesuffix(':00') if not local.second and text.count(':') > 1 else text} {local:%Z}"


def _describe_effect(handle: FleetHandle, what: ChangeKind, changed: list[ResultItem], *, cancelled: bool) -> str:
    match what:
        case ChangeKind.PAUSE:
            until = changed[0]["after"]["until"]
            end = f" until {_format_time(handle, until)}" if until else " until somebody resumes"
            return f"{end}.{_describe_active_runs(changed, cancelled=cancelled)}"
        case ChangeKind.DISABLE:
            return f": off until enabled, also after a restart.{_describe_active_runs(changed, cancelled=cancelled)}"
        case ChangeKind.SKIP:
            return _describe_skips(handle, changed)
        case ChangeKind.RESET if len(changed) == 1:
            return f": {_describe_reset(changed[0]['before'])}.{_describe_next_run(handle, changed)}"
        case _:
            return f".{_describe_next_run(handle, changed)}"


def _describe_active_runs(changed: list[ResultItem], *, cancelled: bool) -> str:
    running = sum(each["running"] for each in changed)
    if not running:
        return ""
    verb = ("stops" if cancelled else "finishes") if running == 1 else ("stop" if cancelled else "finish")
    return f" {format_count(running, 'run')} in progress {verb}."


def _describe_skips(handle: FleetHandle, changed: list[ResultItem]) -> str:
    """One schedule says which beats, several how many."""
    skips = changed[0]["after"]["skips"]
    if not skips:
        return f" no longer.{_describe_next_run(handle, changed)}"
    beats = "the next beat" if skips == 1 else f"the next {skips} beats"
    instants = changed[0]["after"].get("instants", [])
    if len(changed) > 1 or not instants:
        return f": {beats}."
    first, last = _format_time(handle, instants[0]), _format_time(handle, instants[-1])
    if len(instants) < skips:
        return f": {beats}, from {first} on."
    return f": {beats}, {first if skips == 1 else f'{first} to {last}'}."


def _describe_reset(before: ResultItem) -> str:
    parts = [format_count(before["failures"], "failure") + " forgotten"] if before["failures"] else []
    return ", ".join([*parts, *(["it has left the quarantine"] if before["quarantine"] else [])])


def _describe_next_run(handle: FleetHandle, changed: list[ResultItem]) -> str:
    at = changed[0]["next_run_at"]
    if len(changed) > 1:
        return ""
    return f" Next run {_format_time(handle, at)}." if at else " No next run is planned."


def _item_lines(handle: FleetHandle, item: ResultItem, *, is_single: bool) -> Iterator[str]:
    name = printable(item["schedule"])
    if item["refused"]:
        yield f"– {name}  refused: {printable(item['refused'])}"
        yield f"  {printable(item['hint'])}"
    elif not item["changed"]:
        notes = printable("; ".join(item["notes"]))
        yield f"· {name}  {notes}{_describe_pause(handle, item['after'])}; nothing changed"
    else:
        for note in item["notes"]:
            yield f"  {printable(note)}" if is_single else f"  {name}  {printable(note)}"


def _describe_pause(handle: FleetHandle, after: ResultItem) -> str:
    if not after.get("paused"):
        return ""
    end = f" until {_format_time(handle, after['until'])}" if after["until"] else " without an end"
    reason = f' "{printable(after["reason"])}"' if after["reason"] else ""
    return f"{end} by {printable(after['by'])}{reason}"


def _format_time(handle: FleetHandle, text: str) -> str:
    return format_until(parse_timestamp(text), handle.now, handle.zone)
