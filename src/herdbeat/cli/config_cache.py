"""What the files said when they were last read: the fleet's name, its zone, and where its ledger is.

Who only looks at the ledger needs nothing else of them, and reading YAML costs more than the whole answer: 140 ms for a
fleet of five schedules, minutes for one of a hundred thousand. So whoever has read the files leaves a signpost beside
the ledger. It is believed as long as no file has changed since.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import detect_system_zone
from herdbeat.cli.context import Context
from herdbeat.config.locate import CONFIG_PATH_VARIABLE, find_config, find_config_in_folder, path_exists

if TYPE_CHECKING:
    from herdbeat.config import LoadResult

CACHE_FILE_NAME = "signpost.json"
LEDGER_FILE_NAME = "herdbeat.db"
CACHE_FORMAT = 1
STATE_DIR_NAME = ".herdbeat"
"""The usual state directory. A fleet that keeps its ledger elsewhere has its files read every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedConfig:
    name: str
    zone: ZoneInfo
    ledger: Path


def find_cached_config(config: str | None, context: Context, *, is_current: bool = True) -> CachedConfig | None:
    """None if there is none, or if it may not be true any more. Else the last one, whatever became of the files."""
    found = find_config(context.folder, context.environ, None if config is None else Path(config))
    if found is None:
        return None
    for folder in (found, found.parent):
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing, torn, or from another version
            written = json.loads((folder / STATE_DIR_NAME / CACHE_FILE_NAME).read_text(encoding="utf-8"))
            if _is_same_config(written, found, context) and (not is_current or _is_fresh(written)):
                return CachedConfig(
                    name=written["name"], zone=ZoneInfo(written["zone"]), ledger=Path(written["ledger"])
                )
    return None


def find_bare_ledger(config: str | None, context: Context) -> Path | None:
    """The ledger of a fleet that has no files, as a Python program keeps one: in a folder that is named, or nearby.

    Files come first, wherever they are found: a state directory is only looked for where there are none.
    """
    requested = config or context.environ.get(CONFIG_PATH_VARIABLE)
    if requested is None:
        ancestors = (context.folder.absolute(), *context.folder.absolute().parents)
        places = (
            [] if find_config(context.folder, context.environ) else [folder / STATE_DIR_NAME for folder in ancestors]
        )
    else:
        folder = context.folder / requested
        places = [] if find_config_in_folder(folder) else [folder, folder / STATE_DIR_NAME]
    return next((place / LEDGER_FILE_NAME for place in places if path_exists(place / LEDGER_FILE_NAME)), None)


def write_config_cache(config: str | None, context: Context, reading: "LoadResult", ledger: Path) -> None:
    """Only beside a ledger that is there, and only for files that say the same whatever the environment is."""
    found = find_config(context.folder, context.environ, None if config is None else Path(config))
    fleet = reading.fleet
    first = next(iter(reading.sources.values()), "")
    if found is None or fleet is None or reading.errors or "${" in first or not ledger.exists():
        return
    files = [context.folder / name for name in reading.sources]
    written = {
        "form": CACHE_FORMAT,
        "found": str(found.absolute()),
        "system_zone": detect_system_zone(context.environ).key,
        "name": fleet.name,
        "zone": fleet.zone.key,
        "ledger": str(ledger.absolute()),
        "stamps": [_stat_file(each) for each in (*files, files[0].parent / ".env")],
    }
    with suppress(OSError):  # a state directory that is not ours to write in: then the files are read again
        _write_atomically(ledger.parent / CACHE_FILE_NAME, json.dumps(written))


def _is_same_config(written: dict[str, Any], found: Path, context: Context) -> bool:
    return (
        written["form"] == CACHE_FORMAT
        and written["found"] == str(found.absolute())
        and written["system_zone"] == detect_system_zone(context.environ).key
        and Path(written["ledger"]).exists()
    )


def _is_fresh(written: dict[str, Any]) -> bool:
    return all(_stat_file(Path(path)) == [path, *rest] for path, *rest in written["stamps"])


def _stat_file(path: Path) -> list[object]:
    """A file, when it was changed and how long it is; zeros for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return [str(path), 0, 0]
    return [str(path), found.st_mtime_ns, found.st_size]


def _write_atomically(path: Path, text: str) -> None:
    """Whole or not at all: another command may be reading it."""
    temporary = path.with_name(f"{CACHE_FILE_NAME}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
