"""Calls of git: as data, without hooks, without prompts, and with a limit on their time.

A repository in which an agent has worked is not trusted: its hooks and its file system monitor are programs.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from herdbeat.platform import default_signals

GIT_TIMEOUT_S = 600.0
"""More than the checkout of a large repository needs. A run that waits for git can still be cancelled."""

SAFE_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")

_MAX_ERROR_CHARS = 400


class GitError(Exception):
    """A call failed. The text says which and why, for the user."""


class GitMissing(GitError):
    """There is no git on this machine."""


def run_git(folder: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what git prints. Raises GitError, and GitMissing if there is no git. Blocks: call it in a thread."""
    argv = ("git", *SAFE_OPTIONS, *arguments)
    try:
        with default_signals() as preexec_fn:
            done = subprocess.run(  # noqa: S603  an argument list
                argv,
                cwd=folder,
                env=git_environment(os.environ if environ is None else environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=GIT_TIMEOUT_S,
                check=False,
                preexec_fn=preexec_fn,
            )
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {arguments[0]} did not end within {GIT_TIMEOUT_S:.0f} seconds.") from error
    except OSError as error:
        if not folder.is_dir():
            raise GitError(f'The folder "{folder}" does not exist.') from error
        raise GitMissing("There is no git on the PATH. Install git.") from error
    if done.returncode:
        text = done.stderr.decode("utf-8", "replace").strip()
        raise GitError(f"git {arguments[0]} failed: {_last_lines(text) or f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def succeeds(folder: Path, *arguments: str) -> bool:
    """Return whether a call that only asks something succeeds. Raises GitMissing."""
    try:
        run_git(folder, *arguments)
    except GitMissing:
        raise
    except GitError:
        return False
    return True


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our calls: without variables that point git to another repository, and in English."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    # Without a prompt, a remote that needs a password fails at once instead of waiting for the timeout.
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("hint:", "Preparing "))]
    return " ".join(lines)[-_MAX_ERROR_CHARS:]
