"""Where a fleet keeps its ledger. Apart from the engine, since who only asks must not load it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs

from herdbeat.codes import Code
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Problem

_SQLITE_PREFIX = "sqlite:"
_POSTGRES_PREFIXES = ("postgresql:", "postgres:")
STATE_FOLDER = ".herdbeat"
UNREADABLE_URL_MESSAGE = "The store's URL cannot be read."
URL_FORMAT_HINT = (
    "Write it as postgresql://USER@HOST:PORT/DATABASE, with a port from 1 to 65535 or without one, "
    "special characters of a password percent-encoded (/ is %2F, @ is %40)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresLocation:
    """A ledger in a database that many nodes share. What belongs to one node alone is in its state directory.

    The URL may hold a password, so it is never shown.
    """

    url: str = field(repr=False)
    state_dir: Path

    @property
    def display_url(self) -> str:
        """For people: where it is, and as whom."""
        return redact_url(self.url) or "postgresql://…"


def redact_url(url: str) -> str | None:
    """A store's URL without its password. None if it cannot be told for certain where that ends.

    In `postgresql://herd:s3c/ret@host/fleet` the name of the host is `herd` to a program, and the rest of the password
    stood in every message.
    """
    head, _, query = url.partition("?")
    authority, slash, name = head.partition("://")[2].partition("/")
    credentials, _, hosts = authority.rpartition("@")
    parameters = parse_qs(query)
    ports = parameters.get("port", [""])[0].split(",")
    if "@" in name or not all(_is_host(each) for each in hosts.split(",")) or not all(map(_is_port, ports)):
        return None
    user = credentials.partition(":")[0] or parameters.get("user", [""])[0]
    where = hosts or parameters.get("host", ["localhost"])[0]
    return f"postgresql://{f'{user}@' if user else ''}{where}{slash}{name}"


def _is_host(text: str) -> bool:
    """host, host:5432 or [::1]:5432"""
    return _is_port(text.rpartition("]")[2].partition(":")[2])


def _is_port(port: str) -> bool:
    """5432, or nothing, which means the same"""
    return not port or (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65_536)


StoreLocation: TypeAlias = Path | PostgresLocation
"""A ledger: the file of an SQLite one, or a database."""


def store_location(fleet: Fleet) -> StoreLocation:
    """Raises ConfigError if its `store` is neither."""
    if fleet.store.startswith(_SQLITE_PREFIX):
        return Path(fleet.home) / fleet.store.removeprefix(_SQLITE_PREFIX)
    if fleet.store.startswith(_POSTGRES_PREFIXES):
        return PostgresLocation(url=fleet.store, state_dir=Path(fleet.home) / STATE_FOLDER)
    problem = Problem(
        code=Code.INVALID_VALUE,
        message="The store is neither a file nor a database that herdbeat knows.",
        hint="Write store: sqlite:.herdbeat/herdbeat.db or store: postgresql://USER@HOST/DATABASE",
    )
    raise ConfigError([problem])


def format_location(location: StoreLocation) -> str:
    """For people."""
    return str(location) if isinstance(location, Path) else location.display_url


def resolve_state_dir(location: StoreLocation) -> Path:
    """Where the lock, the socket and the logs of this machine's node are."""
    return location.parent if isinstance(location, Path) else location.state_dir


def require_sqlite_path(fleet: Fleet) -> Path:
    """The file of an SQLite store, for what only a file can do. Raises ConfigError for a database."""
    location = store_location(fleet)
    if isinstance(location, Path):
        return location
    problem = Problem(
        code=Code.INVALID_VALUE,
        message="This works on a ledger in a file, and this fleet keeps its own in PostgreSQL.",
        hint="Use the tools of the database: pg_dump, pg_restore.",
    )
    raise ConfigError([problem])
