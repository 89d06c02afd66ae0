"""What `create` and `update` were asked for, in the keys of a file, so that a file's checks and words apply to it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.app import system_zone
from herdbeat.config.find import config_in, find_config
from herdbeat.config.kinds import is_agentd_folder
from herdbeat.config.making import Asked, read_asked
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import ConfigError, Conflict, NotFound, UsageError, ending, shown
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given, guess
from herdbeat.faces.cli.future import read_future
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.options import Option
from herdbeat.faces.cli.world import World
from herdbeat.moments import format_moment
from herdbeat.store.base import TargetRow
from herdbeat.store.opening import audit_at

if TYPE_CHECKING:
    from herdbeat.domain.schedule import Schedule
    from herdbeat.domain.target import Target

TRIGGERS = (flags.EVERY, flags.CRON, flags.AT)
_KINDS = {
    flags.RUNTIME: TargetKind.AGENT,
    flags.COMMAND: TargetKind.COMMAND,
    flags.URL: TargetKind.ENDPOINT,
    flags.CALL: TargetKind.CALLABLE,
}


def asked_of(given: Given, ledger: Ledger, target: str, name: str, schedule: dict[str, object] | None = None) -> Asked:
    """A target that is there is taken as it is; a new one is what its options say, or an agent."""
    targets = target_rows(ledger)
    known = targets.get(target)
    keys = _target_keys(given)
    if known is not None and keys:
        raise Conflict(
            f'There is already a target "{target}".', hint=f"Leave {_written(given)} out, or choose another name."
        )
    document = schedule if schedule is not None else written_schedule(given, ledger)
    if known is None and document is not None and not keys:
        near = ending(guess(target, targets))
        raise NotFound(
            f'There is no target "{shown(target)}"{near}',
            hint="Correct the name, or say what it is: --command, --url, --call or --runtime.",
        )
    kind = TargetKind(known.kind) if known is not None else _kind(given)
    if known is None and kind is TargetKind.AGENT and document is None and given.value(flags.PROMPT):
        keys["default_prompt"] = given.value(flags.PROMPT)
    if known is not None and document is None:
        raise UsageError("The schedule has no trigger.", hint="Write --every 1h, --cron EXPR or --at TIME.")
    return Asked(kind=kind, target=target, keys=None if known is not None else keys, name=name, schedule=document)


def values_of(asked: Asked, given: Given, world: World) -> "tuple[Target, Schedule | None]":
    """Raises UsageError for what is wrong with it, in the words of a file."""
    wanted = given.value(flags.CONFIG)
    found = find_config(world.folder, world.environ, None if wanted is None else Path(wanted))
    if found is None:
        raise ConfigError([])
    inside = found if not found.is_dir() or is_agentd_folder(found) else config_in(found) or found
    zone = system_zone(world.environ)
    return read_asked(asked, inside, environ=world.environ, system_zone=zone, base=world.folder)


def written_schedule(given: Given, ledger: Ledger) -> dict[str, object] | None:
    """The trigger, the prompt and the zone as a file would say them; None without a trigger."""
    chosen = [each for each in TRIGGERS if given.value(each) is not None]
    if len(chosen) > 1:
        first, second = chosen[0].names[-1], chosen[1].names[-1]
        raise UsageError(f"{first} and {second} exclude each other.", hint="Keep the one you mean.")
    if not chosen:
        return None
    found: dict[str, object] = {chosen[0].key: given.value(chosen[0])}
    if chosen[0] is flags.AT:
        found["at"] = format_moment(read_future(str(found["at"]), ledger.now, ledger.zone))
    if given.value(flags.PROMPT) is not None:
        found["prompt"] = given.value(flags.PROMPT)
    if given.value(flags.ZONE) is not None:
        found["timezone"] = given.value(flags.ZONE)
    return found


def trigger_document(trigger: Trigger) -> dict[str, object]:
    """A trigger that is stored, as a file would say it."""
    options = trigger.options()
    for name, key in (("every", "every"), ("expression", "cron"), ("run_at", "at")):
        if name in options:
            return {key: options[name]}
    return {"type": trigger.kind.value}


def target_rows(ledger: Ledger) -> dict[str, TargetRow]:
    """Every target in the ledger, by name."""
    if ledger.reader is None:
        return {}
    found = audit_at(ledger.path).peek(lambda tx: tx.targets())
    return {name: row for name, (_, row) in found.items()}


def _kind(given: Given) -> TargetKind:
    return next((kind for option, kind in _KINDS.items() if given.value(option) is not None), TargetKind.AGENT)


def _target_keys(given: Given) -> dict[str, object]:
    chosen = _chosen(given)
    if len(chosen) > 1 and set(chosen) != {flags.RUNTIME, flags.COMMAND}:
        raise UsageError(f"{_written(given)} exclude each other.", hint="Keep the one you mean.")
    keys: dict[str, object] = {each.key: given.value(each) for each in chosen}
    if "command" in keys:
        keys["command"] = _words(str(keys["command"]))
    return keys


def _chosen(given: Given) -> list[Option]:
    return [option for option in _KINDS if given.value(option) is not None]


def _written(given: Given) -> str:
    return " and ".join(option.names[-1] for option in _chosen(given))


def _words(text: str) -> list[str]:
    """As a shell would part them; but nothing is expanded, and no shell runs it."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--command {shown(text)}: {error}.", hint="Close the quotes.") from error
