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

from herdbeat.app import system_zone
from herdbeat.config.find import VARIABLE, config_in, exists, find_config
from herdbeat.faces.cli.world import World

if TYPE_CHECKING:
    from herdbeat.config import Reading

NAME = "signpost.json"
LEDGER = "herdbeat.db"
FORM = 1
STATE = ".herdbeat"
"""The usual state directory. A fleet that keeps its ledger elsewhere has its files read every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signpost:
    name: str
    zone: ZoneInfo
    ledger: Path


def find_signpost(config: str | None, world: World, *, is_current: bool = True) -> Signpost | None:
    """None if there is none, or if it may not be true any more. Else the last one, whatever became of the files."""
    found = find_config(world.folder, world.environ, None if config is None else Path(config))
    if found is None:
        return None
    for folder in (found, found.parent):
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing, torn, or from another version
            written = json.loads((folder / STATE / NAME).read_text(encoding="utf-8"))
            if _holds(written, found, world) and (not is_current or _is_current(written)):
                return Signpost(name=written["name"], zone=ZoneInfo(written["zone"]), ledger=Path(written["ledger"]))
    return None


def find_bare_ledger(config: str | None, world: World) -> Path | None:
    """The ledger of a fleet that has no files, as a Python program keeps one: in a folder that is named, or nearby.

    Files come first, wherever they are found: a state directory is only looked for where there are none.
    """
    asked = config or world.environ.get(VARIABLE)
    if asked is None:
        around = (world.folder.absolute(), *world.folder.absolute().parents)
        places = [] if find_config(world.folder, world.environ) else [folder / STATE for folder in around]
    else:
        folder = world.folder / asked
        places = [] if config_in(folder) else [folder, folder / STATE]
    return next((place / LEDGER for place in places if exists(place / LEDGER)), None)


def leave_signpost(config: str | None, world: World, reading: "Reading", ledger: Path) -> None:
    """Only beside a ledger that is there, and only for files that say the same whatever the environment is."""
    found = find_config(world.folder, world.environ, None if config is None else Path(config))
    fleet = reading.fleet
    first = next(iter(reading.sources.values()), "")
    if found is None or fleet is None or reading.errors or "${" in first or not ledger.exists():
        return
    files = [world.folder / name for name in reading.sources]
    written = {
        "form": FORM,
        "found": str(found.absolute()),
        "system_zone": system_zone(world.environ).key,
        "name": fleet.name,
        "zone": fleet.zone.key,
        "ledger": str(ledger.absolute()),
        "stamps": [_stamp(each) for each in (*files, files[0].parent / ".env")],
    }
    with suppress(OSError):  # a state directory that is not ours to write in: then the files are read again
        _write(ledger.parent / NAME, json.dumps(written))


def _holds(written: dict[str, Any], found: Path, world: World) -> bool:
    return (
        written["form"] == FORM
        and written["found"] == str(found.absolute())
        and written["system_zone"] == system_zone(world.environ).key
        and Path(written["ledger"]).exists()
    )


def _is_current(written: dict[str, Any]) -> bool:
    return all(_stamp(Path(path)) == [path, *rest] for path, *rest in written["stamps"])


def _stamp(path: Path) -> list[object]:
    """A file, when it was changed and how long it is; zeros for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return [str(path), 0, 0]
    return [str(path), found.st_mtime_ns, found.st_size]


def _write(path: Path, text: str) -> None:
    """Whole or not at all: another command may be reading it."""
    draft = path.with_name(f"{NAME}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
