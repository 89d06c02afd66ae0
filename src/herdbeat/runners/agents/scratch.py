"""Files of one run that only its program reads: prompts, system prompts, MCP servers. They may hold secrets."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.errors import RunnerError
from herdbeat.runners.run_log import require_no_link

if TYPE_CHECKING:  # a node without agents removes leftovers, and need not know what an invocation is
    from herdbeat.runners.agents.invocation import ScratchFile

SCRATCH_FOLDER = "agents"
"""The folder in the state directory; it has one folder per active run."""


def remove_leftovers(state_dir: Path) -> None:
    """Remove what a killed node has left. Called before anything is started."""
    shutil.rmtree(state_dir / SCRATCH_FOLDER, ignore_errors=True)


@contextmanager
def open_scratch(state_dir: Path, name: str) -> Iterator[Path]:
    """Yield the path of a run's own folder. It is made by the first file, and removed when the block is left."""
    folder = state_dir / SCRATCH_FOLDER / name
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_files(state_dir: Path, folder: Path, files: "Iterable[ScratchFile]") -> None:
    """Write the files, readable by this user only. Raises RunnerError: a full disk is not the target's fault."""
    for file in files:
        path = Path(file.path)
        try:
            # One by one: with `parents` only the last one gets the mode.
            for each in (state_dir, state_dir / SCRATCH_FOLDER, folder):
                each.mkdir(mode=0o700, exist_ok=True)
            for each in (state_dir / SCRATCH_FOLDER, folder):
                require_no_link(each)
            path.unlink(missing_ok=True)
            # Created here or refused: a link that somebody puts there meanwhile is not followed.
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as opened:
                opened.write(file.text.encode("utf-8", "replace"))
        except OSError as error:
            message = f"A file for the agent could not be written to {path}: {error.strerror}."
            raise RunnerError(message, hint="Check the disk and the permissions of the state directory.") from error
