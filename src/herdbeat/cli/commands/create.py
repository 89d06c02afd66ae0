"""`herdbeat create`, `update` and `delete`: schedules without a file."""

import json
import shlex
from dataclasses import replace

from herdbeat.bootstrap.inline import InlineSpec, load_inline_spec
from herdbeat.cli import spec as flags
from herdbeat.cli.commands.control import format_until, run_change
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, describe_effect, format_config_flag, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, open_fleet_to_extend
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs, closest_match
from herdbeat.cli.spec import Option
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import Target, TargetKind, is_unmanaged
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import Conflict, NotFound, UsageError, did_you_mean_suffix, truncate_for_message
from herdbeat.service.commands.base import (
    DeletedSchedules,
    DeleteSchedule,
    DisableSchedules,
    EnableSchedules,
    NewSchedule,
    ScheduleCommand,
    UpsertedSchedule,
    UpsertSchedule,
)
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.commands.fleet import (
    build_new_schedule,
    build_new_target,
    compute_version,
    list_targets,
    repeat_while_stale,
    require_unmanaged,
)
from herdbeat.service.queries.schedule_state import is_fired, resolve_condition
from herdbeat.service.queries.selectors import find_schedule, split_selector
from herdbeat.service.serialize import serialize_result
from herdbeat.time_phrases import parse_future_time
from herdbeat.timestamps import format_timestamp, parse_zone

TRIGGER_FLAGS = (flags.EVERY, flags.CRON, flags.AT)
_KIND_BY_FLAG = {
    flags.RUNTIME: TargetKind.AGENT,
    flags.COMMAND: TargetKind.COMMAND,
    flags.URL: TargetKind.ENDPOINT,
    flags.CALL: TargetKind.CALLABLE,
}


def build_inline_spec(
    args: ParsedArgs, handle: FleetHandle, target: str, name: str, schedule: dict[str, object] | None = None
) -> InlineSpec:
    """A target that is there is taken as it is; a new one is what its options say, or an agent."""
    targets = list_targets(handle.path) if handle.has_ledger else {}
    known = targets.get(target)
    keys = _target_keys(args)
    if known is not None and keys:
        hint = f"Remove {_format_target_flags(args)}, or choose another name."
        raise Conflict(f'Target "{target}" already exists.', hint=hint)
    document = schedule if schedule is not None else schedule_document(args, handle)
    if known is None and document is not None and not keys:
        suffix = did_you_mean_suffix(closest_match(target, targets))
        hint = "Correct the name, or create the target with --command, --url, --call or --runtime."
        raise NotFound(f'There is no target "{truncate_for_message(target)}"{suffix}', hint=hint)
    kind = TargetKind(known.kind) if known is not None else _target_kind(args)
    if known is None and kind is TargetKind.AGENT and document is None and args.value(flags.PROMPT):
        keys["default_prompt"] = args.value(flags.PROMPT)
    if known is not None and document is None:
        raise UsageError("The schedule has no trigger.", hint="Add --every DURATION, --cron EXPR or --at TIME.")
    return InlineSpec(kind=kind, target=target, keys=None if known is not None else keys, name=name, schedule=document)


def schedule_document(args: ParsedArgs, handle: FleetHandle) -> dict[str, object] | None:
    """The trigger, the prompt and the zone as a file would say them; None without a trigger."""
    chosen = [each for each in TRIGGER_FLAGS if args.value(each) is not None]
    if len(chosen) > 1:
        first, second = chosen[0].names[-1], chosen[1].names[-1]
        raise UsageError(f"{first} and {second} cannot be combined.", hint="Use one of them.")
    if not chosen:
        return None
    found: dict[str, object] = {chosen[0].key: args.value(chosen[0])}
    if chosen[0] is flags.AT:
        found["at"] = format_timestamp(parse_future_time(str(found["at"]), handle.now, handle.zone))
    for key, option in (("prompt", flags.PROMPT), ("timezone", flags.ZONE)):
        if args.value(option) is not None:
            found[key] = args.value(option)
    return found


def trigger_document(trigger: Trigger) -> dict[str, object]:
    """A trigger that is stored, as a file would say it."""
    options = trigger.options()
    for name, key in (("every", "every"), ("expression", "cron"), ("run_at", "at")):
        if name in options:
            return {key: options[name]}
    return {"type": trigger.kind.value}


def _load_spec(spec: InlineSpec, args: ParsedArgs, context: Context) -> tuple[Target, Schedule | None]:
    return load_inline_spec(spec, args.value(flags.CONFIG), context.environ, context.folder)


def _target_kind(args: ParsedArgs) -> TargetKind:
    return next((_KIND_BY_FLAG[option] for option in _target_flags(args)), TargetKind.AGENT)


def _target_keys(args: ParsedArgs) -> dict[str, object]:
    chosen = _target_flags(args)
    if len(chosen) > 1 and set(chosen) != {flags.RUNTIME, flags.COMMAND}:
        raise UsageError(f"{_format_target_flags(args)} cannot be combined.", hint="Use one of them.")
    keys: dict[str, object] = {each.key: args.value(each) for each in chosen}
    if "command" in keys:
        keys["command"] = _split_command(str(keys["command"]))
    return keys


def _target_flags(args: ParsedArgs) -> list[Option]:
    return [option for option in _KIND_BY_FLAG if args.value(option) is not None]


def _format_target_flags(args: ParsedArgs) -> str:
    return " and ".join(option.names[-1] for option in _target_flags(args))


def _split_command(text: str) -> list[str]:
    """As a shell would part them; but nothing is expanded, and no shell runs it."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--command {truncate_for_message(text)}: {error}.", hint="Close the quotes.") from error


def _describe_upsert(handle: FleetHandle, command: UpsertSchedule, result: UpsertedSchedule) -> str:
    label = printable(command.label)
    if command.what is ChangeKind.EDIT:
        return f"Updated {label}.{_describe_effect(handle, result, 'Next')}"
    kind = f", a new {command.new_target.kind}" if command.new_target is not None else ""
    return f"Created {label}{kind}.{_describe_effect(handle, result, 'First')}"


def _describe_delete(command: DeleteSchedule, result: DeletedSchedules) -> str:
    label = printable(command.label)
    removed = [each for each in result.removed if "/" in each]
    many = f" with {format_count(len(removed), 'schedule')}" if command.name is None and removed else ""
    return f"Deleted {label}{many}. Its history is kept: herdbeat beats {label}"


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


def _describe_effect(handle: FleetHandle, result: UpsertedSchedule, which: str) -> str:
    if result.when is None:
        return " It has no schedule yet."
    if result.enabled is False:
        return f" {_capitalize(result.when)}; disabled until it is enabled."
    following = ""
    if result.next_run_at is not None:
        following = f" {which} run {format_until(result.next_run_at, handle.now, handle.zone)}."
    return f" {_capitalize(result.when)}.{following}"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def run_create(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_to_extend(args, context)
    target_name, name = split_selector(args.positionals[0])
    inline_spec = build_inline_spec(args, handle, target_name, name or DEFAULT_SCHEDULE_NAME)
    target, schedule = _load_spec(inline_spec, args, context)
    command = UpsertSchedule(
        what=ChangeKind.ADD,
        target=target_name,
        name=inline_spec.name if schedule is not None else None,
        new_target=build_new_target(target) if inline_spec.keys is not None else None,
        new_schedule=build_new_schedule(schedule) if schedule is not None else None,
        reason=parse_reason(args),
    )
    if args.has(flags.DRY_RUN):
        return Output(notices=[f"Would create {command.label}. Nothing was changed."])
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    headline, undo = _describe_upsert(handle, command, delivery.result), f"herdbeat delete {command.label}"
    return _build_output(args, handle, delivery, headline, undo)


def run_update(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    return repeat_while_stale(lambda: _update_once(args, context, handle))


def _update_once(args: ParsedArgs, context: Context, handle: FleetHandle) -> Output:
    record = find_schedule(handle.require_reader(), args.positionals[0])
    if not is_unmanaged(record.origin) and (switch := _parse_switch(args)) is not None:
        return run_change(args, context, handle, switch)
    require_unmanaged(record.label, record.origin)
    before = _load_stored(handle, record)
    after = _merge_update(args, context, handle, record, before)
    state = resolve_condition(record, handle.now).state
    if args.value(flags.ENABLED) == "true" and after == before and is_fired(record, state):
        return run_change(args, context, handle, EnableSchedules())  # which re-arms it
    if after == before:
        return Output(notices=[f"{record.label}: no change."])
    command = UpsertSchedule(
        what=ChangeKind.EDIT,
        target=record.target,
        name=record.name,
        new_schedule=after,
        reason=parse_reason(args),
        expected=compute_version(before),
    )
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    headline, undo = _describe_upsert(handle, command, delivery.result), update_command(record.label, before, after)
    return _build_output(args, handle, delivery, headline, undo)


def _parse_switch(args: ParsedArgs) -> ScheduleCommand | None:
    """Return what `--enabled` alone means for a schedule of a file: `enable` and `disable` change it, and no file."""
    if any(args.value(each) is not None for each in (*TRIGGER_FLAGS, flags.PROMPT, flags.ZONE)):
        return None
    return {"true": EnableSchedules(), "false": DisableSchedules()}.get(args.value(flags.ENABLED) or "")


def run_delete(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    target, name = split_selector(args.positionals[0])
    row = list_targets(handle.path).get(target) if handle.has_ledger else None
    if name is None and row is not None and not is_unmanaged(row.origin):
        name = DEFAULT_SCHEDULE_NAME  # a file owns the target, so only its schedule of the same name can be intended
    command = DeleteSchedule(target=target, name=name, reason=parse_reason(args))
    undo = _recreate_command(handle, command)
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    return _build_output(args, handle, delivery, _describe_delete(command, delivery.result), undo)


def _recreate_command(handle: FleetHandle, command: DeleteSchedule) -> str:
    """The command that makes a schedule again. A target as a whole is more than one command can say."""
    if command.name is None:
        return ""
    reader = handle.require_reader()
    try:
        record = find_schedule(reader, f"{command.target}/{command.name}")
    except NotFound:
        return ""
    return create_command(record.label, _load_stored(handle, record))


def _load_stored(handle: FleetHandle, record: ScheduleRecord) -> NewSchedule:
    brief = handle.require_reader().run_specs([record.id])[record.id]
    return NewSchedule(plan=record.plan, brief=brief, enabled=record.enabled)


def _merge_update(
    args: ParsedArgs, context: Context, handle: FleetHandle, record: ScheduleRecord, stored: NewSchedule
) -> NewSchedule:
    """The stored schedule with what was asked for. Its other policies stay as they are."""
    options = (*TRIGGER_FLAGS, flags.PROMPT, flags.ENABLED, flags.ZONE)
    if not any(args.value(each) is not None for each in options):
        names = ", ".join(each.names[-1] for each in options)
        raise UsageError("Nothing to change.", hint=f"Use at least one of {names}.")
    document = schedule_document(args, handle) or trigger_document(stored.plan.trigger)
    if args.value(flags.PROMPT) is not None:
        document["prompt"] = args.value(flags.PROMPT)
    zone = args.value(flags.ZONE)
    policies = stored.plan.policies if zone is None else replace(stored.plan.policies, zone=parse_zone(zone))
    document.setdefault("timezone", policies.zone.key)
    inline_spec = build_inline_spec(args, handle, record.target, record.name, document)
    _, read = _load_spec(inline_spec, args, context)
    assert read is not None, "it has a trigger"
    enabled = args.value(flags.ENABLED)
    return NewSchedule(
        plan=replace(stored.plan, trigger=read.trigger, policies=policies),
        brief=stored.brief if args.value(flags.PROMPT) is None else replace(stored.brief, prompt=read.prompt),
        enabled=stored.enabled if enabled is None else enabled == "true",
    )


def _build_output(
    args: ParsedArgs,
    handle: FleetHandle,
    delivery: Delivery[UpsertedSchedule] | Delivery[DeletedSchedules],
    headline: str,
    undo: str,
) -> Output:
    undo = f"{undo}{format_config_flag(args)}" if undo else ""
    if args.has(flags.JSON):
        answer = {**serialize_result(delivery), "undo": undo}
        return Output(lines=[json.dumps(answer, ensure_ascii=False)])
    undo_lines = [f"undo: {printable(undo)}"] if undo else []
    return Output(lines=[headline, *undo_lines], notices=[] if delivery.has_live_node else [describe_effect(handle)])
