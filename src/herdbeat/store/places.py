"""Where a fleet keeps its ledger. Apart from the engine, since who only asks must not load it."""

from pathlib import Path

from herdbeat.codes import Code
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Problem

_SQLITE = "sqlite:"


def ledger_path(fleet: Fleet) -> Path:
    """The file of an SQLite store, relative to the fleet's own file. Its folder is the state directory."""
    if not fleet.store.startswith(_SQLITE):
        problem = Problem(
            code=Code.INVALID_VALUE,
            message="This version keeps its ledger in SQLite only.",
            hint="Write store: sqlite:.herdbeat/herdbeat.db",
        )
        raise ConfigError([problem])
    return Path(fleet.home) / fleet.store.removeprefix(_SQLITE)
