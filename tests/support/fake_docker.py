"""A fake `docker`: it records its calls, runs the program of a container on the host, and knows its containers.

It honours run, kill, rm, ps, inspect, info and --version. A container is a process group and a folder. As with the
real one, a kill of the client leaves the container running. Files beside the program change what it does:
`daemon-down`, `no-image`, `rootless`, `podman`, `out-of-memory`.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

VALUE_OPTIONS = frozenset(
    [
        "--pull",
        "--name",
        "--label",
        "--cap-drop",
        "--security-opt",
        "--memory",
        "--memory-swap",
        "--cpu-shares",
        "--cpu-period",
        "--cpu-quota",
        "--pids-limit",
        "--tmpfs",
        "--user",
        "--network",
        "--publish",
        "--shm-size",
        "--device",
        "--ulimit",
        "--add-host",
        "--dns",
        "--sysctl",
        "--mount",
        "--env",
        "--workdir",
        "--stop-timeout",
        "--log-driver",
    ]
)


class FakeDocker:
    """The folder of a fake `docker`, for tests. `environ` has it first on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.program = folder / "docker"
        source = Path(__file__).resolve()
        self.program.write_text(
            textwrap.dedent(f"""\
                #!{sys.executable}
                import sys
                sys.path.insert(0, {str(source.parent)!r})
                import fake_docker
                fake_docker.main({str(folder)!r}, sys.argv[1:])
                """)
        )
        self.program.chmod(0o755)
        self.environ = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}

    def behave(self, *names: str) -> None:
        for name in names:
            (self.folder / name).touch()

    def calls(self, verb: str) -> list[list[str]]:
        return [call["argv"] for call in self._records() if call["argv"][:1] == [verb]]

    def run_call(self) -> dict[str, Any]:
        """Return the only `run`: its argv, and the environment of the client."""
        (call,) = [call for call in self._records() if call["argv"][0] == "run"]
        return call

    def containers(self) -> list[str]:
        """Return the names of the containers that exist."""
        folder = self.folder / "containers"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def is_alive(self, name: str) -> bool:
        return is_group_alive(read_container(self.folder, name)["pid"])

    def _records(self) -> list[dict[str, Any]]:
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(folder_name: str, argv: list[str]) -> None:
    folder = Path(folder_name)
    with (folder / "calls.jsonl").open("a") as file:
        file.write(json.dumps({"argv": argv, "env": dict(os.environ)}) + "\n")
    if argv[0] == "--version":
        print("podman version 5.0" if (folder / "podman").exists() else "Docker version 28.2.2, build e6534b4")
        return
    if (folder / "daemon-down").exists():
        fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", 1)
    VERBS[argv[0]](folder, argv[1:])


def info(folder: Path, argv: list[str]) -> None:
    del argv
    print(json.dumps(["name=seccomp", *(["name=rootless"] if (folder / "rootless").exists() else [])]))


def run(folder: Path, argv: list[str]) -> None:
    options, rest = parse_options(argv)
    image, *command = rest
    (name,) = options["--name"]
    if (folder / "no-image").exists():
        fail(f"docker: Error response from daemon: No such image: {image}.\nSee 'docker run --help'.", 125)
    mounts = [dict(part.partition("=")[::2] for part in text.split(",")) for text in options.get("--mount", [])]
    places = {mount["dst"]: mount["src"] for mount in mounts if mount.get("type") == "bind"}
    for source in places.values():
        if not Path(source).exists():
            fail(
                f"docker: Error response from daemon: invalid mount config: bind source path does not exist: {source}",
                125,
            )
    environ = {"PATH": os.environ["PATH"]}
    for text in options.get("--env", []):
        key, given, value = text.partition("=")
        if given or key in os.environ:
            environ[key] = value if given else os.environ[key]
    workdir = options["--workdir"][0]
    root = next(dst for dst in sorted(places, reverse=True) if workdir == dst or workdir.startswith(f"{dst}/"))
    child = subprocess.Popen(
        command, cwd=places[root] + workdir.removeprefix(root), env=environ, start_new_session=True
    )
    container = folder / "containers" / name
    container.mkdir(parents=True)
    labels = [text.partition("=")[::2] for text in options.get("--label", [])]
    state = {"pid": child.pid, "labels": dict(labels), "oom": (folder / "out-of-memory").exists()}
    (container / "state.json").write_text(json.dumps(state))
    for number in (signal.SIGINT, signal.SIGTERM):  # the client passes them on
        signal.signal(number, lambda received, _frame: signal_group(child.pid, received))
    status = child.wait()
    sys.exit(128 - status if status < 0 else status)


def kill(folder: Path, argv: list[str]) -> None:
    for name in argv:
        signal_group(read_container(folder, name)["pid"], signal.SIGKILL)


def rm(folder: Path, argv: list[str]) -> None:
    for name in (word for word in argv if not word.startswith("--")):
        container = folder / "containers" / name
        if not container.is_dir():
            fail(f"Error response from daemon: No such container: {name}", 1)
        kill(folder, [name])
        (container / "state.json").unlink()
        container.rmdir()


def ps(folder: Path, argv: list[str]) -> None:
    wanted = argv[argv.index("--filter") + 1].removeprefix("label=")
    key, _, value = wanted.partition("=")
    for container in sorted((folder / "containers").glob("*")):
        if read_container(folder, container.name)["labels"].get(key) == value:
            print(container.name)


def inspect(folder: Path, argv: list[str]) -> None:
    template, name = argv[argv.index("--format") + 1], argv[-1]
    if not (folder / "containers" / name).is_dir():
        fail(f"Error: No such object: {name}", 1)
    state = read_container(folder, name)
    print("2026-03-01T12:00:00Z" if "StartedAt" in template else str(state["oom"]).lower())


VERBS = {"info": info, "run": run, "kill": kill, "rm": rm, "ps": ps, "inspect": inspect}


def parse_options(argv: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    at = 0
    while argv[at].startswith("-"):
        if argv[at] in VALUE_OPTIONS:
            options.setdefault(argv[at], []).append(argv[at + 1])
            at += 2
        else:
            options.setdefault(argv[at], [])
            at += 1
    return options, argv[at:]


def read_container(folder: Path, name: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "containers" / name / "state.json").read_text())
    return state


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
    while number == signal.SIGKILL and is_group_alive(pid):
        time.sleep(0.01)


def is_group_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def fail(text: str, code: int) -> None:
    print(text, file=sys.stderr)
    sys.exit(code)
