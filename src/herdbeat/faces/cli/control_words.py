"""What a change is said to have done: what changed, when it takes effect, how to undo it."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.change import What
from herdbeat.faces.cli.changing import Done, Item
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.terminal import printable
from herdbeat.moments import parse_moment

DID = {
    What.PAUSE: "Paused",
    What.RESUME: "Resumed",
    What.DISABLE: "Disabled",
    What.ENABLE: "Enabled",
    What.RESET: "Reset",
    What.SKIP: "Skips",
    What.CLEAR_HINTS: "Cleared the hints of",
}


def outcome_lines(ledger: Ledger, what: What, done: Done, undo: str, *, cancelled: bool = False) -> Iterator[str]:
    """A headline for what was changed, then a line for each schedule that has something to say."""
    changed = done.changed
    if changed:
        subject = printable(changed[0]["schedule"]) if len(changed) == 1 else counted(len(changed), "schedule")
        told = f"{DID[what]} {subject}{_effect(ledger, what, changed, cancelled=cancelled)}"
        yield f"{told}   undo: {undo}" if undo else told
    for item in done.items:
        yield from _item_lines(ledger, item, is_single=len(changed) == 1)


def until_words(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """16:04 CET, "tomorrow 09:00 CET": without seconds where there are none."""
    told = near_time(moment, now, zone)
    local = moment.astimezone(zone)
    return f"{told.removesuffix(':00') if not local.second and told.count(':') > 1 else told} {local:%Z}"


def _effect(ledger: Ledger, what: What, changed: list[Item], *, cancelled: bool) -> str:
    match what:
        case What.PAUSE:
            until = changed[0]["after"]["until"]
            end = f" until {_when(ledger, until)}" if until else " until somebody resumes"
            return f"{end}.{_running(changed, cancelled=cancelled)}"
        case What.DISABLE:
            return f": off until enabled, also after a restart.{_running(changed, cancelled=cancelled)}"
        case What.SKIP:
            return _skipped(ledger, changed)
        case What.RESET if len(changed) == 1:
            return f": {_forgotten(changed[0]['before'])}.{_next(ledger, changed)}"
        case _:
            return f".{_next(ledger, changed)}"


def _running(changed: list[Item], *, cancelled: bool) -> str:
    running = sum(each["running"] for each in changed)
    if not running:
        return ""
    verb = ("stops" if cancelled else "finishes") if running == 1 else ("stop" if cancelled else "finish")
    return f" {counted(running, 'run')} in progress {verb}."


def _skipped(ledger: Ledger, changed: list[Item]) -> str:
    """One schedule says which beats, several how many."""
    skips = changed[0]["after"]["skips"]
    if not skips:
        return f" no longer.{_next(ledger, changed)}"
    beats = "the next beat" if skips == 1 else f"the next {skips} beats"
    instants = changed[0]["after"].get("instants", [])
    if len(changed) > 1 or not instants:
        return f": {beats}."
    first, last = _when(ledger, instants[0]), _when(ledger, instants[-1])
    if len(instants) < skips:
        return f": {beats}, from {first} on."
    return f": {beats}, {first if skips == 1 else f'{first} to {last}'}."


def _forgotten(before: Item) -> str:
    parts = [counted(before["failures"], "failure") + " forgotten"] if before["failures"] else []
    return ", ".join([*parts, *(["it has left the quarantine"] if before["quarantine"] else [])])


def _next(ledger: Ledger, changed: list[Item]) -> str:
    at = changed[0]["next_run_at"]
    if len(changed) > 1:
        return ""
    return f" Next run {_when(ledger, at)}." if at else " No next run is planned."


def _item_lines(ledger: Ledger, item: Item, *, is_single: bool) -> Iterator[str]:
    name = printable(item["schedule"])
    if item["refused"]:
        yield f"– {name}  refused: {printable(item['refused'])}"
        yield f"  {printable(item['hint'])}"
    elif not item["changed"]:
        yield f"· {name}  {printable('; '.join(item['notes']))}{_standing(ledger, item['after'])}; nothing changed"
    else:
        for note in item["notes"]:
            yield f"  {printable(note)}" if is_single else f"  {name}  {printable(note)}"


def _standing(ledger: Ledger, after: Item) -> str:
    if not after.get("paused"):
        return ""
    end = f" until {_when(ledger, after['until'])}" if after["until"] else " without an end"
    reason = f' "{printable(after["reason"])}"' if after["reason"] else ""
    return f"{end} by {printable(after['by'])}{reason}"


def _when(ledger: Ledger, text: str) -> str:
    return until_words(parse_moment(text), ledger.now, ledger.zone)
