"""Where a program finds its prompt: on stdin, in an argument, or in a file of its own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from herdbeat.errors import RunnerError

PROMPT_PLACEHOLDERS = re.compile(r"\{prompt(?:_file)?\}")
PROMPT_PLACEHOLDER, PROMPT_FILE_PLACEHOLDER = "{prompt}", "{prompt_file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """An argv with its prompt in place, and what is left to say on stdin."""

    argv: tuple[str, ...]
    stdin: bytes


@contextmanager
def prepare_command(command: tuple[str, ...], prompt: str, file: Path) -> Iterator[PreparedCommand]:
    """The command, ready to start. A prompt file can be read by us alone, and is gone afterwards.

    Raises RunnerError if the file cannot be written: that is not the target's fault.

    The program's own name is never replaced: words from outside must not choose what is run.
    """
    placeholders = {placeholder for argument in command[1:] for placeholder in PROMPT_PLACEHOLDERS.findall(argument)}
    values = {PROMPT_PLACEHOLDER: prompt, PROMPT_FILE_PLACEHOLDER: str(file)}
    # One pass, so that a prompt that itself says {prompt_file} stays as it is.
    filled = (PROMPT_PLACEHOLDERS.sub(lambda found: values[found.group()], argument) for argument in command[1:])
    stdin = b"" if placeholders else prompt.encode("utf-8", "replace")
    result = PreparedCommand(argv=(*command[:1], *filled), stdin=stdin)
    if PROMPT_FILE_PLACEHOLDER not in placeholders:
        yield result
        return
    try:
        _write_prompt(file, prompt)
    except OSError as error:
        message = f"The prompt could not be written to {file}: {error.strerror}."
        raise RunnerError(message, hint="Look at the disk and the permissions of the state directory.") from error
    try:
        yield result
    finally:
        file.unlink(missing_ok=True)


def _write_prompt(file: Path, prompt: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(prompt, encoding="utf-8", errors="replace")
