"""What `doctor` says about bubblewrap, container engines and git: it asks the programs themselves."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.isolation import ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.service.maintenance.doctor import DoctorFinding
from herdbeat.service.maintenance.doctor.isolation import check_git, check_isolation

BWRAP = IsolationSpec(type=IsolationType.BWRAP)
DOCKER = IsolationSpec(type=IsolationType.DOCKER, container=ContainerSettings())


def check(folder: Path, isolation: IsolationSpec | None = None, **programs: str) -> list[DoctorFinding]:
    """Check a fleet of two agents with worktrees on a machine that has only these programs."""
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    worktree = WorkspaceSpec(type=WorkspaceType.WORKTREE)
    spec = AgentSpec(runtime="claude", working_directory=".", isolation=isolation, workspace=worktree)
    fleet = Fleet(
        name="f",
        zone=ZoneInfo("UTC"),
        store="",
        server=ServerSettings(host="127.0.0.1", port=1),
        home=str(folder),
        targets=(Target(name="a", spec=spec), Target(name="b", spec=spec)),
        schedules=(),
    )
    environ = {"PATH": str(folder)}
    return [*check_isolation(fleet, environ), *(check_git(fleet, environ) if isolation is None else ())]


def test_bubblewrap_that_makes_a_sandbox_is_well_and_asked_once(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, BWRAP, bwrap=f'echo "$@" >> {tmp_path}/asked')

    assert (finding.level, finding.subject, finding.text) == ("well", "bwrap", "can isolate 2 agents")
    assert (tmp_path / "asked").read_text(encoding="utf-8").count("--unshare-all") == 1


def test_missing_user_namespaces_are_a_problem_with_the_setting_that_allows_them(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, BWRAP, bwrap='echo "bwrap: No permissions to create a new namespace" >&2; exit 1')

    assert finding.level == "problem"
    assert "No permissions to create a new namespace): 2 agents will not run" in finding.text
    assert "kernel.unprivileged_userns_clone=1" in finding.fix


@pytest.mark.parametrize(("isolation", "program"), [(BWRAP, "bubblewrap"), (DOCKER, "Docker or Podman")])
def test_a_missing_program_is_a_problem_that_names_what_to_install(
    tmp_path: Path, isolation: IsolationSpec, program: str
) -> None:
    (finding,) = check(tmp_path, isolation)

    assert (finding.level, "on the PATH: 2 agents will not run" in finding.text) == ("problem", True)
    assert finding.fix.startswith(f"Install {program}")


def test_an_engine_that_is_not_running_is_a_problem(tmp_path: Path) -> None:
    script = (
        'case "$1" in --version) echo "Docker version 27";; *) echo "Cannot connect to the daemon" >&2; exit 1;; esac'
    )

    (finding,) = check(tmp_path, DOCKER, docker=script)

    text = "docker info failed: Cannot connect to the daemon: 2 agents will not run"
    assert (finding.level, finding.subject, finding.text) == ("problem", "docker", text)
    assert finding.fix.startswith("Start the container engine")


def test_an_engine_that_answers_is_well(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, DOCKER, docker='echo "Docker version 27"')

    assert (finding.level, finding.text) == ("well", "can isolate 2 agents")


@pytest.mark.parametrize(
    ("version", "level"), [("2.39.5 (Apple Git-154)", "well"), ("2.9.1", "problem"), ("of my own", "well")]
)
def test_git_must_be_new_enough_for_worktrees(tmp_path: Path, version: str, level: str) -> None:
    (finding,) = check(tmp_path, git=f'echo "git version {version}"')

    assert (finding.level, finding.subject) == (level, "git")
    assert version in finding.text


def test_worktrees_without_git_are_a_problem(tmp_path: Path) -> None:
    (finding,) = check(tmp_path)

    assert (finding.level, finding.text) == ("problem", "There is no git on the PATH: 2 agents will not run")
    assert finding.fix == "Install git 2.17 or newer, or write workspace: shared."
