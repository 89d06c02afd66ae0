"""The contract of the means of isolation, and the values that they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from herdbeat.domain.isolation import Access, IsolationSpec

AGENT_HOME = "/home/agent"
"""The home folder inside of any isolation. The home of the user who runs the node does not exist there."""

CONFIG_HOMES: Mapping[str, str] = {
    "CLAUDE_CONFIG_DIR": f"{AGENT_HOME}/.claude",
    "CODEX_HOME": f"{AGENT_HOME}/.codex",
}
"""Where the CLIs keep settings and sessions: in the agent's own home, never in the user's."""

HOST_VARIABLES = frozenset(
    {"HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}
    | {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY"}
    | {"DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "CONTAINER_HOST"}
)
"""Variables that name a place on the host that is hidden, or a way out."""


class IsolationUnavailable(Exception):
    """The isolation that was asked for is not available. The run is not started. Its text says why and what to do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(f"{reason} {hint}".rstrip())
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the host that the program sees, at its own path unless `target` names another."""

    source: str
    target: str = ""
    access: Access = Access.READ_ONLY

    @property
    def place(self) -> str:
        return self.target or self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A path of the host that must not be seen, although it lies in a folder that is."""

    path: str
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """One program to confine. All paths are real paths of the host, without links.

    `workspace` is what the program works on, `folder` its working directory in that. `home` is the folder of this agent
    alone that becomes its home. `programs` is what its program file needs, at the same paths. `mounts` are further
    files and folders, `masks` all that is hidden in any of them, and `late_mounts` what is visible nevertheless: the
    folder of the run in the state directory. `credentials` go into the home.
    """

    run: str
    target: str
    node: str
    store_id: str
    spec: IsolationSpec
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    folder: str
    workspace: str
    home: str
    programs: tuple[Mount, ...] = ()
    mounts: tuple[Mount, ...] = ()
    masks: tuple[Mask, ...] = ()
    late_mounts: tuple[Mount, ...] = ()
    credentials: tuple[Mount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxedProgram:
    """What to start instead. `container` names what outlives a kill of the started process; empty if nothing does."""

    argv: tuple[str, ...]
    folder: str
    environment: Mapping[str, str] = field(repr=False)
    container: str = ""


class Isolation(Protocol):
    """One means of isolation. Its methods may block: call them in a thread, except `wrap`, which is pure."""

    def prepare(self, spec: IsolationSpec) -> None:
        """Find out whether runs can be isolated like this now. Raises IsolationUnavailable."""
        ...

    def wrap(self, request: SandboxRequest) -> SandboxedProgram:
        """Return the command line that starts the program confined. Raises IsolationUnavailable."""
        ...

    def explain_exit(self, program: SandboxedProgram, status: int, errors: str) -> str:
        """Return why the isolation failed, if that ended the run; empty if the program itself ended so.

        `errors` is the end of what was printed on stderr.
        """
        ...

    def end(self, program: SandboxedProgram) -> str:
        """End what is left of a run, whatever its process did; return a remark for its log, or an empty text."""
        ...


def is_below(path: str, folder: str) -> bool:
    """True if the path is the folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def inner_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment inside: without variables that point out of it, with a home of its own.

    IS_SANDBOX tells Claude Code that it is confined: otherwise it refuses to work unasked as root.
    """
    kept = {name: value for name, value in environment.items() if name not in HOST_VARIABLES}
    return kept | {"HOME": AGENT_HOME, "IS_SANDBOX": "1", **CONFIG_HOMES}
