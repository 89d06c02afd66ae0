"""Where the configuration is, if nobody says."""

import os
from collections.abc import Mapping
from pathlib import Path

NATIVE_FILE_NAMES = ("herdbeat.yaml", "herdbeat.yml")
HERDCTL_FILE_NAMES = ("herdctl.yaml", "herdctl.yml")
AGENTD_FOLDER = ".agentd"
CONFIG_PATH_VARIABLE = "HERDBEAT_CONFIG"


def find_config(start: Path, environ: Mapping[str, str], explicit: Path | None = None) -> Path | None:
    """The path that was asked for, `$HERDBEAT_CONFIG`, or the nearest file here or above.

    Our own file wins over herdctl's, and that over agentd's folder, however far up it lies: a
    herdbeat.yaml that imports an .agentd folder must be found from within that folder too.
    """
    config_path = explicit or environ.get(CONFIG_PATH_VARIABLE)
    if config_path:
        return start / config_path
    return (
        _search_upward(start, NATIVE_FILE_NAMES)
        or _search_upward(start, HERDCTL_FILE_NAMES)
        or _search_upward(start, (AGENTD_FOLDER,))
    )


def find_config_in_folder(folder: Path) -> Path | None:
    """The configuration that lies in this very folder."""
    agentd = folder / AGENTD_FOLDER
    return find_fleet_file(folder) or (agentd if path_exists(agentd) else None)


def find_fleet_file(folder: Path) -> Path | None:
    """The fleet file that lies in this very folder."""
    return next(
        (folder / name for name in (*NATIVE_FILE_NAMES, *HERDCTL_FILE_NAMES) if _path_or_link_exists(folder / name)),
        None,
    )


def _search_upward(start: Path, names: tuple[str, ...]) -> Path | None:
    for folder in (start.absolute(), *start.absolute().parents):
        for name in names:
            if _path_or_link_exists(folder / name):
                return folder / name
    return None


def _path_or_link_exists(path: Path) -> bool:
    """Also a link to nowhere: it was put there to be found, and reading it says what is wrong with it."""
    return os.path.lexists(path)


def path_exists(path: Path) -> bool:
    """Path.exists() and its kin raise for a name that is too long; there is no such file, and opening it says why."""
    return os.path.exists(path)  # noqa: PTH110
