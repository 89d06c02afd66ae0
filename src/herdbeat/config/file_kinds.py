"""Where in the text: places inside a scalar, and names of files as people read them."""

import os
import re
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from herdbeat.config.locate import AGENTD_FOLDER, HERDCTL_FILE_NAMES, NATIVE_FILE_NAMES, find_fleet_file
from herdbeat.config.nodes import ConfigNode
from herdbeat.errors import SourceLocation
from herdbeat.triggers.cron.pattern import CRON_FIELDS

_QUOTES = ("'", '"')


def display_path(path: Path, base: Path) -> str:
    """A file as messages name it: relative below the base folder, absolute elsewhere."""
    try:
        return path.relative_to(base).as_posix()
    except ValueError:
        return path.as_posix()


def resolve_relative_path(file: Path, written: str) -> Path:
    """A path as a file names it: relative to the folder of that file, without detours."""
    return Path(os.path.normpath(file.absolute().parent / written))


def real_path(path: Path) -> Path:
    """The file behind all links. Path.resolve() raises on a loop of links; this leaves it to the opening."""
    return Path(os.path.realpath(path))


def is_file(path: Path) -> bool:
    """As `exists` in `find`: no error for a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def locate_in_scalar(node: ConfigNode, offset: int, width: int, source: str) -> SourceLocation:
    """Where the offset of a scalar's value stands in its file.

    Exact for whole files (style "file"), literal blocks, and scalars on one line without escapes, which
    is how prompts are written; other forms fall back to the start of the scalar.
    """
    if not isinstance(node.value, str) or node.variable_names:
        return node.location
    if node.style == "file":
        before = node.value[:offset]
        column = len(before.rpartition("\n")[2]) + 1
        return replace(node.location, line=before.count("\n") + 1, column=column, width=width)
    if node.style == "|":
        return _locate_in_block(node, offset, width, source)
    quote = 1 if node.style in _QUOTES else 0
    if node.location.width != len(node.value) + 2 * quote:
        return node.location  # escapes or several lines: an offset in the value is another one in the text
    column = node.location.column + offset + quote
    return replace(node.location, column=column, width=width)


def find_cron_token_offset(expression: str, field: str | None, token: str | None) -> int | None:
    """Where in a cron expression the token of a field stands; None if that cannot be told."""
    fields = list(re.finditer(r"\S+", expression))
    names = [word.name for word in CRON_FIELDS[-len(fields) :]]
    if not token or not fields or field not in names:
        return None
    written = fields[names.index(field)]
    within = written[0].find(token)
    return written.start() + within if within >= 0 else None


def _locate_in_block(node: ConfigNode, offset: int, width: int, source: str) -> SourceLocation:
    before = str(node.value)[:offset]
    lines = source.splitlines()[node.location.line :]
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip(" "))
    line = node.location.line + 1 + before.count("\n")
    return replace(node.location, line=line, column=indent + len(before.rpartition("\n")[2]) + 1, width=width)


# What kind of file a path leads to, by its name first and else by its keys.


class FileKind(StrEnum):
    """In words for people: "This is …"."""

    FLEET = "a herdbeat fleet"
    HERDCTL_FLEET = "a herdctl fleet"
    HERDCTL_AGENT = "a herdctl agent file"
    AGENTD_FOLDER = "an .agentd folder"
    AGENTD_WORKFLOW = "an agentd workflow"
    AGENTD_AGENT = "an agentd agent"


_FLEET_KEYS = frozenset({"agents", "endpoints", "commands", "callables", "fleets", "imports", "fleet", "defaults"})
_WORKFLOW_KEYS = frozenset({"source", "prompt_template", "prompt_template_file"})
_AGENTD_KEYS = frozenset(
    {"working_dir", "shell", "interactive", "worktree", "rooms", "additional_dirs", "docker_image", "network_policy"}
)


def is_agentd_folder(path: Path) -> bool:
    """A folder of agentd's, whatever it is called. An agents/ beside a fleet file belongs to that fleet."""
    if not is_folder(path) or find_fleet_file(path) is not None:
        return False
    return path.name == AGENTD_FOLDER or any(is_folder(path / name) for name in ("workflows", "agents"))


def detect_kind_by_name(path: Path) -> FileKind | None:
    """What the name alone says; None if the keys must be asked."""
    if path.name in NATIVE_FILE_NAMES:
        return FileKind.FLEET
    if path.name in HERDCTL_FILE_NAMES:
        return FileKind.HERDCTL_FLEET
    return {"workflows": FileKind.AGENTD_WORKFLOW, "agents": FileKind.AGENTD_AGENT}.get(_agentd_subfolder(path))


def detect_kind_by_keys(tree: ConfigNode) -> FileKind:
    """What the keys say. A file that says nothing is taken as a fleet, whose errors explain the most."""
    keys = {name for name, _ in tree.items()}
    if keys & _FLEET_KEYS:
        return FileKind.FLEET
    if keys & _WORKFLOW_KEYS and "agent" in keys:
        return FileKind.AGENTD_WORKFLOW
    if "name" not in keys:
        return FileKind.FLEET
    return FileKind.AGENTD_AGENT if keys & _AGENTD_KEYS else FileKind.HERDCTL_AGENT


def _agentd_subfolder(path: Path) -> str:
    return path.parent.name if path.parent.parent.name == AGENTD_FOLDER else ""
