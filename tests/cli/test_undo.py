"""The printed undo command of a change. test_control checks that it works when pasted."""

from typing import Any

import pytest

from herdbeat.cli.dispatch import MAX_NAMED_SCHEDULES, undo_command
from herdbeat.cli.parser import parse_args
from herdbeat.domain.change import ChangeKind
from herdbeat.service.commands.base import COMMAND_TYPES, ScheduleChange, ScheduleChanges, ScheduleCommand

GOES_ON: dict[str, Any] = {"paused": False}
HELD: dict[str, Any] = {"paused": True, "until": None, "by": "human:you", "reason": ""}
UNTIL_SIX = {**HELD, "until": "2026-03-26T18:00:00Z", "reason": "it's late"}


def undo_line(what: ChangeKind, *before: dict[str, Any]) -> str:
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
def test_an_undo_restores_the_state_before_the_change(what: ChangeKind, before: dict[str, Any], undo: str) -> None:
    assert undo_line(what, before) == undo


def test_schedules_with_equal_previous_states_share_one_undo_command() -> None:
    assert undo_line(ChangeKind.RESUME, HELD, HELD) == "herdbeat pause job0 job1"
    assert undo_line(ChangeKind.PAUSE, GOES_ON, HELD, GOES_ON) == "herdbeat resume job0 job2 && herdbeat pause job1"


def test_too_many_schedules_with_different_states_have_no_undo() -> None:
    assert undo_line(ChangeKind.PAUSE, *[GOES_ON] * MAX_NAMED_SCHEDULES, HELD) == ""


def test_a_command_without_changes_has_no_undo() -> None:
    assert undo_line(ChangeKind.PAUSE) == ""
