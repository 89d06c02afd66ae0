"""The command that takes a change back, as it is told. That it does so when it is pasted: test_control."""

from typing import Any

import pytest

from herdbeat.cli.dispatch import MAX_NAMED_SCHEDULES, undo_command
from herdbeat.cli.parser import parse_args
from herdbeat.domain.change import ChangeKind
from herdbeat.service.commands.base import COMMAND_TYPES, ScheduleChange, ScheduleChanges, ScheduleCommand

GOES_ON: dict[str, Any] = {"paused": False}
HELD: dict[str, Any] = {"paused": True, "until": None, "by": "human:you", "reason": ""}
UNTIL_SIX = {**HELD, "until": "2026-03-26T18:00:00Z", "reason": "it's late"}


def told(what: ChangeKind, *before: dict[str, Any]) -> str:
    names = [f"job{number}" for number, _ in enumerate(before)]
    items = tuple(
        ScheduleChange(schedule=name, changed=True, before=each, after={}, next_run_at=None, source=None, running=0)
        for name, each in zip(names, before, strict=True)
    )
    command = COMMAND_TYPES[what]()
    assert isinstance(command, ScheduleCommand)
    return undo_command(parse_args([what.value, *names]).args, command, ScheduleChanges(items=items))


@pytest.mark.parametrize(
    ("what", "before", "undo"),
    [
        (ChangeKind.PAUSE, GOES_ON, "herdbeat resume job0"),
        (ChangeKind.RESUME, HELD, "herdbeat pause job0"),
        (ChangeKind.RESUME, UNTIL_SIX, """herdbeat pause --until 2026-03-26T18:00:00Z --reason 'it'"'"'s late' job0"""),
        (ChangeKind.DISABLE, {"enabled": True}, "herdbeat enable job0"),
        (ChangeKind.ENABLE, {"enabled": False}, "herdbeat disable job0"),
        (ChangeKind.SKIP, {"skips": 0}, "herdbeat skip --clear job0"),
        (ChangeKind.SKIP, {"skips": 3}, "herdbeat skip --count 3 job0"),
        (ChangeKind.RESET, {"failures": 3}, ""),
    ],
)
def test_a_change_is_taken_back_to_what_stood_before(what: ChangeKind, before: dict[str, Any], undo: str) -> None:
    assert told(what, before) == undo


def test_what_stood_alike_goes_back_together_and_what_did_not_by_a_command_each() -> None:
    assert told(ChangeKind.RESUME, HELD, HELD) == "herdbeat pause job0 job1"
    assert told(ChangeKind.PAUSE, GOES_ON, HELD, GOES_ON) == "herdbeat resume job0 job2 && herdbeat pause job1"


def test_more_than_can_be_named_have_no_undo_if_they_stood_differently() -> None:
    assert told(ChangeKind.PAUSE, *[GOES_ON] * MAX_NAMED_SCHEDULES, HELD) == ""


def test_what_changed_nothing_has_no_undo() -> None:
    assert told(ChangeKind.PAUSE) == ""
