"""Where the configuration is, if nobody says."""

import os
from collections.abc import Mapping
from pathlib import Path

NATIVE_FILES = ("herdbeat.yaml", "herdbeat.yml")
HERDCTL_FILES = ("herdctl.yaml", "herdctl.yml")
AGENTD_FOLDER = ".agentd"
VARIABLE = "HERDBEAT_CONFIG"


def find_config(start: Path, environ: Mapping[str, str], explicit: Path | None = None) -> Path | None:
    """The path that was asked for, `$HERDBEAT_CONFIG`, or the nearest file here or above.

    Our own file wins over herdctl's, and that over agentd's folder, however far up it lies: a
    herdbeat.yaml that imports an .agentd folder must be found from within that folder too.
    """
    asked = explicit or environ.get(VARIABLE)
    if asked:
        return start / asked
    return _upward(start, NATIVE_FILES) or _upward(start, HERDCTL_FILES) or _upward(start, (AGENTD_FOLDER,))


def config_in(folder: Path) -> Path | None:
    """The configuration that lies in this very folder."""
    agentd = folder / AGENTD_FOLDER
    return fleet_in(folder) or (agentd if exists(agentd) else None)


def fleet_in(folder: Path) -> Path | None:
    """The fleet file that lies in this very folder."""
    return next((folder / name for name in (*NATIVE_FILES, *HERDCTL_FILES) if _lies(folder / name)), None)


def _upward(start: Path, names: tuple[str, ...]) -> Path | None:
    for folder in (start.absolute(), *start.absolute().parents):
        for name in names:
            if _lies(folder / name):
                return folder / name
    return None


def _lies(path: Path) -> bool:
    """Also a link to nowhere: it was put there to be found, and reading it says what is wrong with it."""
    return os.path.lexists(path)


def exists(path: Path) -> bool:
    """Path.exists() and its kin raise for a name that is too long; there is no such file, and opening it says why."""
    return os.path.exists(path)  # noqa: PTH110
