"""A target or a schedule that a command line defines, with the defaults of the fleet's files."""

from collections.abc import Mapping
from pathlib import Path

from herdbeat.bootstrap.config import detect_system_zone, locate_config
from herdbeat.config.inline import InlineSpec as InlineSpec  # noqa: PLC0414 -- adapters may not import `config`
from herdbeat.config.inline import load_inline, load_inline_alone
from herdbeat.config.locate import find_config_in_folder, is_agentd_folder
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target


def load_inline_spec(
    spec: InlineSpec, path: str | None, environ: Mapping[str, str], folder: Path
) -> tuple[Target, Schedule | None]:
    """Return target and schedule. Raises UsageError in the words of a file."""
    found = locate_config(path, environ, folder)
    if found is None:
        return load_inline_alone(spec, zone=detect_system_zone(environ), home=folder)
    config_path = found if not found.is_dir() or is_agentd_folder(found) else find_config_in_folder(found) or found
    return load_inline(spec, config_path, environ=environ, system_zone=detect_system_zone(environ), base=folder)
