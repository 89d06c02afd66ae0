"""What `create` and `update` were asked for, in the keys of a file, so that a file's checks and words apply to it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.app import detect_system_zone
from herdbeat.config.find import find_config, find_config_in_folder
from herdbeat.config.kinds import is_agentd_folder
from herdbeat.config.making import InlineSpec, load_inline
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import ConfigError, Conflict, NotFound, UsageError, did_you_mean_suffix, truncate_for_message
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs, closest_match
from herdbeat.faces.cli.future import parse_future_time
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.options import Option
from herdbeat.faces.cli.world import Context
from herdbeat.moments import format_timestamp
from herdbeat.store.base import TargetRow
from herdbeat.store.opening import open_audit

if TYPE_CHECKING:
    from herdbeat.domain.schedule import Schedule
    from herdbeat.domain.target import Target

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
    targets = list_targets(handle)
    known = targets.get(target)
    keys = _target_keys(args)
    if known is not None and keys:
        raise Conflict(
            f'There is already a target "{target}".',
            hint=f"Leave {_format_target_flags(args)} out, or choose another name.",
        )
    document = schedule if schedule is not None else schedule_document(args, handle)
    if known is None and document is not None and not keys:
        suggestion = did_you_mean_suffix(closest_match(target, targets))
        raise NotFound(
            f'There is no target "{truncate_for_message(target)}"{suggestion}',
            hint="Correct the name, or say what it is: --command, --url, --call or --runtime.",
        )
    kind = TargetKind(known.kind) if known is not None else _target_kind(args)
    if known is None and kind is TargetKind.AGENT and document is None and args.value(flags.PROMPT):
        keys["default_prompt"] = args.value(flags.PROMPT)
    if known is not None and document is None:
        raise UsageError("The schedule has no trigger.", hint="Write --every 1h, --cron EXPR or --at TIME.")
    return InlineSpec(kind=kind, target=target, keys=None if known is not None else keys, name=name, schedule=document)


def load_target_and_schedule(
    inline_spec: InlineSpec, args: ParsedArgs, context: Context
) -> "tuple[Target, Schedule | None]":
    """Raises UsageError for what is wrong with it, in the words of a file."""
    wanted = args.value(flags.CONFIG)
    found = find_config(context.folder, context.environ, None if wanted is None else Path(wanted))
    if found is None:
        raise ConfigError([])
    config_path = found if not found.is_dir() or is_agentd_folder(found) else find_config_in_folder(found) or found
    zone = detect_system_zone(context.environ)
    return load_inline(inline_spec, config_path, environ=context.environ, system_zone=zone, base=context.folder)


def schedule_document(args: ParsedArgs, handle: FleetHandle) -> dict[str, object] | None:
    """The trigger, the prompt and the zone as a file would say them; None without a trigger."""
    chosen = [each for each in TRIGGER_FLAGS if args.value(each) is not None]
    if len(chosen) > 1:
        first, second = chosen[0].names[-1], chosen[1].names[-1]
        raise UsageError(f"{first} and {second} exclude each other.", hint="Keep the one you mean.")
    if not chosen:
        return None
    found: dict[str, object] = {chosen[0].key: args.value(chosen[0])}
    if chosen[0] is flags.AT:
        found["at"] = format_timestamp(parse_future_time(str(found["at"]), handle.now, handle.zone))
    if args.value(flags.PROMPT) is not None:
        found["prompt"] = args.value(flags.PROMPT)
    if args.value(flags.ZONE) is not None:
        found["timezone"] = args.value(flags.ZONE)
    return found


def trigger_document(trigger: Trigger) -> dict[str, object]:
    """A trigger that is stored, as a file would say it."""
    options = trigger.options()
    for name, key in (("every", "every"), ("expression", "cron"), ("run_at", "at")):
        if name in options:
            return {key: options[name]}
    return {"type": trigger.kind.value}


def list_targets(handle: FleetHandle) -> dict[str, TargetRow]:
    """Every target in the ledger, by name."""
    if handle.reader is None:
        return {}
    found = open_audit(handle.path).read_transaction(lambda tx: tx.targets())
    return {name: row for name, (_, row) in found.items()}


def _target_kind(args: ParsedArgs) -> TargetKind:
    return next((kind for option, kind in _KIND_BY_FLAG.items() if args.value(option) is not None), TargetKind.AGENT)


def _target_keys(args: ParsedArgs) -> dict[str, object]:
    chosen = _target_flags(args)
    if len(chosen) > 1 and set(chosen) != {flags.RUNTIME, flags.COMMAND}:
        raise UsageError(f"{_format_target_flags(args)} exclude each other.", hint="Keep the one you mean.")
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
