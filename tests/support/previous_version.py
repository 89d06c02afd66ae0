"""The previous version in a folder of its own: what a fleet is upgraded from, one node after the other.

It comes from git: the newest revision whose package differs from this one, or the one that `HERDBEAT_TEST_PREVIOUS`
names. Without history (an archive of a release, a shallow clone) this version itself is used: that still tests the
handover, and `revision` says so.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.fault_fleet import ROOT

REVISION_VARIABLE = "HERDBEAT_TEST_PREVIOUS"
VERSION = "0.0.1+previous"
"""The version that its nodes report."""

CURRENT_REVISION = "this one"
_PROGRAM_PATHS = ("src", "tests/faults/node_process.py")
_CLI_MODULE = "herdbeat.faces.cli"  # both versions have this module; `herdbeat` alone is newer


@dataclass(frozen=True, slots=True)
class PreviousVersion:
    code: Path
    revision: str

    @classmethod
    def unpack(cls, folder: Path) -> "PreviousVersion":
        revision = os.environ.get(REVISION_VARIABLE) or _revision()
        folder.mkdir()
        if revision is None:
            for each in _PROGRAM_PATHS:
                _copy(ROOT / each, folder / each)
        else:
            archive = _run_git("archive", "--format=zip", revision, *_PROGRAM_PATHS)
            with zipfile.ZipFile(io.BytesIO(archive)) as packed:
                packed.extractall(folder)
        names = folder / "src" / "herdbeat" / "__init__.py"
        marked = re.sub(r'__version__ = ".*"', f'__version__ = "{VERSION}"', names.read_text(encoding="utf-8"))
        names.write_text(marked, encoding="utf-8")
        return cls(folder, revision or CURRENT_REVISION)

    def apply(self, home: Path) -> None:
        """Apply the files with the old program, as a user would; this also creates the tables."""
        environ = os.environ | {"PYTHONPATH": str(self.code / "src")}
        done = subprocess.run(
            [sys.executable, "-m", _CLI_MODULE, "apply", "--yes"],
            cwd=home,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def _revision() -> str | None:
    """Return the revision of this checkout, not that of a checkout around it, if an archive was unpacked inside one."""
    if not (ROOT / ".git").exists():
        return None
    known = _run_git("log", "-2", "--format=%H", "--", "src").decode().split()
    is_edited = bool(_run_git("status", "--porcelain", "--", "src").strip())
    earlier = known if is_edited else known[1:]
    return earlier[0] if earlier else None


def _run_git(*arguments: str) -> bytes:
    """Run git, regardless of the owner of the checkout."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, to)
