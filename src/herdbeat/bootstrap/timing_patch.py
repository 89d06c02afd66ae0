"""The patch that changes the timing of a schedule in its file, for whoever may see that file."""

import os
from dataclasses import dataclass
from pathlib import Path

from herdbeat.bootstrap.remote_specs import ConfigSource
from herdbeat.config.timing_patch import NoPatch, TimingChange, build_timing_patch
from herdbeat.redaction import redact

MAX_FILE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """A unified diff, and the folder in which `git apply` or `patch -p1` takes it."""

    text: str
    folder: str


def read_timing_patch(origin: str, kind: str, value: str, source: ConfigSource) -> FilePatch:
    """Return the patch for the schedule that is defined at `file:line:column`. Raises NoPatch.

    A patch that would show a secret is not made: it would have to be hidden, and then it would not apply.
    """
    file, line, column = _split_origin(origin)
    path = (source.folder / file).absolute()
    change = TimingChange(line=line, column=column, kind=kind, value=value)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise NoPatch(f"{file} is too large for a patch.", hint=f"Write at line {line}: {change.describe()}")
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = f"Write at line {line}: {change.describe()}"
        raise NoPatch(f"{file} cannot be read on this machine.", hint=hint) from error
    home = Path(source.path).parent if source.path and not Path(source.path).is_dir() else Path(source.path or ".")
    folder = home if path.is_relative_to(home) else path.parent
    patch = build_timing_patch(text, path.relative_to(folder).as_posix(), change)
    if redact(patch) != patch:
        message = f"The lines around {file}:{line} have a secret, so no patch is shown."
        raise NoPatch(message, hint=f"Write there: {change.describe()}")
    return FilePatch(text=patch, folder=os.fspath(folder))


def _split_origin(origin: str) -> tuple[str, int, int]:
    file, _, column = origin.rpartition(":")
    file, _, line = file.rpartition(":")
    if not (file and line.isdecimal() and column.isdecimal()):
        raise NoPatch("The schedule has no place in a file.", hint="Change it with: herdbeat update")
    return file, int(line), int(column)
