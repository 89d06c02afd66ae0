"""What was made, changed or removed, in words; and the command that takes it back."""

import shlex
from collections.abc import Iterator
from typing import Any

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.trigger import Trigger
from herdbeat.faces.cli.asked import trigger_document
from herdbeat.faces.cli.control_words import format_until
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import format_count
from herdbeat.faces.cli.terminal import printable
from herdbeat.moments import parse_timestamp
from herdbeat.service.making import NewSchedule, UpsertSchedule


def result_lines(handle: FleetHandle, command: UpsertSchedule, result: dict[str, Any], undo: str) -> Iterator[str]:
    label = printable(command.label)
    match command.what:
        case ChangeKind.ADD:
            kind = f", a new {command.new_target.kind}" if command.new_target is not None else ""
            yield f"Created {label}{kind}.{_describe_effect(handle, result, 'First')}"
        case ChangeKind.EDIT:
            yield f"Updated {label}.{_describe_effect(handle, result, 'Next')}"
        case _:
            removed = [each for each in result["removed"] if "/" in each]
            many = f" with {format_count(len(removed), 'schedule')}" if command.name is None and removed else ""
            yield f"Deleted {label}{many}. Its history stays: herdbeat beats {label}"
    if undo:
        yield f"undo: {printable(undo)}"


def create_command(label: str, stored: NewSchedule) -> str:
    """The command that makes a schedule of a target that is there."""
    prompt = f" --prompt {shlex.quote(stored.brief.prompt)}" if stored.brief.prompt else ""
    return f"herdbeat create {label}{_format_trigger_flag(stored.plan.trigger)}{prompt}"


def update_command(label: str, before: NewSchedule, after: NewSchedule) -> str:
    """The command that puts back what was changed."""
    parts = []
    if before.plan.trigger != after.plan.trigger:
        parts.append(_format_trigger_flag(before.plan.trigger))
    if before.plan.policies.zone != after.plan.policies.zone:
        parts.append(f" --tz {before.plan.policies.zone.key}")
    if before.brief.prompt != after.brief.prompt:
        parts.append(f" --prompt {shlex.quote(before.brief.prompt or '')}")
    if before.enabled != after.enabled:
        parts.append(f" --enabled {str(before.enabled).lower()}")
    return f"herdbeat update {label}{''.join(parts)}"


def _format_trigger_flag(trigger: Trigger) -> str:
    ((key, value),) = trigger_document(trigger).items()
    return "" if key == "type" else f" --{key} {shlex.quote(str(value))}"


def _describe_effect(handle: FleetHandle, result: dict[str, Any], which: str) -> str:
    if result.get("when") is None:
        return " It has no schedule yet: it waits to be given one."
    if result["enabled"] is False:
        return f" {_capitalize(result['when'])}; it is off until it is enabled."
    at = result["next_run_at"]
    following = f" {which} run {format_until(parse_timestamp(at), handle.now, handle.zone)}." if at else ""
    return f" {_capitalize(result['when'])}.{following}"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
