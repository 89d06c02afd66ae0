"""What every command may need of this machine: where the configuration is, what it says, and the local time zone.

`config` and `store` are imported only where they are needed, because `herdbeat next "0 9 * * 1-5"` needs neither.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, Problem, TimezoneError
from herdbeat.timestamps import parse_zone

if TYPE_CHECKING:
    # Adapters name these types and may not import `config`: an alias makes them names of this module.
    from herdbeat.config import LoadResult as LoadResult  # noqa: PLC0414
    from herdbeat.config import ResolvedValue as ResolvedValue  # noqa: PLC0414

_LOCALTIME_LINK = Path("/etc/localtime")
_TIMEZONE_FILE = Path("/etc/timezone")
_UTC_ALIASES = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})


def load_config(path: str | None, environ: Mapping[str, str], folder: Path) -> "LoadResult":
    """Return the fleet at a path, or the nearest one in the folder and above. Raises ConfigError if there is none."""
    from herdbeat.config import find_config, try_load_fleet  # noqa: PLC0415
    from herdbeat.config.locate import find_config_in_folder, is_agentd_folder, is_folder  # noqa: PLC0415

    found = find_config(folder, environ, None if path is None else Path(path))
    if found is None:
        raise _missing_config_error(Code.NO_CONFIG.info.cause)
    config_path = find_config_in_folder(found) if is_folder(found) and not is_agentd_folder(found) else found
    if config_path is None:
        raise _missing_config_error(f'There is no herdbeat.yaml, herdctl.yaml or .agentd/ in "{found}".')
    return try_load_fleet(config_path, environ=environ, system_zone=detect_system_zone(environ), base=folder)


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


def _missing_config_error(message: str) -> ConfigError:
    return ConfigError([Problem(code=Code.NO_CONFIG, message=message, hint=Code.NO_CONFIG.info.fix)])


def build_file_schema(schema_name: str) -> Mapping[str, object]:
    """Return the JSON Schema of the `fleet` or the `agent` file."""
    from herdbeat.config import build_json_schema  # noqa: PLC0415

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
