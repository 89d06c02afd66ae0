"""What was made, changed or removed, in words; and the command that takes it back."""

import shlex
from collections.abc import Iterator
from typing import Any

from herdbeat.domain.change import What
from herdbeat.domain.trigger import Trigger
from herdbeat.faces.cli.asked import trigger_document
from herdbeat.faces.cli.control_words import until_words
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.terminal import printable
from herdbeat.moments import parse_moment
from herdbeat.service.making import Making, NewSchedule


def told(ledger: Ledger, making: Making, done: dict[str, Any], undo: str) -> Iterator[str]:
    label = printable(making.label)
    match making.what:
        case What.ADD:
            kind = f", a new {making.new_target.kind}" if making.new_target is not None else ""
            yield f"Created {label}{kind}.{_effect(ledger, done, 'First')}"
        case What.EDIT:
            yield f"Updated {label}.{_effect(ledger, done, 'Next')}"
        case _:
            removed = [each for each in done["removed"] if "/" in each]
            many = f" with {counted(len(removed), 'schedule')}" if making.name is None and removed else ""
            yield f"Deleted {label}{many}. Its history stays: herdbeat beats {label}"
    if undo:
        yield f"undo: {printable(undo)}"


def creation_of(label: str, stored: NewSchedule) -> str:
    """The command that makes a schedule of a target that is there."""
    prompt = f" --prompt {shlex.quote(stored.brief.prompt)}" if stored.brief.prompt else ""
    return f"herdbeat create {label}{_trigger(stored.plan.trigger)}{prompt}"


def update_of(label: str, before: NewSchedule, after: NewSchedule) -> str:
    """The command that puts back what was changed."""
    parts = []
    if before.plan.trigger != after.plan.trigger:
        parts.append(_trigger(before.plan.trigger))
    if before.plan.policies.zone != after.plan.policies.zone:
        parts.append(f" --tz {before.plan.policies.zone.key}")
    if before.brief.prompt != after.brief.prompt:
        parts.append(f" --prompt {shlex.quote(before.brief.prompt or '')}")
    if before.enabled != after.enabled:
        parts.append(f" --enabled {str(before.enabled).lower()}")
    return f"herdbeat update {label}{''.join(parts)}"


def _trigger(trigger: Trigger) -> str:
    ((key, value),) = trigger_document(trigger).items()
    return "" if key == "type" else f" --{key} {shlex.quote(str(value))}"


def _effect(ledger: Ledger, done: dict[str, Any], which: str) -> str:
    if done.get("when") is None:
        return " It has no schedule yet: it waits to be given one."
    if done["enabled"] is False:
        return f" {_capital(done['when'])}; it is off until it is enabled."
    at = done["next_run_at"]
    following = f" {which} run {until_words(parse_moment(at), ledger.now, ledger.zone)}." if at else ""
    return f" {_capital(done['when'])}.{following}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
