"""Files -> Fleet: read, resolve, check. Every problem has a place and a mend."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdbeat.config.find import find_config
    from herdbeat.config.reading import Reading, load_fleet, read_fleet
    from herdbeat.config.schema import KeyRow, json_schema
    from herdbeat.config.values import Value

__all__ = ["KeyRow", "Reading", "Value", "find_config", "json_schema", "load_fleet", "read_fleet"]

_HOMES = {
    "KeyRow": "schema",
    "Reading": "reading",
    "Value": "values",
    "find_config": "find",
    "json_schema": "schema",
    "load_fleet": "reading",
    "read_fleet": "reading",
}


def __getattr__(name: str) -> object:
    # Fetched on first use: who only asks where the files are must not load what reads them.
    if name not in _HOMES:
        raise AttributeError(f"module 'herdbeat.config' has no attribute {name!r}")
    return getattr(import_module(f"herdbeat.config.{_HOMES[name]}"), name)
