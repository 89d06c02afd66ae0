"""`herdbeat create`, `update` and `delete`: schedules without a file."""

import json
from dataclasses import replace
from typing import Any

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.origin import is_unmanaged
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.asked import (
    TRIGGER_FLAGS,
    build_inline_spec,
    list_targets,
    load_target_and_schedule,
    schedule_document,
    trigger_document,
)
from herdbeat.faces.cli.changing import format_config_flag
from herdbeat.faces.cli.crew import describe_effect
from herdbeat.faces.cli.ledger import FleetHandle, open_fleet_handle
from herdbeat.faces.cli.making_words import create_command, result_lines, update_command
from herdbeat.faces.cli.person import current_actor, parse_reason
from herdbeat.faces.cli.reaching import dispatch_request
from herdbeat.faces.cli.world import Context
from herdbeat.moments import parse_zone
from herdbeat.service.making import (
    NewSchedule,
    UpsertRejected,
    UpsertSchedule,
    build_new_schedule,
    build_new_target,
    require_unmanaged,
    upsert_offline,
    upsert_to_json,
)
from herdbeat.service.questions import find_schedule
from herdbeat.service.selecting import split_selector
from herdbeat.store.reader import Filter


def run_create(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        target_name, name = split_selector(args.positionals[0])
        inline_spec = build_inline_spec(args, handle, target_name, name or DEFAULT_SCHEDULE_NAME)
        target, schedule = load_target_and_schedule(inline_spec, args, context)
        command = UpsertSchedule(
            what=ChangeKind.ADD,
            who=current_actor(context),
            target=target_name,
            name=inline_spec.name if schedule is not None else None,
            new_target=build_new_target(target) if inline_spec.keys is not None else None,
            new_schedule=build_new_schedule(schedule) if schedule is not None else None,
            reason=parse_reason(args),
        )
        if args.has(flags.DRY_RUN):
            context.terminal.info(f"Would create {command.label}. Nothing was changed.")
            return 0
        return _execute(args, context, handle, command, f"herdbeat delete {command.label}")


def run_update(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        record = find_schedule(handle.require_reader(), args.positionals[0])
        require_unmanaged(record.label, record.origin)
        before = _load_stored(handle, record)
        after = _merge_update(args, context, handle, record, before)
        if after == before:
            context.terminal.info(f"{record.label} is so already. Nothing was changed.")
            return 0
        command = UpsertSchedule(
            what=ChangeKind.EDIT,
            who=current_actor(context),
            target=record.target,
            name=record.name,
            new_schedule=after,
            reason=parse_reason(args),
        )
        return _execute(args, context, handle, command, update_command(record.label, before, after))


def run_delete(args: ParsedArgs, context: Context) -> int:
    with open_fleet_handle(args, context) as handle:
        target, name = split_selector(args.positionals[0])
        row = list_targets(handle).get(target)
        if name is None and row is not None and not is_unmanaged(row.origin):
            name = DEFAULT_SCHEDULE_NAME  # a file owns the target, so only its schedule of the same name can be meant
        command = UpsertSchedule(
            what=ChangeKind.REMOVE, who=current_actor(context), target=target, name=name, reason=parse_reason(args)
        )
        return _execute(args, context, handle, command, _recreate_command(handle, command))


def _recreate_command(handle: FleetHandle, command: UpsertSchedule) -> str:
    """The command that makes a schedule again. A target as a whole is more than one command can say."""
    wanted = Filter(target=command.target, name=command.name, limit=1)
    found = handle.require_reader().schedules(wanted) if command.name is not None else []
    return create_command(found[0].label, _load_stored(handle, found[0])) if found else ""


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
        raise UsageError("Nothing is to be changed.", hint=f"Write one of {names}.")
    document = schedule_document(args, handle) or trigger_document(stored.plan.trigger)
    if args.value(flags.PROMPT) is not None:
        document["prompt"] = args.value(flags.PROMPT)
    zone = args.value(flags.ZONE)
    policies = stored.plan.policies if zone is None else replace(stored.plan.policies, zone=parse_zone(zone))
    document.setdefault("timezone", policies.zone.key)
    read = load_target_and_schedule(
        build_inline_spec(args, handle, record.target, record.name, document), args, context
    )[1]
    assert read is not None, "it has a trigger"
    enabled = args.value(flags.ENABLED)
    return NewSchedule(
        plan=replace(stored.plan, trigger=read.trigger, policies=policies),
        brief=stored.brief if args.value(flags.PROMPT) is None else replace(stored.brief, prompt=read.prompt),
        enabled=stored.enabled if enabled is None else enabled == "true",
    )


def _execute(args: ParsedArgs, context: Context, handle: FleetHandle, command: UpsertSchedule, undo: str) -> int:
    undo = f"{undo}{format_config_flag(args)}" if undo else ""
    request = {"do": "make", "making": upsert_to_json(command)}
    refusals: list[UpsertRejected] = []

    def offline() -> dict[str, Any]:
        try:
            return dict(upsert_offline(handle.path, handle.now, command))
        except UpsertRejected as error:
            refusals.append(error)  # not raised here: it would be taken for a lock, and tried for seconds
            return {}

    result, has_live_node = dispatch_request(handle, request, offline)
    if refusals:
        raise refusals[0]
    if args.has(flags.JSON):
        context.terminal.print(json.dumps({**result, "served": has_live_node, "undo": undo}, ensure_ascii=False))
        return 0
    for line in result_lines(handle, command, result, undo):
        context.terminal.print(line)
    if not has_live_node:
        context.terminal.info(describe_effect(handle))
    return 0
