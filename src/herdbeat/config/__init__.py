"""Load, validate and resolve configuration files into a Fleet. Every problem has a location and a fix."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdbeat.config.loader import LoadResult, load_fleet, try_load_fleet
    from herdbeat.config.locate import find_config
    from herdbeat.config.provenance import ResolvedValue
    from herdbeat.config.schema.fleet import build_json_schema

__all__ = ["LoadResult", "ResolvedValue", "build_json_schema", "find_config", "load_fleet", "try_load_fleet"]

_LAZY_EXPORTS = {
    "LoadResult": "loader",
    "ResolvedValue": "provenance",
    "find_config": "locate",
    "build_json_schema": "schema.fleet",
    "load_fleet": "loader",
    "try_load_fleet": "loader",
}


def __getattr__(name: str) -> object:
    # Imported on first use: a command that only locates the files must not load what parses them.
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module 'herdbeat.config' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.config.{_LAZY_EXPORTS[name]}"), name)
