"""The one place where concrete parts meet. So far: the files, and the zone of this machine.

The configuration is imported only when a file is read, for `herdbeat next "0 9 * * 1-5"` reads none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.errors import ConfigError, Problem, TimezoneError
from herdbeat.moments import parse_zone

if TYPE_CHECKING:
    from herdbeat.config import Reading

_LOCALTIME = Path("/etc/localtime")
_TIMEZONE = Path("/etc/timezone")
_UTC_NAMES = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})


def read_configuration(path: str | None, environ: Mapping[str, str], folder: Path) -> "Reading":
    """The fleet at a path, or the nearest one in the folder and above. Raises ConfigError if there is none."""
    from herdbeat.config import find_config, read_fleet  # noqa: PLC0415
    from herdbeat.config.find import config_in  # noqa: PLC0415
    from herdbeat.config.kinds import is_agentd_folder  # noqa: PLC0415
    from herdbeat.config.places import is_folder  # noqa: PLC0415

    found = find_config(folder, environ, None if path is None else Path(path))
    if found is None:
        raise _no_config(Code.NO_CONFIG.meaning.cause)
    inside = config_in(found) if is_folder(found) and not is_agentd_folder(found) else found
    if inside is None:
        raise _no_config(f'There is no herdbeat.yaml, herdctl.yaml or .agentd/ in "{found}".')
    return read_fleet(inside, environ=environ, system_zone=system_zone(environ), base=folder)


def _no_config(message: str) -> ConfigError:
    return ConfigError([Problem(code=Code.NO_CONFIG, message=message, hint=Code.NO_CONFIG.meaning.mend)])


def file_schema(which: str) -> Mapping[str, object]:
    """The JSON Schema of the `fleet` or the `agent` file."""
    from herdbeat.config import json_schema  # noqa: PLC0415

    return json_schema(which)


def system_zone(environ: Mapping[str, str]) -> ZoneInfo:
    """The zone of this machine: TZ, else what /etc says, else UTC."""
    for name in (environ.get("TZ", "").removeprefix(":"), _linked_zone(), _written_zone()):
        try:
            zone = parse_zone(name)
        except TimezoneError:
            continue  # an old POSIX rule such as CET-1CEST, or nothing at all: the next one may know
        return ZoneInfo("UTC") if zone.key in _UTC_NAMES else zone
    return ZoneInfo("UTC")


def _linked_zone() -> str:
    try:
        return _LOCALTIME.readlink().as_posix().partition("zoneinfo/")[2]
    except OSError:
        return ""


def _written_zone() -> str:
    try:
        return _TIMEZONE.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
