"""Paths of the configuration: where its files are, what kind each is, and how messages name them.

Only the standard library is imported: quick commands load this module and nothing else of this package.
"""

import os
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path

NATIVE_FILE_NAMES = ("herdbeat.yaml", "herdbeat.yml")
HERDCTL_FILE_NAMES = ("herdctl.yaml", "herdctl.yml")
AGENTD_FOLDER = ".agentd"
CONFIG_PATH_VARIABLE = "HERDBEAT_CONFIG"


class FileKind(StrEnum):
    """What a path leads to. The values are words for people: "This is …"."""

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


def find_config(start: Path, environ: Mapping[str, str], explicit: Path | None = None) -> Path | None:
    """Return the explicit path, `$HERDBEAT_CONFIG`, or the nearest file here or above.

    Our own file wins over herdctl's, and that over agentd's folder, however far up it lies: a herdbeat.yaml that
    imports an .agentd folder must be found from within that folder too.
    """
    config_path = explicit or environ.get(CONFIG_PATH_VARIABLE)
    if config_path:
        return start / config_path
    candidates = (NATIVE_FILE_NAMES, HERDCTL_FILE_NAMES, (AGENTD_FOLDER,))
    return next((found for names in candidates if (found := _search_upward(start, names))), None)


def find_config_in_folder(folder: Path) -> Path | None:
    """Return the configuration in this very folder."""
    agentd = folder / AGENTD_FOLDER
    return find_fleet_file(folder) or (agentd if path_exists(agentd) else None)


def find_fleet_file(folder: Path) -> Path | None:
    """Return the fleet file in this very folder."""
    return _find_first_existing(folder, (*NATIVE_FILE_NAMES, *HERDCTL_FILE_NAMES))


def _search_upward(start: Path, names: tuple[str, ...]) -> Path | None:
    folders = (start.absolute(), *start.absolute().parents)
    return next((path for folder in folders if (path := _find_first_existing(folder, names))), None)


def _find_first_existing(folder: Path, names: tuple[str, ...]) -> Path | None:
    # A broken link counts: it was put there to be found, and reading it reports what is wrong with it.
    return next((folder / name for name in names if os.path.lexists(folder / name)), None)


def path_exists(path: Path) -> bool:
    """Return whether the path exists. Path.exists() raises for a name that is too long; opening it says why."""
    return os.path.exists(path)  # noqa: PTH110


def display_path(path: Path, base: Path) -> str:
    """Return a path as messages name it: relative below the base folder, absolute elsewhere."""
    try:
        return path.relative_to(base).as_posix()
    except ValueError:
        return path.as_posix()


def resolve_relative_path(file: Path, written: str) -> Path:
    """Return a path that a file names, relative to the folder of that file and normalized."""
    return Path(os.path.normpath(file.absolute().parent / written))


def resolve_links(path: Path) -> Path:
    """Return the path behind all links. Path.resolve() raises on a loop of links; here opening the file reports it."""
    return Path(os.path.realpath(path))


def is_file(path: Path) -> bool:
    """Return whether it is a file. Unlike Path.is_file(), never raises for a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def is_agentd_folder(path: Path) -> bool:
    """Return whether it is a folder of agentd, whatever its name. An agents/ beside a fleet file is that fleet's."""
    if not is_folder(path) or find_fleet_file(path) is not None:
        return False
    return path.name == AGENTD_FOLDER or any(is_folder(path / name) for name in ("workflows", "agents"))


def detect_kind_by_name(path: Path) -> FileKind | None:
    """Return the kind that the name alone implies; None if only the keys can tell."""
    if path.name in NATIVE_FILE_NAMES:
        return FileKind.FLEET
    if path.name in HERDCTL_FILE_NAMES:
        return FileKind.HERDCTL_FLEET
    return {"workflows": FileKind.AGENTD_WORKFLOW, "agents": FileKind.AGENTD_AGENT}.get(_find_agentd_subfolder(path))


def detect_kind_by_keys(keys: Collection[str]) -> FileKind:
    """Return the kind that the top-level keys imply. A file without a clue is a fleet: its errors explain the most."""
    if not _FLEET_KEYS.isdisjoint(keys):
        return FileKind.FLEET
    if not _WORKFLOW_KEYS.isdisjoint(keys) and "agent" in keys:
        return FileKind.AGENTD_WORKFLOW
    if "name" not in keys:
        return FileKind.FLEET
    return FileKind.HERDCTL_AGENT if _AGENTD_KEYS.isdisjoint(keys) else FileKind.AGENTD_AGENT


def _find_agentd_subfolder(path: Path) -> str:
    return path.parent.name if path.parent.parent.name == AGENTD_FOLDER else ""
