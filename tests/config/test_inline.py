"""Targets and schedules without a file, judged as if they stood in one."""

from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.inline import InlineSpec, load_inline
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CommandSpec, CreatedVia, Target, TargetKind
from herdbeat.errors import UsageError

FLEET = """\
version: 1
timezone: Europe/Berlin
defaults: { timeout: 7m }
commands: [{ name: a, command: [ls], every: 5m }]
"""


def read(folder: Path, asked: InlineSpec, text: str = FLEET) -> tuple[Target, Schedule | None]:
    (folder / "herdbeat.yaml").write_text(text)
    path = folder / "herdbeat.yaml"
    return load_inline(asked, path, environ={}, system_zone=ZoneInfo("UTC"), base=folder)


def a_command(**schedule: object) -> InlineSpec:
    keys = {"command": ["echo", "a b"]}
    return InlineSpec(kind=TargetKind.COMMAND, target="tidy", keys=keys, name="default", schedule=schedule or None)


def test_an_inline_target_has_the_defaults_and_the_zone_of_the_fleet_and_its_origin(tmp_path: Path) -> None:
    target, schedule = read(tmp_path, a_command(every="1h"))

    assert schedule is not None
    assert (schedule.policies.timeout, schedule.policies.zone.key) == (timedelta(minutes=7), "Europe/Berlin")
    assert (schedule.id, schedule.origin, target.origin) == ("tidy/default", CreatedVia.CLI, CreatedVia.CLI)
    assert isinstance(target.spec, CommandSpec)
    assert target.spec.command == ("echo", "a b")


def test_a_schedule_of_an_existing_target_needs_only_the_kind_of_the_target(tmp_path: Path) -> None:
    asked = InlineSpec(
        kind=TargetKind.ENDPOINT, target="team.health", keys=None, name="evening", schedule={"cron": "0 18 * * *"}
    )

    _, schedule = read(tmp_path, asked)

    assert schedule is not None
    assert schedule.id == "team.health/evening"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (a_command(every="5x"), '"x" is not a time unit'),
        (a_command(cron="0 25 * * *"), "hour must be 0-23"),
        (a_command(every="5m", prompt="{{tim}}"), "did you mean {{time}}"),
        (a_command(), "has no trigger"),
        (InlineSpec(kind=TargetKind.AGENT, target="a b", keys={}, name="x"), '"a b" is not a valid name'),
    ],
)
def test_an_inline_error_has_the_message_that_a_file_would_get(tmp_path: Path, asked: InlineSpec, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("{", r"\{")):
        read(tmp_path, asked)


def test_an_error_in_the_fleet_file_does_not_reject_an_inline_target(tmp_path: Path) -> None:
    _, schedule = read(tmp_path, a_command(every="1h"), FLEET.replace("every: 5m", "every: 5x"))

    assert schedule is not None


def test_a_variable_in_a_prompt_stays_as_it_was_typed(tmp_path: Path) -> None:
    _, schedule = read(tmp_path, a_command(every="1h", prompt="Pay ${HOME}."))

    assert schedule is not None
    assert schedule.prompt == "Pay ${HOME}."
