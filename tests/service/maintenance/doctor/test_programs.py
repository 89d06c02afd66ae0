"""What the doctor says of the programs, modules and variables that targets need."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.schedule_builders import make_fleet, make_schedule

from herdbeat.config.files import read_environment
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.planner import DEFAULT_PLANNER_URLS, PlannerProvider, PlannerSettings
from herdbeat.domain.target import AgentSpec, CallableSpec, CommandSpec, Target, TargetSpec
from herdbeat.domain.webhook import HookMethod, WebhookAuth
from herdbeat.service.maintenance.doctor import FindingLevel
from herdbeat.service.maintenance.doctor.programs import (
    check_environment,
    check_folders,
    check_message_secrets,
    check_modules,
    check_programs,
    check_webhook_secrets,
    keep_local_targets,
)
from herdbeat.triggers import Webhook

ENVIRON = {"PATH": "/usr/bin:/bin"}


def fleet_of(folder: Path, *specs: TargetSpec) -> Fleet:
    targets = tuple(Target(name=f"t{number}", spec=spec) for number, spec in enumerate(specs))
    return replace(make_fleet(make_schedule("t0"), targets=targets), home=str(folder))


def shell(*words: str, env: tuple[str, ...] = ()) -> CommandSpec:
    return CommandSpec(command=words, working_directory="/", env=env)


def test_programs_that_are_there_are_one_line(tmp_path: Path) -> None:
    found = list(check_programs(fleet_of(tmp_path, shell("ls"), shell("sh")), ENVIRON))

    assert [(each.level, each.text) for each in found] == [(FindingLevel.OK, "programs of 2 targets found")]


def test_a_missing_program_is_reported_once_with_all_targets_that_need_it(tmp_path: Path) -> None:
    agent = AgentSpec(runtime="cli", working_directory="/")

    found = list(check_programs(fleet_of(tmp_path, agent, agent, shell("ls")), {"PATH": str(tmp_path)}))

    assert [each.subject for each in found] == ["claude", "ls"]
    assert found[0].text == "claude is not on the PATH: 2 targets (t0, t1) cannot run"
    assert "claude-code" in found[0].fix


def test_the_program_of_an_agent_in_a_cluster_was_looked_for_on_this_machine(tmp_path: Path) -> None:
    there = AgentSpec(runtime="cli", working_directory="/srv/fleet", executor=ExecutorKind.KUBERNETES)
    here = keep_local_targets(fleet_of(tmp_path, there, shell("ls")))

    assert [each.text for each in check_programs(here, ENVIRON)] == ["programs of 1 target found"]
    assert list(check_folders(here)) == []


@pytest.mark.parametrize(("mode", "count"), [(0o755, 0), (0o644, 1)])
def test_a_script_counts_from_the_folder_of_its_target_and_must_be_executable(
    tmp_path: Path, mode: int, count: int
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(mode)
    spec = CommandSpec(command=("./job.sh",), working_directory=str(tmp_path))

    found = [each for each in check_programs(fleet_of(tmp_path, spec), ENVIRON) if each.level is FindingLevel.PROBLEM]

    assert [(each.text, each.fix) for each in found] == [
        ("./job.sh is not executable: t0 cannot run", f"chmod +x {script}")
    ] * count


def test_a_module_is_looked_for_beside_the_fleet_and_never_imported(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("raise SystemExit('imported')\ndef tidy(): ...\n")
    fleet = fleet_of(tmp_path, CallableSpec(call="jobs:tidy"), CallableSpec(call="nowhere.deep:tidy"))

    found = list(check_modules(fleet, []))

    assert [each.text for each in found] == ["There is no module nowhere.deep: t1 cannot run"]


def test_a_variable_that_is_not_set_is_warned_about(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, shell("ls", env=("TOKEN", "PATH")))

    found = list(check_environment(fleet, ENVIRON))

    assert [(each.level, each.text) for each in found] == [(FindingLevel.WARNING, "TOKEN is not set, but t0 needs it")]


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

    assert [each.text for each in found] == ["./job.sh does not exist: t1 cannot run"]


def test_a_program_beside_the_fleet_without_a_path_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")

    found = list(check_programs(fleet_of(tmp_path, CommandSpec(command=("job.sh",), working_directory=".")), ENVIRON))

    assert found[0].text == "job.sh is not on the PATH, but exists in the working directory: t0 cannot run"


def test_a_working_directory_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    specs = [CommandSpec(command=("ls",), working_directory=folder) for folder in ("gone", "gone", "file", ".")]

    found = list(check_folders(fleet_of(tmp_path, *specs)))

    assert [(each.level, each.text) for each in found] == [
        (FindingLevel.PROBLEM, f"{tmp_path}/gone does not exist: 2 targets (t0, t1) cannot run"),
        (FindingLevel.PROBLEM, f"{tmp_path}/file is not a folder: t2 cannot run"),
    ]


def test_a_function_that_its_module_lacks_is_reported_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "app"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "jobs.py").write_text(
        "raise SystemExit\nfrom x import y as late\nasync def tidy(): ...\nclass Box: ...\n"
    )
    (package / "magic.py").write_text("def __getattr__(name): ...\n")
    calls = ("app.jobs:tidy", "app.jobs:late", "app.jobs:Box.open", "app.magic:any", "app.jobs:tydi", "app.gone:x")

    found = list(check_modules(fleet_of(tmp_path, *(CallableSpec(call=call) for call in calls)), []))

    assert [each.text for each in found] == [
        "app.jobs has no function tydi: t4 cannot run",
        "There is no module app.gone: t5 cannot run",
    ]


def test_a_key_that_is_set_and_reaches_no_program_is_reported(tmp_path: Path) -> None:
    environ = {**ENVIRON, "OPENAI_API_KEY": "x", "GITHUB_TOKEN": "y", "ANTHROPIC_API_KEY": "z"}
    (tmp_path / ".env").write_text("MINE=1\nGEMINI_API_KEY=2\n")
    (tmp_path / "herdbeat.yaml").write_text("x: ${ANTHROPIC_API_KEY}\n")
    fleet = replace(fleet_of(tmp_path, shell("ls", env=("GITHUB_TOKEN", "MINE"))), files=("herdbeat.yaml",))

    found = [each.text for each in check_environment(fleet, read_environment(fleet.home, environ))]

    assert found == [
        "GEMINI_API_KEY is set, but not passed to any program: programs receive only the variables listed in env:",
        "OPENAI_API_KEY is set, but not passed to any program: programs receive only the variables listed in env:",
    ]


def test_the_token_of_a_work_source_is_not_to_be_given_to_programs(tmp_path: Path) -> None:
    backlog = replace(make_schedule("t0"), work_source={"type": "github", "repo": "acme/app"})
    fleet = replace(fleet_of(tmp_path, shell("ls")), schedules=(backlog,))

    found = list(check_environment(fleet, {**ENVIRON, "GITHUB_TOKEN": "ghp"}))

    assert found == []


def test_variables_that_channels_hooks_and_chats_need_and_nobody_has_set_are_reported(tmp_path: Path) -> None:
    chat = AgentSpec(runtime="fake", working_directory="/", chat={"slack": {"app_token_env": "APP"}})
    hooked = Target(name="t1", spec=shell("ls"), hooks={"on_error": [{"type": "webhook", "secret_env": "OPS"}]})
    fleet = replace(
        fleet_of(tmp_path, chat),
        targets=(Target(name="t0", spec=chat), hooked),
        notify={"ops": {"type": "webhook", "secret_env": "OPS"}, "mail": {"type": "email", "password_env": "SET"}},
    )

    found = list(check_message_secrets(fleet, {**ENVIRON, "SET": "hush", "APP": "xapp"}))

    assert [(each.level, each.text) for each in found] == [
        (FindingLevel.PROBLEM, "OPS is not set, but the channel ops, a hook of t1 needs it"),
        (FindingLevel.PROBLEM, "SLACK_BOT_TOKEN is not set, but the chat of t0 needs it"),
    ]


@pytest.mark.parametrize(
    ("base_url", "is_reported"),
    [(DEFAULT_PLANNER_URLS[PlannerProvider.OPENAI], True), ("http://127.0.0.1:11434/v1", False)],
)
def test_the_missing_key_of_a_planner_was_no_problem(tmp_path: Path, base_url: str, is_reported: bool) -> None:
    planner = PlannerSettings(provider=PlannerProvider.OPENAI, model="m", base_url=base_url, api_key_env="MODEL_KEY")
    fleet = replace(fleet_of(tmp_path, shell("ls")), planner=planner)

    found = [each.text for each in check_message_secrets(fleet, ENVIRON)]

    assert found == (["MODEL_KEY is not set, but the planner needs it"] if is_reported else [])


@pytest.mark.parametrize(
    ("auth", "level"),
    [
        (WebhookAuth(secret_env=("NEW_SECRET", "OLD_SECRET")), FindingLevel.PROBLEM),
        (WebhookAuth(secret_env=("SET_SECRET", "OLD_SECRET")), FindingLevel.WARNING),
        (WebhookAuth(secret_env=("SET_SECRET",)), None),
        (WebhookAuth(method=HookMethod.TOKEN), None),
        (WebhookAuth(has_file_secret=True), None),
    ],
)
def test_a_webhook_whose_secret_is_not_set_is_reported(
    tmp_path: Path, auth: WebhookAuth, level: FindingLevel | None
) -> None:
    hook = replace(make_schedule("t0"), trigger=Webhook(auth=auth))
    fleet = replace(fleet_of(tmp_path, shell("ls")), schedules=(hook,))

    found = list(check_webhook_secrets(fleet, {**ENVIRON, "SET_SECRET": "hush"}))

    assert [each.level for each in found] == ([] if level is None else [level])
    assert all("t0" in each.text and "hush" not in each.text for each in found)
