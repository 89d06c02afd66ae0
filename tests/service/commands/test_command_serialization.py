"""Commands and results on their way through the control socket and back."""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from tests.support.command_samples import COMMANDS, RESULTS
from tests.support.schedule_changes import TEN, YOU

from herdbeat.errors import UsageError
from herdbeat.service.commands import dispatch as execution
from herdbeat.service.commands.base import (
    COMMAND_TYPES,
    Actor,
    CancelSchedules,
    Command,
    Forbidden,
    HintSchedules,
    HoldCommand,
    ImportState,
    PauseSchedules,
    PruneHistory,
    ScheduleCommand,
    Scope,
    SelfCommand,
    StateEntry,
    command_from_json,
    command_to_json,
    merge_results,
    result_from_json,
    result_to_json,
)

ABSTRACT = {ScheduleCommand, HoldCommand, SelfCommand}


def command_types(parent: type[Command[Any]] = Command) -> Iterator[type[Command[Any]]]:
    for each in parent.__subclasses__():
        yield from command_types(each)
        # A dataclass with slots is made twice, and the first one stays a subclass until it is collected.
        if each not in ABSTRACT and "__slots__" in vars(each):
            yield each


def test_every_command_has_its_word_its_handler_its_sample_and_a_result_with_a_sample() -> None:
    found = set(command_types())

    assert found == set(COMMAND_TYPES.values())
    assert {type(each) for each in COMMANDS} == found
    assert {each.result_type for each in found} == set(RESULTS)
    for command_type in found - {PruneHistory}:  # which is many transactions, and changes no schedule
        assert callable(execution._load_handler(command_type))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.kind)
def test_a_command_goes_through_the_socket_unchanged(command: Command[Any]) -> None:
    assert command_from_json(json.loads(json.dumps(command_to_json(command)))) == command


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.kind)
def test_a_result_comes_back_unchanged_and_with_every_field(command: Command[Any]) -> None:
    result = RESULTS[command.result_type]

    sent = json.loads(json.dumps(result_to_json(result)))

    assert result_from_json(command, sent) == result
    assert list(sent) == [each.name for each in fields(result)]


@pytest.mark.parametrize(
    "command",
    [
        PauseSchedules(),
        HintSchedules(schedules=(1,), every=0.5),
        HintSchedules(schedules=(1,), at=TEN),
        ImportState(states=(StateEntry(agent="a", name="b"),)),
    ],
)
def test_fields_with_their_default_survive_the_round_trip(command: Command[Any]) -> None:
    assert command_from_json(json.loads(json.dumps(command_to_json(command)))) == command


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "dance"},
        {"kind": "pause", "until": "soon"},
        {"kind": "pause", "until": 5},
        {"kind": "pause", "colour": "red"},
        {"kind": "pause", "schedules": ["one"]},
        {"kind": "hint", "every": "fast"},
        {"kind": "hint", "every": [1]},
        {"kind": "hint", "every": 10**400},
        {"kind": "retry"},
        {"kind": "backfill", "schedule": 1, "start": "then", "end": "now"},
        {"kind": "make", "what": "dance", "target": "a"},
        {"kind": "make", "what": "add"},
        {"kind": "remember", "states": [1]},
        {"kind": "remember", "states": [["a"]]},
    ],
)
def test_an_invalid_command_raises_a_usage_error(data: object) -> None:
    with pytest.raises(UsageError) as caught:
        command_from_json(data)

    assert caught.value.hint


def test_an_actor_goes_through_the_socket_with_its_scopes() -> None:
    actor = Actor(name=YOU, scopes=frozenset({Scope.READ, Scope.TRIGGER}))

    assert Actor.from_json(json.loads(json.dumps(actor.to_json()))) == actor


@pytest.mark.parametrize("data", [None, [], {}, {"name": "", "scopes": []}, {"name": YOU}, {"name": 7, "scopes": []}])
def test_an_actor_needs_a_name_and_scopes(data: object) -> None:
    with pytest.raises(UsageError):
        Actor.from_json(data)


def test_an_unknown_scope_allows_nothing() -> None:
    assert Actor.from_json({"name": YOU, "scopes": ["everything", "read"]}).scopes == {Scope.READ}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.kind)
def test_an_actor_without_the_scope_is_refused(command: Command[Any]) -> None:
    reader = Actor(name="token:ci", scopes=frozenset(Scope) - {command.scope})

    with pytest.raises(Forbidden, match="token:ci is not allowed"):
        execution.require_scope(reader, command)

    execution.require_scope(Actor(name="token:ci", scopes=frozenset({command.scope})), command)


def test_a_bulk_command_is_split_and_its_results_are_put_together() -> None:
    command = CancelSchedules(schedules=tuple(range(1_201)), reason="enough")
    one = RESULTS[CancelSchedules.result_type]

    parts = list(command.split())

    assert [len(each.schedules) for each in parts] == [500, 500, 201]
    assert {each.reason for each in parts} == {"enough"}
    assert len(merge_results([one, one, one]).items) == 3
    assert list(PauseSchedules(schedules=(1,)).split()) == [PauseSchedules(schedules=(1,))]
