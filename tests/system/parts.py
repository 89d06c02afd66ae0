"""What the system tests need: programs of Debian, agent CLIs of the npm registry (`clis/`), and Ray (`ray/`).

`install.py` writes what it found or installed to `.system/parts.json`; the tests read it. A part that is not there has
a reason, and the tests that need it are reported as not run.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK_FOLDER = ROOT / ".system"
"""Made by `make test-system`: the list of parts, and the temporary files of the tests."""
PARTS_FILE = Path(os.environ.get("HERDBEAT_SYSTEM_PARTS") or WORK_FOLDER / "parts.json")
CLIS_FOLDER = Path(__file__).parent / "clis"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianPart:
    """A program of a Debian package."""

    name: str
    program: str
    packages: tuple[str, ...]
    version: tuple[str, ...] = ("--version",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPart:
    """An agent CLI. `programs` are patterns under `node_modules`; the first file that starts is the CLI.

    Some packages ship their program in one package per platform and copy it by an install script. Scripts are not run
    here, so the patterns name the program itself.
    """

    name: str
    programs: tuple[str, ...]

    @property
    def lock(self) -> Path:
        return CLIS_FOLDER / self.name / "package-lock.json"

    @property
    def folder(self) -> Path:
        """Where it is installed. Other versions have other folders, so that checkouts can share the cache."""
        return cache_folder() / f"{self.name}-{hashlib.sha256(self.lock.read_bytes()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonPart:
    """A Python program with an environment of its own: its packages need not agree with ours."""

    name: str

    @property
    def lock(self) -> Path:
        return Path(__file__).parent / self.name / "requirements.lock"

    @property
    def folder(self) -> Path:
        """Where its environment is. Scripts in it name this folder, so it cannot be moved."""
        digest = hashlib.sha256(self.lock.read_bytes() + sys.version.encode()).hexdigest()
        return cache_folder() / f"{self.name}-{digest[:12]}"


DEBIAN_PARTS = (
    DebianPart(name="npm", program="npm", packages=("nodejs", "npm")),
    DebianPart(name="git", program="git", packages=("git",)),
    DebianPart(name="bubblewrap", program="bwrap", packages=("bubblewrap",)),
    DebianPart(name="chromium", program="chromium", packages=("chromium",)),
    DebianPart(
        name="kubectl", program="kubectl", packages=("kubernetes-client",), version=("version", "--client", "-o=yaml")
    ),
)
NPM_PARTS = (
    NpmPart(name="claude", programs=("@anthropic-ai/claude-code-linux-*/claude",)),
    NpmPart(name="codex", programs=(".bin/codex",)),
    NpmPart(name="gemini", programs=(".bin/gemini",)),
    NpmPart(name="qwen", programs=(".bin/qwen",)),
    NpmPart(name="opencode", programs=("opencode-linux-*/bin/opencode",)),
)

PYTHON_PARTS = (PythonPart(name="ray"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """A part on this machine: its program and version, or the reason why it is not there."""

    name: str
    program: str = ""
    version: str = ""
    missing: str = ""


def cache_folder() -> Path:
    """Return the folder that keeps CLIs and Ray between runs and checkouts: about 1.4 GB."""
    if own := os.environ.get("HERDBEAT_SYSTEM_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "herdbeat-tests"


def write_states(states: list[PartState]) -> None:
    WORK_FOLDER.mkdir(exist_ok=True)
    PARTS_FILE.write_text(json.dumps([asdict(each) for each in states], indent=2) + "\n", encoding="utf-8")


def read_states() -> dict[str, PartState]:
    """Return the parts by name. Exits with the command to run if nothing was installed."""
    if not PARTS_FILE.exists():
        sys.exit("The parts of the system tests are not installed. Run: make test-system")
    return {each["name"]: PartState(**each) for each in json.loads(PARTS_FILE.read_text(encoding="utf-8"))}


def candidates(part: NpmPart) -> Iterator[Path]:
    """Return the files that may be the program, in order."""
    for pattern in part.programs:
        yield from sorted((part.folder / "node_modules").glob(pattern))
