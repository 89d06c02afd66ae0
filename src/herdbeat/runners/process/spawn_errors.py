"""Explains why a program could not be started, and how to fix it."""

import errno
import os
import shutil
from pathlib import Path

from herdbeat.errors import RunnerError

MACHINE_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
"""The machine lacks a resource: not the target's fault, and another attempt may succeed."""


def explain_spawn_error(error: OSError | ValueError, argv: tuple[str, ...], folder: str, path: str | None) -> str:
    """Return one or two sentences. Raises RunnerError if the fault is the machine's and not the target's."""
    if isinstance(error, ValueError):
        return "The program cannot be started: an argument or a variable holds a NUL character. Take it out."
    if error.errno in MACHINE_ERRNOS:
        message = f"No process could be started: {error.strerror}."
        raise RunnerError(message, hint="Look at the limits on processes and open files (ulimit -a).") from error
    if not Path(folder).is_dir():
        return f'The working directory "{folder}" does not exist. Create it, or correct working_directory.'
    program = argv[0]
    match error.errno:
        case errno.ENOENT:
            return _not_found(program, folder, path)
        case errno.EACCES:
            return _not_allowed(program, folder)
        case errno.ENOEXEC:
            return f'"{program}" is not a program this machine can run. A script needs a first line such as #!/bin/sh.'
        case errno.E2BIG:
            return "The prompt is too long for an argument. Write {prompt_file} instead of {prompt}, or use stdin."
        case _:
            return f'"{program}" could not be started: {error.strerror}.'


def _not_found(program: str, folder: str, path: str | None) -> str:
    if os.sep not in program and shutil.which(program, path=path) is None:
        return f'There is no program "{program}" on the PATH. Install it, or write its full path.'
    if (Path(folder) / program).is_file() or os.sep not in program:
        return f'"{program}" names an interpreter in its first line that does not exist. Correct that line.'
    return f'There is no file "{program}" (seen from {folder}). Correct the path in command.'


def _not_allowed(program: str, folder: str) -> str:
    if os.access(folder, os.X_OK):
        return f'"{program}" may not be executed. Make it executable (chmod +x), or put its interpreter before it.'
    return f'The working directory "{folder}" may not be entered by this user. Mend its permissions.'
