"""What the doctor says of the programs, modules and variables that targets need."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.schedule_builders import make_fleet, make_schedule

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import AgentSpec, CallableSpec, CommandSpec, Target, TargetSpec
from herdbeat.service.maintenance.doctor import FindingLevel
from herdbeat.service.maintenance.doctor.programs import check_environment, check_modules, check_programs

ENVIRON = {"PATH": "/usr/bin:/bin"}


def fleet_of(folder: Path, *specs: TargetSpec) -> Fleet:
    targets = tuple(Target(name=f"t{number}", spec=spec) for number, spec in enumerate(specs))
    return replace(make_fleet(make_schedule("t0"), targets=targets), home=str(folder))


def shell(*words: str, env: tuple[str, ...] = ()) -> CommandSpec:
    return CommandSpec(command=words, working_directory="/", env=env)


def test_programs_that_are_there_are_one_line(tmp_path: Path) -> None:
    found = list(check_programs(fleet_of(tmp_path, shell("ls"), shell("sh")), ENVIRON))

    assert [(each.level, each.text) for each in found] == [(FindingLevel.OK, "those of 2 targets are there")]


def test_a_missing_program_is_reported_once_with_all_targets_that_need_it(tmp_path: Path) -> None:
    agent = AgentSpec(runtime="cli", working_directory="/")

    found = list(check_programs(fleet_of(tmp_path, agent, agent, shell("ls")), {"PATH": str(tmp_path)}))

    assert [each.subject for each in found] == ["claude", "ls"]
    assert found[0].text == "claude is not on the PATH: 2 targets (t0, t1) cannot run"
    assert "claude-code" in found[0].fix


@pytest.mark.parametrize(("mode", "count"), [(0o755, 0), (0o644, 1)])
def test_a_script_counts_from_the_folder_of_its_target_and_must_be_executable(
    tmp_path: Path, mode: int, count: int
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(mode)
    spec = CommandSpec(command=("./job.sh",), working_directory=str(tmp_path))

    found = [each for each in check_programs(fleet_of(tmp_path, spec), ENVIRON) if each.level is FindingLevel.PROBLEM]

    assert len(found) == count


def test_a_module_is_looked_for_beside_the_fleet_and_never_imported(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("raise SystemExit('imported')\n")
    fleet = fleet_of(tmp_path, CallableSpec(call="jobs:tidy"), CallableSpec(call="nowhere.deep:tidy"))

    found = list(check_modules(fleet, []))

    assert [each.text for each in found] == ["There is no module nowhere.deep: t1 cannot run"]


def test_a_variable_that_is_not_set_is_warned_about(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, shell("ls", env=("TOKEN", "PATH")))

    found = list(check_environment(fleet, ENVIRON))

    assert [(each.level, each.text) for each in found] == [
        (FindingLevel.WARNING, "TOKEN is not set, and t0 asks for it")
    ]


@pytest.mark.parametrize("name", ["builtins:bool", "sys:intern", "zipimport:zipimporter"])
def test_a_function_of_python_itself_is_not_called_a_missing_module(tmp_path: Path, name: str) -> None:
    assert not list(check_modules(fleet_of(tmp_path, CallableSpec(call=name)), []))


def test_a_script_in_a_relative_folder_counts_from_the_folder_of_the_fleet(tmp_path: Path) -> None:
    script = tmp_path / "desk" / "job.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    there, gone = (CommandSpec(command=("./job.sh",), working_directory=folder) for folder in ("desk", "."))

    found = list(check_programs(fleet_of(tmp_path, there, gone), ENVIRON))

    assert [each.text for each in found] == ["./job.sh is not there: t1 cannot run"]
