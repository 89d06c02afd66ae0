"""Installs what the system tests need, once, and says what it does: `python -m tests.system.install`.

Debian packages need root or sudo. The agent CLIs and Ray go to a cache folder, by lock files with a hash for every
package.
No part stops the others: one that cannot be had is listed with its reason.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.system.parts import (
    DEBIAN_PARTS,
    NPM_PARTS,
    PYTHON_PARTS,
    DebianPart,
    NpmPart,
    PartState,
    PythonPart,
    cache_folder,
    candidates,
    write_states,
)

INSTALL_TIMEOUT_S = 900
_WHOLE = "installed"


class InstallFailed(Exception):
    """A part could not be installed; the message is one line with the reason."""


def main() -> None:
    states = [_install(part) for part in (*DEBIAN_PARTS, *NPM_PARTS, *PYTHON_PARTS)]
    write_states(states)
    for state in states:
        print(f"   {state.name:<11} {f'NOT INSTALLED: {state.missing}' if state.missing else state.version}")


def _install(part: DebianPart | NpmPart | PythonPart) -> PartState:
    try:
        program = _find_or_install(part)
        argv = part.version if isinstance(part, DebianPart) else ("--version",)
        return PartState(name=part.name, program=str(program), version=_ask_version(program, argv))
    except InstallFailed as failure:
        return PartState(name=part.name, missing=str(failure))


def _find_or_install(part: DebianPart | NpmPart | PythonPart) -> Path:
    match part:
        case DebianPart():
            return _install_debian(part)
        case NpmPart():
            return _install_npm(part)
        case PythonPart():
            return _install_python(part)


def _install_debian(part: DebianPart) -> Path:
    if found := shutil.which(part.program):
        return Path(found)
    if shutil.which("apt-get") is None:
        raise InstallFailed(f"there is no `{part.program}` and no apt-get; install {' '.join(part.packages)}")
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if as_root and shutil.which("sudo") is None:
        raise InstallFailed(f"needs root or sudo for: apt-get install {' '.join(part.packages)}")
    print(f"   installing Debian packages {'by sudo' if as_root else 'as root'}: {' '.join(part.packages)}", flush=True)
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *part.packages]
    try:
        _run([*as_root, *install])
    except InstallFailed:  # often only the lists are missing or old
        _run([*as_root, "apt-get", "update"])
        _run([*as_root, *install])
    found = shutil.which(part.program)
    if not found:
        raise InstallFailed(f"{' '.join(part.packages)} was installed and has no `{part.program}`")
    return Path(found)


def _install_npm(part: NpmPart) -> Path:
    if not part.folder.exists():
        _fetch(part)
    for path in candidates(part):
        try:
            _ask_version(path)
        except InstallFailed:
            continue
        return path
    raise InstallFailed(f"no program of {part.folder} starts on this machine")


def _fetch(part: NpmPart) -> None:
    """Install by the lock file into a new folder, which then gets its name in one step: half a folder is never used."""
    if shutil.which("npm") is None:
        raise InstallFailed("npm is missing")
    print(f"   installing {part.name} from the npm registry into {part.folder}", flush=True)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=f".{part.name}-") as name:
        folder = Path(name) / "new"
        shutil.copytree(part.lock.parent, folder)
        # Without install scripts: what they would copy is found where it is. Not `npm ci`, which refuses a lock that
        # lacks the variants of other platforms, though it never installs them; versions and hashes are checked alike.
        _run(["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        if not part.folder.exists():  # another checkout may have been quicker
            folder.rename(part.folder)


def _install_python(part: PythonPart) -> Path:
    """Install by the lock file. A mark says that it is whole: an environment cannot be made elsewhere and moved."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f".{part.name}.lock").open("w") as turn:  # another checkout may be installing it
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (part.folder / _WHOLE).exists():
            _install_packages(part)
    return part.folder / "bin" / part.name


def _install_packages(part: PythonPart) -> None:
    print(f"   installing {part.name} from the Python registry into {part.folder}", flush=True)
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(part.folder)])
    uv, python = Path(sys.executable).parent / "uv", part.folder / "bin" / "python"
    packages = ["--require-hashes", "--only-binary", ":all:", "-r", str(part.lock)]
    _run([str(uv), "pip", "install", "--quiet", "--python", str(python), *packages])
    (part.folder / _WHOLE).touch()


def _ask_version(program: Path, argv: Sequence[str] = ("--version",)) -> str:
    lines = [line.strip() for line in _run([str(program), *argv]).splitlines()]
    named = [line for line in lines if line.startswith("gitVersion")]  # kubectl prints a document
    return (named or lines or ["unknown version"])[0]


def _run(argv: Sequence[str], folder: Path | None = None) -> str:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "DISABLE_AUTOUPDATER": "1"}
    try:
        done = subprocess.run(
            argv, cwd=folder, env=env, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"{Path(argv[0]).name}: {error}") from error
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reasons = [line for line in lines if "complete log of this run" not in line]
        raise InstallFailed(f"`{' '.join(argv[:2])}` failed: {reasons[-1] if reasons else done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
