"""Workspaces and isolation as fleet files write them."""

from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.domain.isolation import Access, ContainerNetwork, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.workspace import KeepPolicy, WorkspaceSpec, WorkspaceType

SCHEDULE = "schedules: { hourly: { every: 1h, prompt: Go. } }"


def load(folder: Path, agent: str, top: str = "") -> LoadResult:
    (folder / "herdbeat.yaml").write_text(f"version: 1\n{top}\nagents:\n  - name: scout\n{agent}\n    {SCHEDULE}\n")
    return try_load_fleet(folder, environ={}, system_zone=ZoneInfo("UTC"), base=folder)


def spec_of(result: LoadResult) -> AgentSpec:
    assert result.fleet is not None, result.problems
    assert result.errors == ()
    spec = result.fleet.targets[0].spec
    assert isinstance(spec, AgentSpec)
    return spec


@pytest.mark.parametrize(
    ("written", "workspace"),
    [
        ("workspace: shared", WorkspaceSpec(type=WorkspaceType.SHARED)),
        ("workspace: worktree", WorkspaceSpec(type=WorkspaceType.WORKTREE)),
        (
            "workspace: { type: worktree, base: origin/main, keep: always, prune_after: 2d }",
            WorkspaceSpec(
                type=WorkspaceType.WORKTREE, base="origin/main", keep=KeepPolicy.ALWAYS, prune_after=timedelta(days=2)
            ),
        ),
    ],
)
def test_a_workspace_is_a_word_or_a_mapping(tmp_path: Path, written: str, workspace: WorkspaceSpec) -> None:
    assert spec_of(load(tmp_path, f"    {written}")).workspace == workspace


def test_any_other_workspace_is_the_working_directory_of_herdctl(tmp_path: Path) -> None:
    result = load(tmp_path, "    workspace: ./app")

    spec = spec_of(result)
    assert (spec.workspace, spec.working_directory) == (None, "app")
    assert '"workspace" is deprecated; the new name is "working_directory".' in [
        each.message for each in result.problems
    ]


@pytest.mark.parametrize("written", ["[shared]", "[[1]]", "3"])
def test_a_workspace_that_is_a_list_or_a_number_is_reported(tmp_path: Path, written: str) -> None:
    """A list once ended the load with a TypeError."""
    result = load(tmp_path, f"    workspace: {written}")

    assert [problem.where.line for problem in result.errors if problem.where] == [5]


@pytest.mark.parametrize(
    ("written", "isolation"),
    [
        ("isolation: bwrap", IsolationSpec(type=IsolationType.BWRAP)),
        (
            "isolation: { type: bwrap, network: false, workspace: ro, credentials: rw, read_only: [/data] }",
            IsolationSpec(
                type=IsolationType.BWRAP,
                network=False,
                workspace=Access.READ_ONLY,
                credentials=Access.READ_WRITE,
                read_only=("/data",),
            ),
        ),
        ("isolation: docker", IsolationSpec(type=IsolationType.DOCKER, container=ContainerSettings())),
        (
            "isolation: { type: docker, network: false, image: 'acme:1', engine: podman }",
            IsolationSpec(
                type=IsolationType.DOCKER,
                container=ContainerSettings(engine="podman", image="acme:1", network=ContainerNetwork.NONE),
            ),
        ),
    ],
)
def test_an_isolation_is_a_word_or_a_mapping(tmp_path: Path, written: str, isolation: IsolationSpec) -> None:
    assert spec_of(load(tmp_path, f"    {written}")).isolation == isolation


def test_a_docker_block_of_herdctl_isolates_its_agent(tmp_path: Path) -> None:
    top = "defaults: { docker: { enabled: true, image: 'acme:1', volumes: ['/a:/a'], env: { N: '1' }, network: none } }"

    isolation = spec_of(load(tmp_path, "    docker: { memory: 1g, workspace_mode: ro, pids_limit: 9 }", top)).isolation

    assert isolation == IsolationSpec(
        type=IsolationType.DOCKER,
        workspace=Access.READ_ONLY,
        container=ContainerSettings(
            image="acme:1", network=ContainerNetwork.NONE, memory="1g", pids_limit=9, volumes=("/a:/a",), env={"N": "1"}
        ),
    )


def test_a_docker_block_that_is_not_enabled_does_not_isolate(tmp_path: Path) -> None:
    assert spec_of(load(tmp_path, "    docker: { memory: 1g }")).isolation is None


def test_a_schedule_replaces_the_isolation_of_its_agent(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").write_text(
        "version: 1\nagents:\n  - name: scout\n    isolation: docker\n    docker: { memory: 1g }\n    schedules:\n"
        "      a: { every: 1h, prompt: Go., isolation: { type: docker, image: 'b:2' }, workspace: worktree }\n"
        "      b: { every: 1h, prompt: Go. }\n"
    )

    result = try_load_fleet(tmp_path, environ={}, system_zone=ZoneInfo("UTC"), base=tmp_path)

    assert result.fleet is not None, result.problems
    first, second = result.fleet.schedules
    assert first.isolation is not None
    assert first.isolation.container == ContainerSettings(image="b:2", memory="1g")
    assert first.workspace == WorkspaceSpec(type=WorkspaceType.WORKTREE)
    assert (second.isolation, second.workspace) == (None, None)


@pytest.mark.parametrize("key", ["isolation: bwrap", "workspace: worktree"])
def test_a_command_cannot_be_isolated_and_says_so(tmp_path: Path, key: str) -> None:
    """It would run without, which nobody would notice."""
    (tmp_path / "herdbeat.yaml").write_text(
        f"version: 1\ncommands:\n  - {{ name: a, command: [ls], every: 1h, {key} }}\n"
    )

    result = try_load_fleet(tmp_path, environ={}, system_zone=ZoneInfo("UTC"), base=tmp_path)

    assert [each.message for each in result.errors] == [f'Only agents can have "{key.partition(":")[0]}".']


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("isolation: chroot", '"chroot"'),
        ("isolation: { network: false }", 'needs "type"'),
        ("isolation: { type: bwrap, netwrok: false }", 'Unknown key "netwrok"; did you mean "network"?'),
        ("workspace: { type: worktree, keep: maybe }", '"maybe"'),
    ],
)
def test_a_mistake_is_an_error_with_its_place(tmp_path: Path, written: str, message: str) -> None:
    result = load(tmp_path, f"    {written}")

    (error,) = result.errors
    assert message in error.message
    assert error.where is not None


@pytest.mark.parametrize(
    ("session", "warned"), [("resume", 1), ("{ mode: resume, timeout: 8h }", 1), ("{ timeout: 8h, max_turns: 3 }", 0)]
)
def test_our_keys_in_an_agent_file_of_herdctl_are_a_warning_and_act(tmp_path: Path, session: str, warned: int) -> None:
    """herdctl has a `session:` of its own, without a mode."""
    keys = f"isolation: bwrap\nworkspace: worktree\nsession: {session}"
    (tmp_path / "scout.yaml").write_text(f"name: scout\n{keys}\n{SCHEDULE}\n")
    (tmp_path / "herdbeat.yaml").write_text("version: 1\nagents:\n  - path: scout.yaml\n")

    result = try_load_fleet(tmp_path, environ={}, system_zone=ZoneInfo("UTC"), base=tmp_path)

    warnings = [each.message for each in result.problems if "herdctl does not know" in each.message]
    assert len(warnings) == 2 + warned
    assert spec_of(result).isolation == IsolationSpec(type=IsolationType.BWRAP)


def test_container_options_that_runs_do_not_get_are_warned_of(tmp_path: Path) -> None:
    top = "defaults: { docker: { enabled: true, ephemeral: false, host_config: { Privileged: true, ShmSize: 1 } } }"

    result = load(tmp_path, "", top)

    messages = [each.message for each in result.problems]
    assert '"ephemeral: false" has no effect: every run has a container of its own.' in messages
    assert any('"Privileged" is not supported' in message for message in messages)
