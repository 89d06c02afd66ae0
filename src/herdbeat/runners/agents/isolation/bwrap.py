"""Bubblewrap: the program sees system folders, its workspace and its own home, and nothing else of the host.

The root is empty at first. So a folder that nobody thought of is hidden, not visible.
"""

import subprocess
from collections.abc import Iterator
from shutil import which

from herdbeat.domain.isolation import Access, IsolationSpec
from herdbeat.platform import PROC, default_signals
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

SYSTEM_FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store"),
    *("/snap", "/var/lib/ca-certificates"),
)
"""Programs, libraries and settings of the system, read-only, as far as they exist."""

PRIVATE_SYSTEM_PATHS = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private")
"""Readable by root, who may run a node."""

_PROBE_TIMEOUT_S = 10.0
_ERROR_PREFIX = "bwrap: "
_INSTALL_HINT = "Install bubblewrap (apt install bubblewrap), or remove isolation."
_USERNS_HINT = (
    "Allow user namespaces for this user: sysctl kernel.unprivileged_userns_clone=1,"
    " or on Ubuntu an AppArmor profile for bwrap."
)


class Bubblewrap:
    """Confines programs with bwrap. `program` is its file; it is looked for on the PATH otherwise."""

    def __init__(self, program: str | None = None, resolver: str = "", path: str | None = None) -> None:
        self._program = program or which("bwrap", path=path) or ""
        self._resolver = resolver
        self._is_usable = False

    def prepare(self, spec: IsolationSpec) -> None:  # noqa: ARG002 - the shape of an isolation
        """Start one empty sandbox, once per node: user namespaces may be missing or forbidden."""
        if self._is_usable:
            return
        if not self._program:
            raise IsolationUnavailable("There is no bwrap on the PATH.", _INSTALL_HINT)
        argv = (self._program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--", "/bin/true")
        try:
            with default_signals() as preexec_fn:
                done = subprocess.run(  # noqa: S603  a fixed program
                    argv,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PROBE_TIMEOUT_S,
                    check=False,
                    preexec_fn=preexec_fn,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise IsolationUnavailable(f"bwrap cannot be started: {error}.", _INSTALL_HINT) from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
            raise IsolationUnavailable(f"bwrap cannot make a sandbox ({said}).", _USERNS_HINT)
        self._is_usable = True

    def wrap(self, request: SandboxRequest) -> SandboxedProgram:
        options = [
            *self._namespaces(request.spec),
            *self._system(request.spec),
            *("--bind", request.home, AGENT_HOME),
            *_mount_options(request.programs),
            *_mount_options(request.mounts),
            *_mount_options([Mount(source=request.workspace, access=request.spec.workspace)]),
            *_mask_options(request.masks),
            *_mount_options(request.late_mounts),
            *_mount_options(request.credentials),
            *("--chdir", request.folder),
        ]
        # The environment is that of bwrap itself, which hands it on: as options, every user could read it with ps.
        return SandboxedProgram(
            argv=(self._program, *options, "--", *request.argv),
            folder=request.folder,
            environment=inner_environment(request.environment),
        )

    def explain_exit(self, program: SandboxedProgram, status: int, errors: str) -> str:  # noqa: ARG002
        last_error = errors.strip().rpartition("\n")[2]
        if status != 1 or not last_error.startswith(_ERROR_PREFIX):
            return ""
        return f"The sandbox could not be made: {last_error.removeprefix(_ERROR_PREFIX)}"

    def end(self, program: SandboxedProgram) -> str:  # noqa: ARG002 - the shape of an isolation
        """Nothing is left: all processes are in a namespace that ends with the started one."""
        return ""

    def _namespaces(self, spec: IsolationSpec) -> Iterator[str]:
        yield "--unshare-all"
        if spec.network:
            yield "--share-net"
        yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")

    def _system(self, spec: IsolationSpec) -> Iterator[str]:
        for folder in SYSTEM_FOLDERS:
            yield from ("--ro-bind-try", folder, folder)
        for folder in ("/tmp", "/var/tmp", "/run"):  # noqa: S108  folders of the sandbox
            yield from ("--tmpfs", folder)
        yield from ("--symlink", "/run", "/var/run", "--proc", PROC, "--dev", "/dev")
        # /etc/resolv.conf is often a link into /run, which is hidden.
        if spec.network and is_below(self._resolver, "/run"):
            yield from ("--ro-bind-try", self._resolver, self._resolver)


def _mount_options(mounts: "tuple[Mount, ...] | list[Mount]") -> Iterator[str]:
    for mount in mounts:
        yield from ("--bind" if mount.access is Access.READ_WRITE else "--ro-bind", mount.source, mount.place)


def _mask_options(masks: tuple[Mask, ...]) -> Iterator[str]:
    for mask in masks:
        # A device cannot be opened in a sandbox, so the name of a masked file is there, and cannot be read.
        yield from ("--tmpfs", mask.path) if mask.is_folder else ("--ro-bind", "/dev/null", mask.path)
