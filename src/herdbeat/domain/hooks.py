"""Hooks as files write them: their lists, and what their conditions can read."""

import re

HOOK_LISTS = ("after_run", "on_error", "on_change")
HOOK_ROOTS = ("event", "job", "result", "agent", "metadata", "run", "response")
"""What an expression in `when` can read."""

PROGRAM_TYPES = ("shell", "command")
"""Types of hooks and channels that start a program."""

_DOTTED_PATH_PATTERN = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")


def is_dotted_path(condition: str) -> bool:
    """Return whether a `when` is herdctl's: a path to a value that counts as true, such as `metadata.changed`."""
    return _DOTTED_PATH_PATTERN.fullmatch(condition.strip()) is not None
