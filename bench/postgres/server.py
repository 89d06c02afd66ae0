"""The PostgreSQL server that all contenders use: a given one, or a private one with the default durability.

`HERDBEAT_BENCH_PG` names an existing server. Without it, one is started from a wheel. Settings that are not needed to
start it keep their defaults, `fsync` and `synchronous_commit` above all, because production servers run with those.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier
from tests.support.postgres_server import PostgresServer, private_server

SERVER_VARIABLE = "HERDBEAT_BENCH_PG"
SERVER_PARENT = Path("/var/tmp")
"""Not /tmp, which may be in memory, nor the checkout: the user of the server cannot enter root's folders."""

DEFAULT_DURABILITY = {"listen_addresses": "", "max_connections": "200"}
SHOWN_SETTINGS = ("fsync", "synchronous_commit", "shared_buffers")
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConditions:
    """The server's version and settings. Printed with each table: figures of two servers do not compare."""

    version: str
    settings: dict[str, str]

    def __str__(self) -> str:
        return ", ".join([f"PostgreSQL {self.version}", *(f"{name} {value}" for name, value in self.settings.items())])


@contextmanager
def server(*, fsync: bool = True) -> Iterator[PostgresServer]:
    """Provide the server until the block exits. `fsync=False` starts a private one: a given one may hold data."""
    given = os.environ.get(SERVER_VARIABLE)
    if given and fsync:
        yield PostgresServer(given)
        return
    with private_server(
        DEFAULT_DURABILITY if fsync else DEFAULT_DURABILITY | {"fsync": "off"}, SERVER_PARENT
    ) as private:
        yield private


@contextmanager
def fresh_database(postgres: PostgresServer, like: str = "template1") -> Iterator[str]:
    """Create a database, empty or a copy, and drop it with the block. No contender inherits dead rows."""
    name = f"bench{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(database_name(like))))
    try:
        yield postgres.database(name)
    finally:
        with psycopg.connect(postgres.url, autocommit=True) as admin:
            admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def database_name(url: str) -> str:
    """Return the name of the database in a URL."""
    return urlsplit(url).path.rpartition("/")[2]


def vacuum(url: str) -> None:
    """Run what autovacuum would run within a minute, so that it does not run during a measurement."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def checkpoint(postgres: PostgresServer) -> None:
    """Run CHECKPOINT, if permitted, so that no contender pays for the dirty pages of the one before."""
    with psycopg.connect(postgres.url, autocommit=True) as admin, suppress(InsufficientPrivilege):
        admin.execute("CHECKPOINT")


def describe_server(postgres: PostgresServer) -> ServerConditions:
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        return ServerConditions(
            version=_setting(admin, "server_version").split()[0],
            settings={name: _setting(admin, name) for name in SHOWN_SETTINGS},
        )


def _setting(connection: psycopg.Connection[Any], setting: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
    assert row is not None
    value: str = row[0]
    return value
