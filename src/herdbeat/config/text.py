"""A file as text, within limits. Everything that can be wrong before YAML begins is said here."""

import re
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.report import ValidationError
from herdbeat.errors import SourceLocation

MAX_FILE_BYTES = 1024 * 1024
"""Bytes. A fleet of eight thousand schedules fits; a log that was named by mistake does not."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_text(path: Path, display_name: str) -> str:
    """The file's text. Raises Misfit, which says why there is none."""
    where = SourceLocation(file=display_name, line=1, column=1)
    try:
        if path.exists() and not path.is_file():
            # A folder says so itself; a pipe would let us wait for ever.
            raise ValidationError(
                Code.UNREADABLE_FILE,
                f'"{display_name}" is not a file.',
                hint="Name the file itself.",
                where=where,
            )
        # Reading one byte too many finds a large file out without taking it in.
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        message = (
            f'"{display_name}" is a link to nowhere.' if path.is_symlink() else f'There is no file "{display_name}".'
        )
        raise ValidationError(Code.FILE_NOT_FOUND, message, hint="Correct the path.", where=where) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValidationError(
            Code.UNREADABLE_FILE,
            f'"{display_name}" cannot be read: {reason}.',
            hint="Mend the path, or its permissions.",
            where=where,
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ValidationError(
            Code.YAML_LIMIT,
            f'"{display_name}" is larger than 1 MiB.',
            hint="Split it: agents may stand in files of their own (path:).",
            where=where,
        )
    return _decode(data, where)


def _decode(data: bytes, where: SourceLocation) -> str:
    try:
        # A byte order mark at the start is an editor's habit and harmless.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        raise ValidationError(
            Code.UNREADABLE_FILE,
            f"The file is not UTF-8: byte 0x{data[error.start]:02x} cannot be read.",
            hint="Save it as UTF-8.",
            where=_location_after(before, where),
        ) from error
    text = text.replace("\r\n", "\n")
    if found := _CONTROL_CHARACTER.search(text):
        raise ValidationError(
            Code.YAML_SYNTAX,
            f"The file holds a control character (U+{ord(found[0]):04X}).",
            hint="Remove it; in a quoted text it can be written as an escape.",
            where=_location_after(text[: found.start()], where),
        )
    return text


def _location_after(before: str, where: SourceLocation) -> SourceLocation:
    line = before.count("\n") + 1
    return SourceLocation(file=where.file, line=line, column=len(before.rpartition("\n")[2]) + 1)
