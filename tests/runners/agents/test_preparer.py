"""Runs in a workspace and in a container, as the runners start them: what the program sees, and what is left."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_jobs import write_cli
from tests.support.fake_docker import FakeDocker
from tests.support.runner_jobs import NOON, make_job, new_fifo, read_fifo

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.isolation import Access, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceState, WorkspaceType
from herdbeat.runners.agents.git import run_git
from herdbeat.runners.agents.workspace import WorkspaceFolders, workspaces_root
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock

WORKTREE = WorkspaceSpec(type=WorkspaceType.WORKTREE)
DOCKER = IsolationSpec(type=IsolationType.DOCKER, container=ContainerSettings())


@pytest.fixture
def docker(tmp_path: Path) -> FakeDocker:
    return FakeDocker(tmp_path / "bin")


@pytest.fixture
def settings(tmp_path: Path, docker: FakeDocker) -> RunnerSettings:
    home = tmp_path / "ada"
    home.mkdir()
    return RunnerSettings(
        state_dir=tmp_path / "state",
        environ={**docker.environ, "HOME": str(home), "TOKEN": "s3cret"},
        interrupt_grace=timedelta(seconds=0.3),
        kill_after=timedelta(seconds=0.3),
        pipe_grace=timedelta(seconds=0.3),
    )


@pytest.fixture
async def runners(settings: RunnerSettings) -> AsyncIterator[RunnerRegistry]:
    async with open_runners(settings, FakeClock(NOON)) as opened:
        yield opened


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    run_git(folder, "init", "--quiet", "-b", "main")
    (folder / "README.md").write_text("text")
    run_git(folder, "add", "--all")
    run_git(folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", "Begin")
    return folder


@pytest.fixture
def folders(settings: RunnerSettings) -> WorkspaceFolders:
    return WorkspaceFolders(workspaces_root(settings.environ, settings.store_id), "ant")


def agent(folder: Path, script: str, **options: Any) -> AgentSpec:
    """An agent that is a program of Python."""
    argv = (sys.executable, "-c", script)
    return AgentSpec(runtime="command", working_directory=str(folder), command=argv, **options)


def log_of(settings: RunnerSettings) -> str:
    files = sorted((settings.state_dir / "logs").rglob("*.jsonl"))
    return "".join(json.loads(line)["text"] for file in files for line in file.read_text().splitlines())


# --- workspaces


async def test_a_run_works_in_its_workspace_and_its_branch_stays(
    runners: RunnerRegistry, settings: RunnerSettings, repository: Path, folders: WorkspaceFolders
) -> None:
    script = "import os, pathlib; pathlib.Path('new.txt').write_text('made'); print(os.getcwd())"

    outcome = await runners.run(make_job(agent(repository, script, workspace=WORKTREE), run_id=7))

    (kept,) = folders.list_workspaces()
    assert outcome.status is RunStatus.SUCCEEDED
    assert outcome.output.strip() == kept.path
    assert (Path(kept.path) / "new.txt").read_text() == "made"
    assert not (repository / "new.txt").exists()
    assert outcome.workspace == "herdbeat/scribe/0007"
    assert "the workspace is kept: branch herdbeat/scribe/0007" in log_of(settings)


async def test_a_run_that_changed_nothing_leaves_no_workspace(
    runners: RunnerRegistry, repository: Path, folders: WorkspaceFolders
) -> None:
    outcome = await runners.run(make_job(agent(repository, "print('done')", workspace=WORKTREE)))

    assert (outcome.status, outcome.workspace) == (RunStatus.SUCCEEDED, "")
    assert folders.list_workspaces() == []


async def test_the_workspace_of_a_schedule_replaces_that_of_its_agent(
    runners: RunnerRegistry, repository: Path
) -> None:
    job = make_job(agent(repository, "import os; print(os.getcwd())", workspace=WORKTREE))

    outcome = await runners.run(replace(job, run_spec=RunSpec(workspace=WorkspaceSpec(type=WorkspaceType.SHARED))))

    assert outcome.output.strip() == str(repository)


async def test_a_worktree_outside_of_a_repository_is_a_config_error(runners: RunnerRegistry, tmp_path: Path) -> None:
    outcome = await runners.run(make_job(agent(tmp_path, "print('ran')", workspace=WORKTREE)))

    assert (outcome.status, outcome.skip) == (RunStatus.SKIPPED, SkipReason.CONFIG_ERROR)
    assert "is not in a git repository" in outcome.error
    assert outcome.output == ""


async def test_a_workspace_that_cannot_be_made_fails_the_run(runners: RunnerRegistry, repository: Path) -> None:
    spec = agent(repository, "print('ran')", workspace=replace(WORKTREE, base="nowhere"))

    outcome = await runners.run(make_job(spec))

    assert (outcome.status, outcome.output) == (RunStatus.FAILED, "")
    assert "correct workspace.base" in outcome.error


async def test_what_a_cancelled_run_has_changed_stays(
    runners: RunnerRegistry, repository: Path, folders: WorkspaceFolders, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    script = f"import time; open('half.txt', 'w').write('x'); open({str(fifo)!r}, 'w').write('up'); time.sleep(600)"
    run = asyncio.create_task(runners.run(make_job(agent(repository, script, workspace=WORKTREE))))
    await read_fifo(fifo)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    (kept,) = folders.list_workspaces()
    assert (kept.state, kept.changed) == (WorkspaceState.KEPT, True)
    assert (Path(kept.path) / "half.txt").exists()


async def test_an_agent_with_a_cli_works_in_its_workspace_too(
    runners: RunnerRegistry, repository: Path, tmp_path: Path
) -> None:
    program = write_cli(tmp_path, "claude")
    spec = AgentSpec(
        runtime="claude", working_directory=str(repository), program=program, workspace=replace(WORKTREE, base="main")
    )

    outcome = await runners.run(make_job(spec, prompt="Say hello."))

    assert outcome.status is RunStatus.SUCCEEDED, outcome.error


# --- containers


async def test_a_run_in_a_container_is_one_docker_run(
    runners: RunnerRegistry, docker: FakeDocker, repository: Path
) -> None:
    script = "import os, sys; print(sys.stdin.read(), os.environ['HOME'], os.environ['TOKEN'])"
    spec = agent(repository, script, isolation=DOCKER, env=("TOKEN",))

    outcome = await runners.run(make_job(spec, prompt="Look."))

    assert (outcome.status, outcome.output) == (RunStatus.SUCCEEDED, "Look. /home/agent s3cret\n")
    assert f"type=bind,src={repository},dst=/workspace" in docker.run_call()["argv"]
    assert "s3cret" not in " ".join(docker.run_call()["argv"])
    assert docker.containers() == []


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("no-image", "The container could not be started: Error response from daemon: No such image"),
        ("daemon-down", "Cannot connect to the Docker daemon"),
    ],
)
async def test_a_container_that_cannot_be_had_is_a_config_error(
    runners: RunnerRegistry, docker: FakeDocker, repository: Path, behaviour: str, error: str
) -> None:
    docker.behave(behaviour)
    proof = repository / "ran"

    outcome = await runners.run(make_job(agent(repository, f"open({str(proof)!r}, 'w')", isolation=DOCKER)))

    assert (outcome.status, outcome.skip) == (RunStatus.SKIPPED, SkipReason.CONFIG_ERROR)
    assert error in outcome.error
    assert not proof.exists()


async def test_a_program_that_exits_with_125_itself_has_run(runners: RunnerRegistry, repository: Path) -> None:
    outcome = await runners.run(make_job(agent(repository, "raise SystemExit(125)", isolation=DOCKER)))

    assert (outcome.status, outcome.code) == (RunStatus.FAILED, 125)


async def test_a_container_that_used_too_much_memory_says_so(
    runners: RunnerRegistry, settings: RunnerSettings, docker: FakeDocker, repository: Path
) -> None:
    docker.behave("out-of-memory")

    outcome = await runners.run(make_job(agent(repository, "raise SystemExit(137)", isolation=DOCKER)))

    assert outcome.status is RunStatus.FAILED
    assert "the container used more memory than docker.memory allows" in log_of(settings)


async def test_a_cancelled_run_leaves_no_container(
    runners: RunnerRegistry, docker: FakeDocker, repository: Path, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    script = (
        "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)];"
        f"open({str(fifo)!r}, 'w').write('up'); time.sleep(600)"
    )
    run = asyncio.create_task(runners.run(make_job(agent(repository, script, isolation=DOCKER))))
    await read_fifo(fifo)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert docker.containers() == []
    assert len(docker.calls("rm")) == 1


async def test_an_isolated_workspace_is_a_clone_whose_commits_come_back(
    runners: RunnerRegistry, repository: Path, docker: FakeDocker
) -> None:
    script = (
        "import subprocess as s; open('fix.py', 'w').write('x'); s.run(['git', 'add', '.'], check=True);"
        "s.run(['git', '-c', 'user.name=A', '-c', 'user.email=a@b', 'commit', '-qm', 'Fix'], check=True)"
    )

    outcome = await runners.run(make_job(agent(repository, script, isolation=DOCKER, workspace=WORKTREE)))

    assert outcome.status is RunStatus.SUCCEEDED, outcome.error
    assert run_git(repository, "log", "-1", "--format=%s", outcome.workspace) == "Fix"
    assert f"src={repository}," not in " ".join(docker.run_call()["argv"])


async def test_the_state_directory_and_the_fleet_file_are_masked_in_a_shared_workspace(
    settings: RunnerSettings, docker: FakeDocker, repository: Path
) -> None:
    fleet_file = repository / "herdbeat.yaml"
    fleet_file.write_text("version: 1")
    inside = replace(settings, state_dir=repository / ".herdbeat", fleet_files=(fleet_file,))

    async with open_runners(inside, FakeClock(NOON)) as runners:
        await runners.run(make_job(agent(repository, "print(1)", isolation=DOCKER)))

    argv = docker.run_call()["argv"]
    assert "type=tmpfs,dst=/workspace/.herdbeat" in argv
    assert "type=bind,src=/dev/null,dst=/workspace/herdbeat.yaml,readonly" in argv


async def test_the_home_folder_cannot_be_the_workspace_of_an_isolated_agent(
    runners: RunnerRegistry, settings: RunnerSettings
) -> None:
    spec = agent(Path(settings.environ["HOME"]), "print(1)", isolation=DOCKER)

    outcome = await runners.run(make_job(spec))

    assert outcome.skip == SkipReason.CONFIG_ERROR
    assert "is hidden from isolated agents" in outcome.error


async def test_the_login_of_the_user_is_mounted_read_only_into_a_home_of_the_agent(
    runners: RunnerRegistry, settings: RunnerSettings, docker: FakeDocker, repository: Path
) -> None:
    login = Path(settings.environ["HOME"]) / ".claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_text("{}")
    spec = AgentSpec(runtime="claude", working_directory=str(repository), isolation=DOCKER)

    await runners.run(make_job(spec))

    mounts = [word for word in docker.run_call()["argv"] if word.startswith("type=bind")]
    assert f"type=bind,src={login},dst=/home/agent/.claude/.credentials.json,readonly" in mounts
    assert not [mount for mount in mounts if f"src={login.parent.parent}," in mount]


async def test_an_isolated_agent_with_a_runtime_of_the_user_was_not_logged_in(
    runners: RunnerRegistry, settings: RunnerSettings, docker: FakeDocker, repository: Path
) -> None:
    login = Path(settings.environ["HOME"]) / ".claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_text("{}")
    spec = AgentSpec(
        runtime="claude-beta",
        preset={"like": "claude", "program": "claude-beta"},
        working_directory=str(repository),
        isolation=DOCKER,
    )

    await runners.run(make_job(spec))

    mounted = f"type=bind,src={login},dst=/home/agent/.claude/.credentials.json,readonly"
    assert mounted in docker.run_call()["argv"]


async def test_bubblewrap_that_is_missing_is_a_config_error(
    settings: RunnerSettings, repository: Path, docker: FakeDocker
) -> None:
    without = replace(settings, environ={**settings.environ, "PATH": str(docker.folder)})
    isolation = IsolationSpec(type=IsolationType.BWRAP, workspace=Access.READ_ONLY)

    async with open_runners(without, FakeClock(NOON)) as runners:
        outcome = await runners.run(make_job(agent(repository, "print(1)", isolation=isolation)))

    assert (outcome.status, outcome.skip) == (RunStatus.SKIPPED, SkipReason.CONFIG_ERROR)
    assert "Install bubblewrap" in outcome.error


async def test_what_an_agent_lacks_is_found_before_it_starts(
    settings: RunnerSettings, repository: Path, tmp_path: Path, docker: FakeDocker
) -> None:
    without = replace(settings, environ={**settings.environ, "PATH": str(docker.folder)})
    sandbox = IsolationSpec(type=IsolationType.BWRAP, workspace=Access.READ_ONLY)
    lacking = {
        "does not exist": agent(tmp_path / "gone", "print(1)"),
        "is not in a git repository": agent(tmp_path, "print(1)", workspace=WORKTREE),
        "Install bubblewrap": agent(repository, "print(1)", isolation=sandbox),
        "npm install -g @openai/codex": AgentSpec(runtime="codex", working_directory=str(repository)),
    }

    async with open_runners(without, FakeClock(NOON)) as runners:
        found = {why: await runners.find_obstacle(make_job(spec)) for why, spec in lacking.items()}
        nothing = await runners.find_obstacle(make_job(agent(repository, "print(1)", workspace=WORKTREE)))

    assert nothing is None
    for why, outcome in found.items():
        assert outcome is not None
        assert (outcome.status, outcome.skip) == (RunStatus.SKIPPED, SkipReason.CONFIG_ERROR)
        assert why in outcome.error


async def test_containers_of_a_killed_node_are_ended_before_anything_starts(
    settings: RunnerSettings, docker: FakeDocker, repository: Path, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    script = f"import time; open({str(fifo)!r}, 'w').write('up'); time.sleep(600)"
    node = tmp_path / "node.py"
    node.write_text(KILLED_NODE)
    arguments = (str(settings.state_dir), str(repository), script, json.dumps(dict(settings.environ)))
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    killed = await asyncio.create_subprocess_exec(sys.executable, str(node), *arguments, env=environ)
    await read_fifo(fifo)
    killed.kill()
    await killed.wait()
    (left,) = docker.containers()

    async with open_runners(settings, FakeClock(NOON)) as runners:
        await runners.end_leftovers()

    assert left.startswith("herdbeat-scribe-")
    assert docker.containers() == []


KILLED_NODE = """
import asyncio, json, sys
from pathlib import Path
from datetime import datetime, UTC
from herdbeat.domain.isolation import ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.target import AgentSpec
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock
from tests.support.runner_jobs import NOON, make_job

async def main() -> None:
    state, folder, script, environ = sys.argv[1:]
    settings = RunnerSettings(state_dir=Path(state), environ=json.loads(environ))
    isolation = IsolationSpec(type=IsolationType.DOCKER, container=ContainerSettings())
    argv = (sys.executable, "-c", script)
    spec = AgentSpec(runtime="command", working_directory=folder, command=argv, isolation=isolation)
    async with open_runners(settings, FakeClock(NOON)) as runners:
        await runners.run(make_job(spec))

asyncio.run(main())
"""
