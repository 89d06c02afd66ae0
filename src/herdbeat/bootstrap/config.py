"""What every command may need of this machine: where the configuration is, what it says, and the local time zone.

`config`, `store` and `json` are imported only where they are needed: `herdbeat next "0 9 * * 1-5"` needs none of them.

A command that only reads the ledger needs the fleet's name, its zone and where its ledger is, and nothing else of the
files. Reading YAML costs more than the whole answer: 140 ms for a fleet of five schedules, minutes for one of a hundred
thousand. So a command that has read the files leaves these in `signpost.json` beside the ledger. That cache is valid as
long as no file has changed since.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, Problem, SourceLocation, TimezoneError
from herdbeat.timestamps import parse_zone

if TYPE_CHECKING:
    # Adapters name these types and may not import `config`: an alias makes them names of this module.
    from herdbeat.config.loader import LoadResult as LoadResult  # noqa: PLC0414
    from herdbeat.config.provenance import ResolvedValue as ResolvedValue  # noqa: PLC0414
    from herdbeat.domain.fleet import Fleet

_LOCALTIME_LINK = Path("/etc/localtime")
_TIMEZONE_FILE = Path("/etc/timezone")
_UTC_ALIASES = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})

CACHE_FILE_NAME = "signpost.json"
LEDGER_FILE_NAME = "herdbeat.db"
CACHE_FORMAT = 1
STATE_DIR_NAME = ".herdbeat"
"""The usual state directory. The files of a fleet that keeps its ledger elsewhere are read every time."""


def load_config(path: str | None, environ: Mapping[str, str], folder: Path) -> "LoadResult":
    """Return the fleet at a path, or the nearest one in the folder and above. Raises ConfigError if there is none."""
    from herdbeat.config.loader import try_load_fleet  # noqa: PLC0415
    from herdbeat.config.locate import find_config_in_folder, is_agentd_folder, is_folder  # noqa: PLC0415

    found = locate_config(path, environ, folder)
    if found is None:
        raise _build_missing_config_error(Code.NO_CONFIG.info.cause)
    config_path = find_config_in_folder(found) if is_folder(found) and not is_agentd_folder(found) else found
    if config_path is None:
        raise _build_missing_config_error(f'No herdbeat.yaml, herdctl.yaml or .agentd/ found in "{found}".')
    return try_load_fleet(config_path, environ=environ, system_zone=detect_system_zone(environ), base=folder)


def build_empty_load_result(fleet: "Fleet") -> "LoadResult":
    """Return what no files say, for a fleet that has none."""
    from herdbeat.config.loader import LoadResult  # noqa: PLC0415
    from herdbeat.config.locate import FileKind  # noqa: PLC0415

    return LoadResult(kind=FileKind.FLEET, fleet=fleet)


def load_agents(agents: Sequence[Mapping[str, Any]]) -> "LoadResult":
    """Return the fleet of agents in the shape of herdctl's files, relative to the working directory."""
    from herdbeat.config.inline import build_node, load_fleet_tree  # noqa: PLC0415

    location = SourceLocation(file="agents", line=1, column=1)
    nodes = [
        build_node(agent, replace(location, path=f"agents.{agent.get('name', number)}"))
        for number, agent in enumerate(agents)
    ]
    tree = build_node({"agents": nodes}, location)
    return load_fleet_tree(tree, zone=detect_system_zone(os.environ), home=Path.cwd(), is_foreign=True)


def load_callable(
    target: Mapping[str, object], name: str, schedule: Mapping[str, object], location: SourceLocation, zone: ZoneInfo
) -> "LoadResult":
    """Return the fleet of one callable with one schedule: the same keys, checks and messages as in a file."""
    from herdbeat.config.inline import build_node, load_fleet_tree  # noqa: PLC0415

    schedules = build_node({name: build_node(schedule, location)}, location)
    callables = [build_node({**target, "schedules": schedules}, location)]
    return load_fleet_tree(build_node({"callables": callables}, location), zone=zone, home=Path.cwd())


def locate_config(path: str | None, environ: Mapping[str, str], folder: Path) -> Path | None:
    """Return the path that `load_config` reads: the given one, or the nearest configuration here or above."""
    from herdbeat.config.locate import find_config  # noqa: PLC0415

    return find_config(folder, environ, None if path is None else Path(path))


def find_fleet_file(folder: Path) -> Path | None:
    """Return the fleet file in this very folder, of any supported kind."""
    from herdbeat.config import locate  # noqa: PLC0415

    return locate.find_fleet_file(folder)


def choose_new_fleet_file(folder: Path) -> Path:
    """Return where to write a fleet file of our own: over the one that is there, or under the usual name."""
    from herdbeat.config import locate  # noqa: PLC0415

    existing = locate.find_fleet_file(folder)
    is_native = existing is not None and existing.name in locate.NATIVE_FILE_NAMES
    return existing if existing is not None and is_native else folder / locate.NATIVE_FILE_NAMES[0]


def find_holder_pid(state_dir: Path) -> int | None:
    """Return the process that runs the fleet of a state directory; None if none does. Raises StoreUnavailable."""
    from herdbeat.store.state_lock import find_lock_holder  # noqa: PLC0415

    return find_lock_holder(state_dir)


def prepare_state_dir(state_dir: Path) -> None:
    """Create the state directory, for this user only. Raises StoreUnavailable if others may write into it."""
    from herdbeat.store import state_lock  # noqa: PLC0415

    state_lock.prepare_state_dir(state_dir)


def _build_missing_config_error(message: str) -> ConfigError:
    return ConfigError([Problem(code=Code.NO_CONFIG, message=message, hint=Code.NO_CONFIG.info.fix)])


def build_file_schema(schema_name: str) -> Mapping[str, object]:
    """Return the JSON Schema of the `fleet` or the `agent` file."""
    from herdbeat.config.schema.fleet import build_json_schema  # noqa: PLC0415

    return build_json_schema(schema_name)


def detect_system_zone(environ: Mapping[str, str]) -> ZoneInfo:
    """Return the zone of this machine: TZ, else what /etc says, else UTC."""
    for name in (environ.get("TZ", "").removeprefix(":"), _read_localtime_zone(), _read_timezone_file()):
        try:
            zone = parse_zone(name)
        except TimezoneError:
            continue  # an old POSIX rule such as CET-1CEST, or nothing at all: the next one may know
        return ZoneInfo("UTC") if zone.key in _UTC_ALIASES else zone
    return ZoneInfo("UTC")


def _read_localtime_zone() -> str:
    try:
        return _LOCALTIME_LINK.readlink().as_posix().partition("zoneinfo/")[2]
    except OSError:
        return ""


def _read_timezone_file() -> str:
    try:
        return _TIMEZONE_FILE.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedConfig:
    name: str
    zone: ZoneInfo
    ledger: Path


def find_cached_config(
    config: str | None, environ: Mapping[str, str], folder: Path, *, is_current: bool = True
) -> CachedConfig | None:
    """Return what was last read; None if there is none, or if `is_current` and a file has changed since."""
    import json  # noqa: PLC0415

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
    from herdbeat.config.locate import (  # noqa: PLC0415
        CONFIG_PATH_VARIABLE,
        find_config,
        find_config_in_folder,
        path_exists,
    )

    requested = config or environ.get(CONFIG_PATH_VARIABLE)
    places: list[Path] = []
    if requested is not None and not find_config_in_folder(folder / requested):
        places = [folder / requested, folder / requested / STATE_DIR_NAME]
    elif requested is None and find_config(folder, environ) is None:
        places = [parent / STATE_DIR_NAME for parent in (folder.absolute(), *folder.absolute().parents)]
    return next((place / LEDGER_FILE_NAME for place in places if path_exists(place / LEDGER_FILE_NAME)), None)


def write_config_cache(
    config: str | None, environ: Mapping[str, str], folder: Path, load_result: "LoadResult", ledger: Path
) -> None:
    """Write the cache beside a ledger that exists, for files that read the same in every environment."""
    import json  # noqa: PLC0415

    config_path = locate_config(config, environ, folder)
    fleet = load_result.fleet
    first_source = next(iter(load_result.sources.values()), "")
    if config_path is None or fleet is None or load_result.errors or "${" in first_source or not ledger.exists():
        return
    files = [folder / name for name in load_result.sources]
    first_folder = files[0].parent if files else config_path  # an .agentd folder may be empty
    entry = {
        "form": CACHE_FORMAT,
        "found": str(config_path.absolute()),
        "system_zone": detect_system_zone(environ).key,
        "name": fleet.name,
        "zone": fleet.zone.key,
        "ledger": str(ledger.absolute()),
        "stamps": [_stat_file(file) for file in (*files, first_folder / ".env")],
    }
    with suppress(OSError):  # the state directory is not writable: the files are read again next time
        _write_atomically(ledger.parent / CACHE_FILE_NAME, json.dumps(entry))


def drop_stale_cache(state_dir: Path, ledger: Path | None) -> None:
    """Remove a cache that names another ledger than the one in use; None for a database.

    A fleet that had moved to PostgreSQL ran in the same folder, and `status` went on reading the old file.
    """
    import json  # noqa: PLC0415

    cache = state_dir / CACHE_FILE_NAME
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing, torn, or from another version: of no use either
        if ledger is not None and json.loads(cache.read_text(encoding="utf-8"))["ledger"] == str(ledger.absolute()):
            return
    with suppress(OSError):
        cache.unlink(missing_ok=True)


def _is_same_config(entry: Mapping[str, Any], config_path: Path, system_zone: str) -> bool:
    wanted = (CACHE_FORMAT, str(config_path.absolute()), system_zone)
    return (entry["form"], entry["found"], entry["system_zone"]) == wanted and Path(entry["ledger"]).exists()


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
    temporary.unlink(missing_ok=True)
    with temporary.open("x", encoding="utf-8") as file:  # a new file, never through a link
        file.write(text)
    temporary.replace(path)
