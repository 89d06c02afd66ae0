"""Files -> Fleet: read, resolve, check. Every problem has a place and a mend."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdbeat.config.find import find_config
    from herdbeat.config.reading import LoadResult, load_fleet, try_load_fleet
    from herdbeat.config.schema import KeyRow, build_json_schema
    from herdbeat.config.values import ResolvedValue

__all__ = ["KeyRow", "LoadResult", "ResolvedValue", "build_json_schema", "find_config", "load_fleet", "try_load_fleet"]

_LAZY_EXPORTS = {
    "KeyRow": "schema",
    "LoadResult": "reading",
    "ResolvedValue": "values",
    "find_config": "find",
    "build_json_schema": "schema",
    "load_fleet": "reading",
    "try_load_fleet": "reading",
}


def __getattr__(name: str) -> object:
    # Fetched on first use: who only asks where the files are must not load what reads them.
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module 'herdbeat.config' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.config.{_LAZY_EXPORTS[name]}"), name)
