"""Files -> Fleet: read, resolve, check. Every problem has a place and a mend."""

from herdbeat.config.find import find_config
from herdbeat.config.reading import Reading, load_fleet, read_fleet
from herdbeat.config.schema import KeyRow, json_schema, keys
from herdbeat.config.values import Value

__all__ = ["KeyRow", "Reading", "Value", "find_config", "json_schema", "keys", "load_fleet", "read_fleet"]
