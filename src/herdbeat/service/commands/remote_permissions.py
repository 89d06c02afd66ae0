"""What a remote actor may change, beside its scopes.

A client of the server can start and hold what the fleet has, and add schedules to it. It can never say which
program runs: that would hand the machine to every holder of a token. An agent reaches its own schedules.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from herdbeat.domain.codec import from_json
from herdbeat.domain.references import VARIABLES_KEY, list_variables
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import TargetKind
from herdbeat.errors import truncate_for_message
from herdbeat.redaction import find_secrets
from herdbeat.service.commands.base import (
    Actor,
    BackfillSchedule,
    CancelRuns,
    CancelSchedules,
    Command,
    DeleteSchedule,
    Forbidden,
    RetryRuns,
    ScheduleCommand,
    Scope,
    SelfCommand,
    TriggerSchedule,
    UpsertSchedule,
)
from herdbeat.store.base import Transaction
from herdbeat.triggers import load_trigger


def check_reach(tx: Transaction, actor: Actor, command: Command[Any]) -> None:
    """Raises Forbidden."""
    if isinstance(command, UpsertSchedule):
        _check_new_target(actor, command)
        _check_moved_secrets(tx, actor, command)
        _check_prompt(tx, actor, command)
    if isinstance(command, TriggerSchedule) and command.prompt and Scope.ADMIN not in actor.scopes:
        raise _build_prompt_error(actor)
    if actor.target:
        _check_target(tx, actor, command)


def _check_new_target(actor: Actor, command: UpsertSchedule) -> None:
    new = command.new_target
    if new is not None and new.kind != TargetKind.ENDPOINT:
        what = f'the {new.kind} "{truncate_for_message(command.target)}"'
        raise Forbidden(
            f"{truncate_for_message(actor.name)} cannot create {what}.",
            hint="Through the server only endpoints can be created. Define it in the fleet file, or on the machine.",
        )


def _check_moved_secrets(tx: Transaction, actor: Actor, command: UpsertSchedule) -> None:
    """An endpoint that moves to another host takes no secret with it: who may change its address would learn it."""
    new, known = command.new_target, tx.targets().get(command.target) if command.new_target else None
    if new is None or known is None or known[1].kind != TargetKind.ENDPOINT:
        return
    stored = json.loads(known[1].spec)
    if _find_origin(stored) != _find_origin(new.spec) and _list_secrets(stored) & _list_secrets(new.spec):
        raise Forbidden(
            f"{truncate_for_message(actor.name)} cannot send the secrets of {command.target} to another host.",
            hint="Delete the endpoint and create it anew, or change it on its machine.",
        )


def _find_origin(spec: Mapping[str, object]) -> tuple[str, str]:
    parts = urlsplit(str(spec.get("url", "")))
    return parts.scheme, parts.netloc.lower()


def _list_secrets(spec: Mapping[str, object]) -> set[str]:
    """Return the secrets in a spec, and the names of the variables that it refers to."""
    texts = {key: value for key, value in spec.items() if key != VARIABLES_KEY}
    return {*find_secrets(texts), *(list_variables(json.dumps(texts)) if spec.get(VARIABLES_KEY) else ())}


def _check_prompt(tx: Transaction, actor: Actor, command: UpsertSchedule) -> None:
    """A prompt is what an agent does next: setting or changing one takes an administrator."""
    if command.new_schedule is None or Scope.ADMIN in actor.scopes:
        return
    prompt = command.new_schedule.brief.prompt
    if prompt and prompt != _read_stored_prompt(tx, command):
        raise _build_prompt_error(actor)


def _build_prompt_error(actor: Actor) -> Forbidden:
    """A prompt for one run is one, too."""
    return Forbidden(
        f"{truncate_for_message(actor.name)} is not allowed to set a prompt.",
        hint=f'Setting a prompt needs the scope "{Scope.ADMIN}".',
    )


def _read_stored_prompt(tx: Transaction, command: UpsertSchedule) -> str | None:
    known = tx.targets().get(command.target)
    stored = tx.schedule_list_by_target([known[0]]).get((known[0], command.name or "")) if known is not None else None
    return None if stored is None else from_json(RunSpec, json.loads(stored[1].brief), load_trigger).prompt


def _check_target(tx: Transaction, actor: Actor, command: Command[Any]) -> None:
    labels = _list_subject_labels(tx, command)
    if labels is None or any(each != actor.target and not each.startswith(f"{actor.target}/") for each in labels):
        own = truncate_for_message(actor.target)
        raise Forbidden(
            f"{truncate_for_message(actor.name)} can change only the schedules of {own}.",
            hint="Use a token with the scope operate.",
        )


def _list_subject_labels(tx: Transaction, command: Command[Any]) -> Iterable[str] | None:
    """Return the labels of the schedules that a command is about; None for a command about the whole fleet."""
    match command:
        case ScheduleCommand() | CancelSchedules():
            return _list_labels(tx, command.schedules)
        case TriggerSchedule() | BackfillSchedule() | SelfCommand():
            return _list_labels(tx, [command.schedule])
        case CancelRuns() | RetryRuns():
            found = (tx.last_attempt(run) for run in command.runs)
            return _list_labels(tx, [each.schedule_id for each in found if each is not None])
        case UpsertSchedule() if command.new_target is None:
            return [command.target]
        case DeleteSchedule() if command.name is not None:
            return [command.target]
        case _:
            return None


def _list_labels(tx: Transaction, schedule_ids: Iterable[int]) -> list[str]:
    return [each.label for each in tx.schedule_get_enabled(schedule_ids).values()]
