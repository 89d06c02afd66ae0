"""One hardened `docker run` per run, and what is done about containers that nobody ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fake_docker import FakeDocker
from tests.support.sandbox_requests import find_values, request

from herdbeat.domain.isolation import Access, ContainerNetwork, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.runners.agents.isolation.base import IsolationUnavailable, Mask, Mount, SandboxedProgram
from herdbeat.runners.agents.isolation.docker import ContainerEngine, DockerContainers


@pytest.fixture
def docker(tmp_path: Path) -> FakeDocker:
    return FakeDocker(tmp_path / "bin")


@pytest.fixture
def containers(docker: FakeDocker, tmp_path: Path) -> DockerContainers:
    return DockerContainers(tmp_path / "state", docker.environ)


def spec(workspace: Access = Access.READ_WRITE, **settings: object) -> IsolationSpec:
    container = ContainerSettings(**settings)  # type: ignore[arg-type]
    return IsolationSpec(type=IsolationType.DOCKER, workspace=workspace, container=container)


def wrap(containers: DockerContainers, isolation: IsolationSpec, **changes: object) -> SandboxedProgram:
    containers.prepare(isolation)
    return containers.wrap(request(spec=isolation, **changes))


def test_the_container_is_hardened(containers: DockerContainers) -> None:
    argv = wrap(containers, spec()).argv

    text = " ".join(argv)
    for options in (
        "run -i --init --pull never --name herdbeat-scout-7f3k-",
        "--cap-drop ALL --security-opt no-new-privileges:true",
        "--memory 2g --memory-swap 2g",
        "--pids-limit 512",
        f"--user {os.getuid()}:{os.getgid()}",
        "--network bridge",
        "--log-driver none",
    ):
        assert options in text
    assert "--privileged" not in argv
    assert "--rm" not in argv  # it is inspected, then removed


def test_image_and_program_come_last(containers: DockerContainers) -> None:
    argv = wrap(containers, spec(image="acme/agent:1"), argv=("claude", "-p", "a b")).argv

    assert argv[-4:] == ("acme/agent:1", "claude", "-p", "a b")


def test_every_key_of_the_docker_block_is_an_option(containers: DockerContainers) -> None:
    isolation = spec(
        memory="512 MiB",
        cpu_shares=512,
        cpu_period=100_000,
        cpu_quota=50_000,
        pids_limit=9,
        tmpfs=("/tmp:size=1m",),
        network=ContainerNetwork.NONE,
        user="1:2",
        ports=("8080:80",),
        labels={"team": "blue"},
        volumes=("/data:/data:ro", "cache:/cache"),
        host_config={
            "ShmSize": 64,
            "Devices": [{"PathOnHost": "/dev/fuse"}],
            "ExtraHosts": ["db:10.0.0.1"],
            "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
            "Dns": ["1.1.1.1"],
            "Sysctls": {"net.x": 1},
        },
    )

    text = " ".join(wrap(containers, isolation).argv)

    for options in (
        "--memory 512mb --memory-swap 512mb",
        "--cpu-shares 512 --cpu-period 100000 --cpu-quota 50000 --pids-limit 9",
        "--tmpfs /tmp:size=1m",
        "--network none --publish 8080:80",
        "--user 1:2",
        "--label team=blue",
        "--mount type=bind,src=/data,dst=/data,readonly",
        "--mount type=bind,src=/srv/app/docs/cache,dst=/cache --",
        "--shm-size 64 --device /dev/fuse:/dev/fuse:rwm --ulimit nofile=1:2 --add-host db:10.0.0.1 --dns 1.1.1.1",
        "--sysctl net.x=1",
    ):
        assert options in text


@pytest.mark.parametrize(
    ("access", "mount"),
    [
        (Access.READ_WRITE, "type=bind,src=/srv/app,dst=/workspace"),
        (Access.READ_ONLY, "type=bind,src=/srv/app,dst=/workspace,readonly"),
    ],
)
def test_the_workspace_is_mounted_and_worked_in(containers: DockerContainers, access: Access, mount: str) -> None:
    argv = wrap(containers, spec(access)).argv

    assert (mount,) in find_values(argv, "--mount")
    assert find_values(argv, "--workdir") == [("/workspace/docs",)]


def test_what_is_hidden_is_masked_in_the_workspace_and_in_volumes(containers: DockerContainers) -> None:
    masks = (
        Mask(path="/srv/app/.herdbeat", is_folder=True),
        Mask(path="/data/run.sock", is_folder=False),
    )
    scratch = Mount(source="/srv/app/.herdbeat/scratch/7f3k", access=Access.READ_WRITE)

    argv = wrap(containers, spec(volumes=("/data:/d",)), masks=masks, late_mounts=(scratch,)).argv

    mounts = [value for (value,) in find_values(argv, "--mount")]
    assert "type=tmpfs,dst=/workspace/.herdbeat" in mounts
    assert "type=bind,src=/dev/null,dst=/d/run.sock,readonly" in mounts
    assert mounts.index("type=tmpfs,dst=/workspace/.herdbeat") < mounts.index(
        f"type=bind,src={scratch.source},dst={scratch.source}"
    )


def test_no_secret_is_an_argument(containers: DockerContainers) -> None:
    program = wrap(containers, spec(env={"KEY": "hunter2"}))

    assert not [word for word in program.argv if "s3cret" in word or "hunter2" in word]
    assert {("TOKEN",), ("KEY",)} <= set(find_values(program.argv, "--env"))
    assert (program.environment["TOKEN"], program.environment["KEY"]) == ("s3cret", "hunter2")


def test_the_agent_cannot_redirect_the_client(docker: FakeDocker, tmp_path: Path) -> None:
    environ = {**docker.environ, "DOCKER_HOST": "unix:///right.sock"}
    containers = DockerContainers(tmp_path / "state", environ)

    program = wrap(containers, spec(), environment={"DOCKER_HOST": "tcp://evil", "PATH": "/evil"})

    assert program.environment["DOCKER_HOST"] == "unix:///right.sock"
    assert program.environment["PATH"] == docker.environ["PATH"]
    assert ("DOCKER_HOST",) not in find_values(program.argv, "--env")


def test_labels_name_the_run_and_cannot_be_replaced(containers: DockerContainers) -> None:
    argv = wrap(containers, spec(labels={"herdbeat.store": "other"})).argv

    labels = {value for (value,) in find_values(argv, "--label")}
    assert {"herdbeat.store=5e1f", "herdbeat.run=7f3k", "herdbeat.target=scout", "herdbeat.node=abc.1.2"} == labels


@pytest.mark.parametrize(
    ("engine", "user", "options"),
    [
        (ContainerEngine(program="docker"), None, ("--user", "1000:1001")),
        (ContainerEngine(program="docker", is_rootless=True), None, ("--user", "0:0")),
        (ContainerEngine(program="podman", is_podman=True), None, ("--user", "1000:1001")),
        (ContainerEngine(program="podman", is_podman=True, is_rootless=True), None, ("--userns=keep-id",)),
        (ContainerEngine(program="docker", is_rootless=True), "5:5", ("--user", "5:5")),
    ],
)
def test_files_belong_to_the_user_with_every_engine(
    engine: ContainerEngine, user: str | None, options: tuple[str, ...]
) -> None:
    assert engine.user_options(user, 1000, 1001) == options


def test_rootless_docker_is_recognised(docker: FakeDocker, containers: DockerContainers) -> None:
    docker.behave("rootless")

    assert find_values(wrap(containers, spec()).argv, "--user") == [("0:0",)]


def test_podman_is_used_where_there_is_no_docker(docker: FakeDocker, containers: DockerContainers) -> None:
    docker.behave("podman")
    docker.program.rename(docker.folder / "podman-program")
    (docker.folder / "podman").unlink()
    (docker.folder / "podman-program").rename(docker.folder / "podman")

    program = wrap(containers, spec())

    assert program.argv[0] == str(docker.folder / "podman")


def test_without_an_engine_nothing_runs(tmp_path: Path) -> None:
    containers = DockerContainers(tmp_path, {"PATH": "/nowhere"})

    with pytest.raises(IsolationUnavailable, match=r"no docker or podman on the PATH\. Install"):
        containers.prepare(spec())


def test_without_its_daemon_nothing_runs(docker: FakeDocker, containers: DockerContainers) -> None:
    docker.behave("daemon-down")

    with pytest.raises(IsolationUnavailable, match="Cannot connect to the Docker daemon"):
        containers.prepare(spec())


@pytest.mark.parametrize(
    ("host_config", "message"),
    [
        ({"Privileged": True}, "not supported: Privileged. Supported: ShmSize"),
        ({"Devices": "all"}, "Devices is not a list"),
        ({"Ulimits": [{"Soft": 1}]}, "not as Docker's API has it"),
    ],
)
def test_a_host_option_that_is_not_supported_stops_the_run(
    containers: DockerContainers, host_config: dict[str, object], message: str
) -> None:
    with pytest.raises(IsolationUnavailable, match=message):
        wrap(containers, spec(host_config=host_config))


def test_a_path_that_docker_cannot_mount_stops_the_run(containers: DockerContainers) -> None:
    with pytest.raises(IsolationUnavailable, match="has a comma"):
        wrap(containers, spec(), workspace="/srv/a,b", folder="/srv/a,b")


@pytest.mark.parametrize(("status", "is_explained"), [(125, True), (1, False), (0, False), (127, False)])
def test_a_container_that_could_not_be_started_is_explained(
    containers: DockerContainers, status: int, *, is_explained: bool
) -> None:
    said = "docker: Error response from daemon: No such image: x."

    why = containers.explain_exit(wrap(containers, spec()), status, said)

    assert bool(why) is is_explained
    if is_explained:
        assert why == "The container could not be started: Error response from daemon: No such image: x."


# --- with the fake as a running engine


def run_client(docker: FakeDocker, program: SandboxedProgram) -> "subprocess.Popen[bytes]":
    client = subprocess.Popen(
        program.argv, env=dict(program.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    del docker
    return client


def start_sleeper(containers: DockerContainers, docker: FakeDocker, tmp_path: Path) -> "tuple[SandboxedProgram, int]":
    """Start a container that says when it is up; return it and the pid of its client."""
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    script = "import time; print('up', flush=True); time.sleep(600)"
    places = {"workspace": str(tmp_path / "work"), "folder": str(tmp_path / "work"), "home": str(tmp_path / "home")}
    program = wrap(containers, spec(), argv=(sys.executable, "-c", script), **places)
    containers.start(program)
    client = run_client(docker, program)
    assert client.stdout is not None
    assert client.stdout.readline() == b"up\n"
    while not docker.containers():
        os.sched_yield()
    return program, client.pid


def end_client(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_container_whose_client_was_killed_is_ended_by_its_name(
    docker: FakeDocker, containers: DockerContainers, tmp_path: Path
) -> None:
    program, client = start_sleeper(containers, docker, tmp_path)
    end_client(client)
    assert docker.is_alive(program.container)

    remark = containers.end(program)

    assert remark == ""
    assert docker.containers() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_containers_of_a_killed_node_are_found_by_their_label(
    docker: FakeDocker, containers: DockerContainers, tmp_path: Path
) -> None:
    _, client = start_sleeper(containers, docker, tmp_path)
    end_client(client)
    next_node = DockerContainers(tmp_path / "state", docker.environ)

    ended = next_node.end_leftovers("5e1f")

    assert ended == 1
    assert docker.containers() == []
    assert next_node.end_leftovers("5e1f") == 0


def test_an_engine_is_not_asked_about_leftovers_if_none_was_used(
    docker: FakeDocker, containers: DockerContainers
) -> None:
    assert containers.end_leftovers("5e1f") == 0
    assert docker.calls("ps") == []
