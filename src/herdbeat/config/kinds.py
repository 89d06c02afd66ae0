"""What kind of file a path leads to, by its name first and else by its keys."""

from enum import StrEnum
from pathlib import Path

from herdbeat.config.find import AGENTD_FOLDER, HERDCTL_FILE_NAMES, NATIVE_FILE_NAMES, find_fleet_file
from herdbeat.config.places import is_folder
from herdbeat.located import ConfigNode


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
