"""The PostgreSQL that everybody is measured on: the one that is given, or one of the tests', with the usual durability.

`HERDBEAT_BENCH_PG` names a server that is there already. Without it, one is started out of a wheel: what is not needed
to start it is left as PostgreSQL ships it, `fsync` and `synchronous_commit` above all, because that is how it is used.
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

GIVEN = "HERDBEAT_BENCH_PG"
DISK = Path("/var/tmp")
"""Not /tmp, which may be memory, nor the checkout: root's folders are closed to the user as whom the server runs."""

AS_SHIPPED = {"listen_addresses": "", "max_connections": "200"}
SHOWN = ("fsync", "synchronous_commit", "shared_buffers")
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a table says of its server, so that nobody compares it with another one's."""

    version: str
    settings: dict[str, str]

    def __str__(self) -> str:
        return ", ".join([f"PostgreSQL {self.version}", *(f"{name} {value}" for name, value in self.settings.items())])


@contextmanager
def server(*, fsync: bool = True) -> Iterator[PostgresServer]:
    """Until the block is left. Without fsync only one of our own: nobody's data is put at risk for a number."""
    given = os.environ.get(GIVEN)
    if given and fsync:
        yield PostgresServer(given)
        return
    with private_server(AS_SHIPPED if fsync else AS_SHIPPED | {"fsync": "off"}, DISK) as made:
        yield made


@contextmanager
def fresh_database(of: PostgresServer, like: str = "template1") -> Iterator[str]:
    """The URL of a database that goes with the block: empty, or a copy. Nobody inherits another's dead rows."""
    name = f"bench{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(of.url, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(name_in(like))))
    try:
        yield of.database(name)
    finally:
        with psycopg.connect(of.url, autocommit=True) as admin:
            admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def name_in(url: str) -> str:
    """Of the database."""
    return urlsplit(url).path.rpartition("/")[2]


def tidy(url: str) -> None:
    """What autovacuum would do within a minute. Done now, it cannot fall into a measurement."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def rest(of: PostgresServer) -> None:
    """Let nobody pay for what the one before has left to be written, where we may ask for that."""
    with psycopg.connect(of.url, autocommit=True) as admin, suppress(InsufficientPrivilege):
        admin.execute("CHECKPOINT")


def conditions(of: PostgresServer) -> Conditions:
    with psycopg.connect(of.url, autocommit=True) as admin:
        return Conditions(
            version=_asked(admin, "server_version").split()[0], settings={name: _asked(admin, name) for name in SHOWN}
        )


def _asked(connection: psycopg.Connection[Any], setting: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
    assert row is not None
    value: str = row[0]
    return value
