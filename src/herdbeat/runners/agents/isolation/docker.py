"""Docker and Podman: herdctl's `docker` block as one hardened `run` per beat.

The started process is only the client. Signals to it reach the container, but a kill of the client does not, so the
container is always removed by its name. It carries labels by which a later node finds what a killed one has left.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from herdbeat.domain.isolation import Access, ContainerSettings, IsolationSpec
from herdbeat.platform import default_signals
from herdbeat.runners.agents.isolation.base import (
    AGENT_HOME,
    IsolationUnavailable,
    Mask,
    Mount,
    SandboxedProgram,
    SandboxRequest,
    inner_environment,
    is_below,
)
from herdbeat.runners.settings import CONTAINERS_FOLDER

WORKSPACE = "/workspace"
STORE_LABEL, RUN_LABEL, TARGET_LABEL, NODE_LABEL = (f"herdbeat.{name}" for name in ("store", "run", "target", "node"))
ENGINES = ("docker", "podman")
_ENGINE_FAILED = 125
_CALL_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10
_NAME_PART_PATTERN = re.compile(r"[^A-Za-z0-9_.-]+")
_IMAGE_VARIABLES = frozenset({"PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZDIR"})
"""Variables that the image sets for itself; those of the host would be wrong in it."""

_CLIENT_VARIABLES = frozenset(
    {"PATH", "HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY"}
)
_INSTALL_HINT = "Install Docker or Podman, or remove docker and isolation."
_HOST_OPTIONS = ("ShmSize", "Devices", "ExtraHosts", "Ulimits", "Dns", "Sysctls")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEngine:
    """A container engine. Rootless ones map the users of a container differently."""

    program: str
    is_podman: bool = False
    is_rootless: bool = False

    def user_options(self, user: str | None, uid: int, gid: int) -> tuple[str, ...]:
        """Return the options by which files in the workspace belong to the user of the node."""
        if user is not None:
            return ("--user", user)
        if self.is_rootless:
            # Rootless Podman can keep the user's id; with rootless Docker the user is root inside.
            return ("--userns=keep-id",) if self.is_podman else ("--user", "0:0")
        return ("--user", f"{uid}:{gid}")


class DockerContainers:
    """Confines programs in containers. `environ` is the environment of the client."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._folder = state_dir / CONTAINERS_FOLDER
        self._environ = environ
        self._engines: dict[str | None, ContainerEngine] = {}

    def prepare(self, spec: IsolationSpec) -> None:
        settings = spec.container or ContainerSettings()
        if settings.engine not in self._engines:
            self._engines[settings.engine] = self._find_engine(settings.engine)

    def wrap(self, request: SandboxRequest) -> SandboxedProgram:
        settings = request.spec.container or ContainerSettings()
        engine, name = self._engines[settings.engine], container_name(request)
        inner = {
            name: value
            for name, value in inner_environment(request.environment).items()
            if name not in _IMAGE_VARIABLES and not name.startswith("LC_")
        }
        options = [
            *("run", "-i", "--init", "--pull", "never", "--name", name),
            *_label_options(request, settings),
            *_limit_options(settings),
            *engine.user_options(settings.user, os.getuid(), os.getgid()),
            *_network_options(settings),
            *_host_config_options(settings.host_config),
            *_visible_options(request, settings),
            *_environment_options({**inner, **settings.env}),
            *("--workdir", _inner_path(request, request.folder)),
            *("--stop-timeout", str(_STOP_TIMEOUT_S), "--log-driver", "none"),
        ]
        return SandboxedProgram(
            argv=(engine.program, *options, settings.image, *request.argv),
            folder=request.folder,
            # The values of `--env NAME` come from here: they are in no argument that other users can read.
            environment={**inner, **settings.env, **_client_environment(self._environ)},
            container=name,
        )

    def start(self, program: SandboxedProgram) -> None:
        """Note that the container may exist from now on, for a node that has to clean up after this one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / program.container).write_text(json.dumps({"engine": program.argv[0]}), encoding="utf-8")

    def explain_exit(self, program: SandboxedProgram, status: int, errors: str) -> str:
        if status != _ENGINE_FAILED or self._has_started(program):
            return ""
        said = [line for line in errors.splitlines() if line.strip() and not line.startswith(("See '", "Run '"))]
        why = said[-1].removeprefix("docker: ").strip() if said else "the engine gave no reason"
        return f"The container could not be started: {why}"

    def end(self, program: SandboxedProgram) -> str:
        """Remove the container. A name that does not exist is no error: the engine may have refused to start it."""
        is_out_of_memory = self._inspect(program, "{{.State.OOMKilled}}") == "true"
        try:
            self._call(program.argv[0], "rm", "--force", "--volumes", program.container)
        except IsolationUnavailable as error:
            if "no such container" not in str(error).lower():
                return f"The container {program.container} may still exist: {error}"
        (self._folder / program.container).unlink(missing_ok=True)
        return "the container used more memory than docker.memory allows, and was killed" if is_out_of_memory else ""

    def end_leftovers(self, store_id: str) -> int:
        """Remove the containers that a killed node of this state directory left; return how many there were.

        Engines are asked only if containers were in use when the last node ended.
        """
        notes = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
        removed: set[str] = set()
        for program in {_read_engine(note) for note in notes} - {""}:
            with suppress(IsolationUnavailable):  # the engine is gone or down; its next start of a run says so
                label = f"label={STORE_LABEL}={store_id}"
                left = self._call(program, "ps", "--all", "--quiet", "--filter", label).split()
                if left:
                    self._call(program, "rm", "--force", "--volumes", *left)
                removed.update(left)
                for note in notes:
                    if _read_engine(note) == program:
                        note.unlink(missing_ok=True)
        return len(removed)

    def _find_engine(self, wanted: str | None) -> ContainerEngine:
        names = ENGINES if wanted is None else (wanted,)
        program = next((found for name in names if (found := which(name, path=self._environ.get("PATH")))), None)
        if program is None:
            raise IsolationUnavailable(f"There is no {' or '.join(names)} on the PATH.", _INSTALL_HINT)
        is_podman = "podman" in self._call(program, "--version").lower()
        if is_podman:
            return ContainerEngine(program=program, is_podman=True, is_rootless=os.getuid() != 0)
        security = self._call(program, "info", "--format", "{{json .SecurityOptions}}")
        return ContainerEngine(program=program, is_rootless="name=rootless" in security)

    def _has_started(self, program: SandboxedProgram) -> bool:
        started = self._inspect(program, "{{.State.StartedAt}}")
        return bool(started) and not started.startswith("0001-")

    def _inspect(self, program: SandboxedProgram, template: str) -> str:
        try:
            return self._call(program.argv[0], "inspect", "--format", template, program.container).strip()
        except IsolationUnavailable:
            return ""

    def _call(self, program: str, *arguments: str) -> str:
        """Return what the engine prints. Raises IsolationUnavailable."""
        name = Path(program).name
        try:
            with default_signals() as preexec_fn:
                done = subprocess.run(  # noqa: S603  the engine that the fleet file names
                    (program, *arguments),
                    env=_client_environment(self._environ),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_CALL_TIMEOUT_S,
                    check=False,
                    preexec_fn=preexec_fn,
                )
        except subprocess.TimeoutExpired as error:
            message = f"{name} {arguments[0]} did not answer within {_CALL_TIMEOUT_S:.0f} seconds."
            raise IsolationUnavailable(message, "Check that the engine works.") from error
        except OSError as error:
            raise IsolationUnavailable(f"{name} cannot be started: {error.strerror}.", _INSTALL_HINT) from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
            raise IsolationUnavailable(f"{name} {arguments[0]} failed: {said[-1]}")
        return done.stdout.decode("utf-8", "replace")


def container_name(request: SandboxRequest) -> str:
    """Return a name that no other run on this machine has: another fleet has runs with the same ids."""
    target = _NAME_PART_PATTERN.sub("-", request.target)[:40]
    mark = hashlib.sha256(f"{request.store_id}/{request.node}".encode()).hexdigest()[:8]
    return f"herdbeat-{target}-{request.run}-{mark}"


def unsupported_host_options(host_config: Mapping[str, object]) -> list[str]:
    return [name for name in host_config if name not in _HOST_OPTIONS]


def _label_options(request: SandboxRequest, settings: ContainerSettings) -> Iterator[str]:
    own = {
        STORE_LABEL: request.store_id,
        RUN_LABEL: request.run,
        TARGET_LABEL: request.target,
        NODE_LABEL: request.node,
    }
    for name, value in {**settings.labels, **own}.items():
        yield from ("--label", f"{name}={value}")


def _limit_options(settings: ContainerSettings) -> Iterator[str]:
    yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges:true")
    memory = settings.memory.replace(" ", "").lower().replace("i", "")
    yield from ("--memory", memory, "--memory-swap", memory)  # equal: no swap
    if settings.cpu_shares is not None:
        yield from ("--cpu-shares", str(settings.cpu_shares))
    if settings.cpu_period is not None:
        yield from ("--cpu-period", str(settings.cpu_period))
    if settings.cpu_quota is not None:
        yield from ("--cpu-quota", str(settings.cpu_quota))
    yield from ("--pids-limit", str(settings.pids_limit))
    for folder in settings.tmpfs:
        yield from ("--tmpfs", folder)


def _network_options(settings: ContainerSettings) -> Iterator[str]:
    yield from ("--network", settings.network)
    for port in settings.ports:
        yield from ("--publish", port)


def _host_config_options(host_config: Mapping[str, object]) -> Iterator[str]:
    unsupported = unsupported_host_options(host_config)
    if unsupported:
        names, known = ", ".join(unsupported), ", ".join(_HOST_OPTIONS)
        message = f"docker.host_config has options that are not supported: {names}."
        raise IsolationUnavailable(f"{message} Supported: {known}.")
    try:
        yield from _iter_host_options(host_config)
    except (AttributeError, KeyError, TypeError) as error:
        raise IsolationUnavailable(f"docker.host_config is not as Docker's API has it: {error}.") from error


def _iter_host_options(config: Mapping[str, object]) -> Iterator[str]:
    if "ShmSize" in config:
        yield from ("--shm-size", str(config["ShmSize"]))
    for device in _entries(config, "Devices"):
        host, inside = device["PathOnHost"], device.get("PathInContainer", device["PathOnHost"])
        yield from ("--device", f"{host}:{inside}:{device.get('CgroupPermissions', 'rwm')}")
    for limit in _entries(config, "Ulimits"):
        yield from ("--ulimit", f"{limit['Name']}={limit['Soft']}:{limit['Hard']}")
    for name, option in (("ExtraHosts", "--add-host"), ("Dns", "--dns")):
        values = config.get(name) or []
        if not isinstance(values, list | tuple):
            raise TypeError(f"{name} is not a list")
        for value in values:
            yield from (option, str(value))
    sysctls = config.get("Sysctls") or {}
    if not isinstance(sysctls, Mapping):
        raise TypeError("Sysctls is not a mapping")
    for name, value in sysctls.items():
        yield from ("--sysctl", f"{name}={value}")


def _entries(config: Mapping[str, object], name: str) -> Iterator[Mapping[str, object]]:
    values = config.get(name) or []
    if not isinstance(values, list | tuple) or not all(isinstance(value, Mapping) for value in values):
        raise TypeError(f"{name} is not a list of mappings")
    yield from values


def _visible_options(request: SandboxRequest, settings: ContainerSettings) -> Iterator[str]:
    """Yield the mounts. `--mount` fails for a source that is missing, where `--volume` would create it as root."""
    home = Mount(source=request.home, target=AGENT_HOME, access=Access.READ_WRITE)
    workspace = Mount(source=request.workspace, target=WORKSPACE, access=request.spec.workspace)
    volumes = [_parse_volume(text, request.folder) for text in settings.volumes]
    mounts = [home, workspace, *request.mounts, *volumes]
    for mount in mounts:
        yield from ("--mount", _mount_option(mount))
    for mask in request.masks:
        for mount in mounts:
            if is_below(mask.path, mount.source):
                yield from _mask_option(mask, mount)
    for mount in (*request.late_mounts, *request.credentials):
        yield from ("--mount", _mount_option(mount))


def volume_sources(settings: ContainerSettings, folder: str) -> list[str]:
    """Return the folders of the host that a container sees through its volumes."""
    return [_parse_volume(text, folder).source for text in settings.volumes]


def _parse_volume(text: str, folder: str) -> Mount:
    source, _, rest = text.partition(":")
    target, _, options = rest.partition(":")
    source = os.path.realpath(Path(folder) / Path(source).expanduser())
    access = Access.READ_ONLY if "ro" in options.split(",") else Access.READ_WRITE
    return Mount(source=source, target=target or source, access=access)


def _mount_option(mount: Mount) -> str:
    if "," in mount.source + mount.place or '"' in mount.source + mount.place:
        raise IsolationUnavailable(f'"{mount.source}" has a comma or a quote in its path, which Docker cannot mount.')
    ending = ",readonly" if mount.access is Access.READ_ONLY else ""
    return f"type=bind,src={mount.source},dst={mount.place}{ending}"


def _mask_option(mask: Mask, mount: Mount) -> Iterator[str]:
    place = mount.place.rstrip("/") + mask.path.removeprefix(mount.source.rstrip("/"))
    option = f"type=tmpfs,dst={place}" if mask.is_folder else f"type=bind,src=/dev/null,dst={place},readonly"
    yield from ("--mount", option)


def _inner_path(request: SandboxRequest, path: str) -> str:
    return WORKSPACE + path.removeprefix(request.workspace.rstrip("/")) if is_below(path, request.workspace) else path


def _environment_options(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        # Names that the client reads itself have its own values there, so those of the program are written out.
        yield from ("--env", f"{name}={value}" if _is_client_variable(name) else name)


def _client_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the client itself needs: where the engine is, and how to reach it."""
    return {name: value for name, value in environ.items() if _is_client_variable(name)}


def _is_client_variable(name: str) -> bool:
    return name in _CLIENT_VARIABLES or name.startswith("DOCKER_")


def _read_engine(note: Path) -> str:
    try:
        return str(json.loads(note.read_text(encoding="utf-8"))["engine"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
