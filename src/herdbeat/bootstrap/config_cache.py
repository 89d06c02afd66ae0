"""What the configuration said when it was last read: the fleet's name, its zone, and where its ledger is.

A command that only reads the ledger needs nothing else of the files, and reading YAML costs more than the whole answer:
140 ms for a fleet of five schedules, minutes for one of a hundred thousand. So a command that has read the files leaves
`signpost.json` beside the ledger. It counts as long as no file has changed since.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import detect_system_zone, locate_config
from herdbeat.config.locate import CONFIG_PATH_VARIABLE, find_config, find_config_in_folder, path_exists

if TYPE_CHECKING:
    from herdbeat.config import LoadResult

CACHE_FILE_NAME = "signpost.json"
LEDGER_FILE_NAME = "herdbeat.db"
CACHE_FORMAT = 1
STATE_DIR_NAME = ".herdbeat"
"""The usual state directory. The files of a fleet that keeps its ledger elsewhere are read every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedConfig:
    name: str
    zone: ZoneInfo
    ledger: Path


def find_cached_config(
    config: str | None, environ: Mapping[str, str], folder: Path, *, is_current: bool = True
) -> CachedConfig | None:
    """Return what was last read; None if there is none, or if `is_current` and a file has changed since."""
    config_path = locate_config(config, environ, folder)
    if config_path is None:
        return None
    system_zone = detect_system_zone(environ).key
    for parent in (config_path, config_path.parent):
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing, torn, or from another version
            entry = json.loads((parent / STATE_DIR_NAME / CACHE_FILE_NAME).read_text(encoding="utf-8"))
            if not _is_same_config(entry, config_path, system_zone) or (is_current and not _is_fresh(entry)):
                continue
            return CachedConfig(name=entry["name"], zone=ZoneInfo(entry["zone"]), ledger=Path(entry["ledger"]))
    return None


def find_bare_ledger(config: str | None, environ: Mapping[str, str], folder: Path) -> Path | None:
    """Return the ledger of a fleet without files, as a Python program keeps one: in the given folder, or here or above.

    Files come first wherever they are found: a state directory counts only if there are none.
    """
    requested = config or environ.get(CONFIG_PATH_VARIABLE)
    places: list[Path] = []
    if requested is not None and not find_config_in_folder(folder / requested):
        places = [folder / requested, folder / requested / STATE_DIR_NAME]
    elif requested is None and find_config(folder, environ) is None:
        places = [parent / STATE_DIR_NAME for parent in (folder.absolute(), *folder.absolute().parents)]
    return next((place / LEDGER_FILE_NAME for place in places if path_exists(place / LEDGER_FILE_NAME)), None)


def write_config_cache(
    config: str | None, environ: Mapping[str, str], folder: Path, reading: "LoadResult", ledger: Path
) -> None:
    """Write the cache beside a ledger that exists, for files that read the same in every environment."""
    config_path = locate_config(config, environ, folder)
    fleet = reading.fleet
    first_source = next(iter(reading.sources.values()), "")
    if config_path is None or fleet is None or reading.errors or "${" in first_source or not ledger.exists():
        return
    files = [folder / name for name in reading.sources]
    entry = {
        "form": CACHE_FORMAT,
        "found": str(config_path.absolute()),
        "system_zone": detect_system_zone(environ).key,
        "name": fleet.name,
        "zone": fleet.zone.key,
        "ledger": str(ledger.absolute()),
        "stamps": [_stat_file(file) for file in (*files, files[0].parent / ".env")],
    }
    with suppress(OSError):  # the state directory is not writable: the files are read again next time
        _write_atomically(ledger.parent / CACHE_FILE_NAME, json.dumps(entry))


def _is_same_config(entry: Mapping[str, Any], config_path: Path, system_zone: str) -> bool:
    return (
        entry["form"] == CACHE_FORMAT
        and entry["found"] == str(config_path.absolute())
        and entry["system_zone"] == system_zone
        and Path(entry["ledger"]).exists()
    )


def _is_fresh(entry: Mapping[str, Any]) -> bool:
    return all(_stat_file(Path(path)) == [path, *rest] for path, *rest in entry["stamps"])


def _stat_file(path: Path) -> list[object]:
    """Return the path, the time of the last change and the size; zeros for a file that does not exist."""
    try:
        status = path.stat()
    except OSError:
        return [str(path), 0, 0]
    return [str(path), status.st_mtime_ns, status.st_size]


def _write_atomically(path: Path, text: str) -> None:
    """Write all or nothing: another command may be reading the file."""
    temporary = path.with_name(f"{CACHE_FILE_NAME}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
