"""What an isolated program must not see, and what it needs to see: sockets, state, logins, program files.

This module looks at the host; the means of isolation build their command lines from what it returns.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from herdbeat.domain.isolation import Access
from herdbeat.platform import PROC
from herdbeat.runners.agents.isolation.base import AGENT_HOME, IsolationUnavailable, Mask, Mount, is_below

SOCKET_VARIABLES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS")
KNOWN_SOCKETS = (
    *("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"),
    *("/run/crio/crio.sock", "/run/buildkit/buildkitd.sock"),
)
UNIX_SOCKETS_TABLE = Path(PROC, "net", "unix")


@dataclass(frozen=True, slots=True)
class Login:
    """The file in which a CLI keeps its login: below the folder that a variable names, else below the home."""

    variable: str
    folder: str
    file: str


LOGINS: Mapping[str, Login] = {
    "claude": Login("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),
    "codex": Login("CODEX_HOME", ".codex", "auth.json"),
    "gemini": Login("", ".gemini", "oauth_creds.json"),
    "qwen": Login("", ".qwen", "oauth_creds.json"),
    "opencode": Login("", ".local/share/opencode", "auth.json"),
    "copilot": Login("", ".copilot", "config.json"),
    "cursor": Login("", ".config/cursor", "auth.json"),
    "amp": Login("", ".local/share/amp", "secrets.json"),
}
"""By the name of the program that the runtime starts."""


def find_credentials(runtime: str, environ: Mapping[str, str], access: Access) -> tuple[Mount, ...]:
    """Return the login of a CLI as a file of the agent's home; nothing if there is none."""
    login = LOGINS.get(runtime)
    if login is None:
        return ()
    home = environ.get("HOME") or str(Path.home())
    folder = environ.get(login.variable, "") if login.variable else ""
    source = os.path.realpath(Path(folder or Path(home) / login.folder) / login.file)
    if not Path(source).is_file():
        return ()
    return (Mount(source=source, target=f"{AGENT_HOME}/{login.folder}/{login.file}", access=access),)


def find_program(
    argv: tuple[str, ...], environ: Mapping[str, str], hidden: Iterable[str], system_folders: Iterable[str]
) -> "FoundProgram":
    """Return the file that `argv` names on the host, and what has to be visible so that it can start.

    A program in the system folders needs nothing. One in the user's home, which is hidden, needs its own file; one of
    npm its packages, one of a virtual environment that environment. A folder that contains something hidden is never
    made visible. A program with a relative path is taken as it is: it lies in the workspace.
    """
    found = which(argv[0], path=environ.get("PATH"))
    if found is None or not Path(found).is_absolute():
        return FoundProgram(argv, ())
    hidden, visible = tuple(hidden), tuple(system_folders)
    home = environ.get("HOME") or str(Path.home())
    mounts: list[Mount] = []
    for program in (found, _interpreter(found, environ)):
        for place in _required_folders(program, home) if program else ():
            is_known = _is_inside_any(place, (*visible, *(mount.source for mount in mounts)))
            if not is_known and not any(is_below(each, place) for each in hidden):
                mounts.append(Mount(source=place))
    if not _is_inside_any(found, (*visible, *(mount.source for mount in mounts))):
        # The name of a program is often a link; in a hidden folder there is no link, so the file itself has its place.
        mounts.append(Mount(source=os.path.realpath(found), target=found))
    return FoundProgram((found, *argv[1:]), tuple(mounts))


@dataclass(frozen=True, slots=True)
class FoundProgram:
    argv: tuple[str, ...]
    mounts: tuple[Mount, ...]


def _required_folders(program: str, home: str) -> Iterator[str]:
    """Yield the folders that belong to a program: its environment of Python, its packages of npm, its own folder."""
    path, real = Path(program), Path(os.path.realpath(program))
    for environment in {path.parent.parent, real.parent.parent}:
        if (environment / "pyvenv.cfg").is_file():
            yield str(environment)
    packages = [parent for parent in real.parents if parent.name == "node_modules"]
    if packages:
        yield str(packages[-1])
        return
    prefix = real.parent.parent
    has_lib = real.parent.name == "bin" and (prefix / "lib").is_dir()
    if has_lib and prefix not in (Path(home), Path(home) / ".local"):
        yield str(prefix)  # an installation with its own bin and lib, for example of nvm, uv or pyenv
        return
    yield str(real)
    if has_lib:
        yield str(prefix / "lib")  # of ~/.local, whose other folders hold what is to be hidden


def _interpreter(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the interpreter that the first line of a script names, or None."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    if not words:
        return None
    return words[0] if os.sep in words[0] else which(words[0], path=environ.get("PATH"))


def find_masks(visible: Iterable[str], hidden_paths: Iterable[str], environ: Mapping[str, str]) -> tuple[Mask, ...]:
    """Return what must be masked in the visible folders: the hidden paths in them, and every Unix socket.

    Raises IsolationUnavailable if a visible folder is itself hidden.
    """
    folders = [os.path.realpath(folder) for folder in visible]
    hidden = [os.path.realpath(path) for path in hidden_paths]
    for folder in folders:
        if folder in hidden:
            message = (
                f'"{folder}" is hidden from isolated agents: it is your home, the state directory or a fleet file.'
            )
            raise IsolationUnavailable(f"{message} Use another working_directory or folder.")
    inside = [path for path in hidden if _is_inside_any(path, folders) and os.path.lexists(path)]
    masked_folders = [path for path in inside if Path(path).is_dir()]
    sockets = [path for path in find_sockets(environ) if _is_inside_any(path, folders)]
    files = [path for path in (*inside, *sockets) if path not in masked_folders]
    masks = [Mask(path=path, is_folder=True) for path in sorted(set(masked_folders))]
    masks += [Mask(path=path, is_folder=False) for path in sorted(set(files))]
    # What lies in a masked folder is gone with it.
    return tuple(
        mask
        for mask in masks
        if not any(is_below(mask.path, folder) and mask.path != folder for folder in masked_folders)
    )


def _is_inside_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


def find_sockets(environ: Mapping[str, str], table: Path = UNIX_SOCKETS_TABLE) -> list[str]:
    """Return the paths of Unix sockets: those that programs listen on, and those of agents and container engines."""
    named = [_socket_path(environ.get(name, "")) for name in SOCKET_VARIABLES]
    return sorted(
        {os.path.realpath(path) for path in (*named, *KNOWN_SOCKETS, *_bound_sockets(table)) if _is_socket(path)}
    )


def _socket_path(text: str) -> str:
    """Return the path in `unix:///run/x.sock`, `unix:path=/run/x,guid=5`, `/run/x:0:1` or `/run/x`."""
    path = text.removeprefix("unix:").removeprefix("path=")
    path = "/" + path.lstrip("/") if path.startswith("/") else ""
    return path.partition(",")[0].partition(":")[0]


def _bound_sockets(table: Path) -> Iterator[str]:
    try:
        text = table.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return  # not on this system
    for line in text.splitlines():
        path = line.partition(" /")[2]
        if path:
            yield f"/{path}"


def _is_socket(path: str) -> bool:
    try:
        return bool(path) and stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  Path.stat is the same, slower
    except (OSError, ValueError):
        return False
