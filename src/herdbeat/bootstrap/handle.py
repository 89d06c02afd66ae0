"""`FleetHandle`: what an adapter knows of a fleet, whether it runs or not, and its way to the command bus.

It loads no engine: listing and showing go through it.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import LEDGER_FILE_NAME
from herdbeat.clock import Clock
from herdbeat.domain.records import NodeRecord
from herdbeat.errors import NotFound, StoreUnavailable, UsageError
from herdbeat.redaction import register_secrets, register_variables
from herdbeat.store.location import PostgresLocation as PostgresLocation  # noqa: PLC0414 -- adapters take it from here
from herdbeat.store.location import (
    StoreLocation,
    ledger_exists,
    name_ledger,
    open_reader,
    resolve_state_dir,
    select_clock,
    store_location,
)
from herdbeat.store.reader import Filter as Filter  # noqa: PLC0414 -- adapters take it from here
from herdbeat.store.reader import Reader as Reader  # noqa: PLC0414
from herdbeat.store.state_lock import find_lock_holder, require_private_dir

if TYPE_CHECKING:
    from herdbeat.domain.fleet import Fleet
    from herdbeat.service.commands.dispatch import Dispatcher, LoadedFleet
    from herdbeat.service.commands.lock_turns import LockTurns
    from herdbeat.service.metrics import NodeCounters

MAX_NODES = 10_000


def open_state_dir(state_dir: Path, clock: Clock) -> "FleetHandle":
    """Return the fleet of a Python program, which has a state directory and no files."""
    path, utc = state_dir / LEDGER_FILE_NAME, ZoneInfo("UTC")
    return FleetHandle(name="", path=path, now=clock.now(), zone=utc, clock=clock, load_fleet=_refuse_files)


def open_store(location: StoreLocation, clock: Clock) -> "FleetHandle":
    """Return the fleet of a Python program, by its ledger: in a state directory, or in a database."""
    if isinstance(location, Path):
        return open_state_dir(location.parent, clock)
    utc = ZoneInfo("UTC")
    handle = FleetHandle(name="", path=location, now=clock.now(), zone=utc, clock=clock, load_fleet=_refuse_files)
    return handle.use_ledger_clock()


def build_handle(fleet: "Fleet", clock: Clock) -> "FleetHandle":
    """The handle of a fleet whose files are read already: without a reader, and with the clock of this machine."""
    path, now = store_location(fleet), clock.now()
    return FleetHandle(name=fleet.name, path=path, now=now, clock=clock, zone=fleet.zone, load_fleet=lambda: fleet)


def open_bare_ledger(path: Path, zone: ZoneInfo, clock: Clock) -> "FleetHandle":
    """The fleet of a ledger without files, which may be yet to be written. A program or `create` has the rest."""
    from herdbeat.domain.fleet import Fleet, ServerSettings  # noqa: PLC0415 -- most ledgers have files

    name = None
    if path.exists():
        with closing(open_reader(path)) as reader:
            name = reader.fleet_name()
    fleet = Fleet(
        name=name or path.absolute().parent.parent.name,
        zone=zone,
        targets=(),
        schedules=(),
        store=f"sqlite:{path.absolute()}",
        server=ServerSettings(),
        home=str(path.absolute().parent.parent),
    )
    return replace(build_handle(fleet, clock), path=path, has_files=False)


@contextmanager
def open_ledger_reader(place: StoreLocation) -> Iterator[Reader]:
    """Open a ledger: a state directory's, or one in a database.

    Raises NotFound if there is none yet, StoreUnavailable if it is damaged or cannot be reached.
    """
    location = place / LEDGER_FILE_NAME if isinstance(place, Path) else place
    if not ledger_exists(location):
        where = str(place) if isinstance(place, Path) else place.display_url
        raise NotFound(f"There is no ledger in {where} yet.", hint="Start the scheduler once to create it.")
    try:
        with closing(open_reader(location)) as reader:
            yield reader
    except sqlite3.DatabaseError as error:
        # A damaged ledger is not an empty one: a caller that reads "idle, never ran" would start everything again.
        raise StoreUnavailable(f"{location}: {error}", hint="Keep the file and restore a backup.") from error


def is_answering_ping(state_dir: Path, **options: float) -> bool:
    """Whether a process on this machine runs the fleet of a state directory, and answers in `timeout` seconds."""
    return _send_to_node(state_dir, {"do": "ping"}, **options) is not None


def find_local_pid(state_dir: Path) -> int | None:
    """Return the process on this machine that runs the fleet of a state directory; None if there is none."""
    return find_lock_holder(state_dir)


def request_stop(state_dir: Path, timeout: timedelta, *, force: bool) -> int | None:
    """Stop the process that runs the fleet. Return how many runs are active; None if nothing answers.

    Raises StoreUnavailable if others may write into the folder: they could have named any process in the lock.
    """
    require_private_dir(state_dir)
    answer = _send_to_node(state_dir, {"do": "stop", "timeout": timeout.total_seconds(), "force": force})
    return None if answer is None else int(answer["running"])


def _send_to_node(state_dir: Path, request: Mapping[str, object], **options: float) -> Mapping[str, Any] | None:
    from herdbeat.control_socket.client import send_request  # noqa: PLC0415 -- as for a dispatcher
    from herdbeat.service.commands.dispatch import NotRunning  # noqa: PLC0415

    try:
        return send_request(state_dir, request, **options)
    except NotRunning:
        return None


def _refuse_files() -> "Fleet":
    raise UsageError("This fleet is defined in Python and has no files.", hint="Start its program first.")


def _refuse_apply(path: str) -> "LoadedFleet":
    raise UsageError(f"{path} cannot be applied in this process.", hint="Apply it with: herdbeat apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHandle:
    """A fleet from outside: its name, its ledger, its clock and the time of the request.

    Without a reader nothing has ever run. A fleet of a Python program has a ledger and no files.
    """

    name: str
    path: StoreLocation
    now: datetime
    zone: ZoneInfo
    clock: Clock
    load_fleet: "Callable[[], Fleet]"
    reader: Reader | None = None
    has_files: bool = True
    has_ledger: bool = False
    load_applied: "Callable[[str], LoadedFleet]" = _refuse_apply
    lock_turns: "LockTurns | None" = None

    @property
    def fleet(self) -> "Fleet":
        """What the files say. They are read when this is first needed, which takes a while."""
        return self.load_fleet()

    @property
    def dispatcher(self) -> "Dispatcher":
        """The command bus of this fleet, whether it runs or not."""
        from herdbeat.control_socket.client import send_request  # noqa: PLC0415 -- only a change needs it
        from herdbeat.service.commands.dispatch import Dispatcher  # noqa: PLC0415

        return Dispatcher(self, send_request, self.lock_turns)

    @property
    def state_dir(self) -> Path:
        return resolve_state_dir(self.path)

    @property
    def local_pid(self) -> int | None:
        """The process on this machine that runs the fleet, or writes into its ledger; None if there is none."""
        return find_lock_holder(self.state_dir, name_ledger(self.path))

    @property
    def holder_pid(self) -> int | None:
        """The process that runs the fleet; None if there is none. Of nodes that share a ledger, one that works."""
        return next((node.pid for node in self.live_nodes if node.works), None) if self.is_shared else self.local_pid

    @property
    def is_running(self) -> bool:
        """Whether a process runs the fleet, and answers. The lock alone may be held by a command that writes."""
        if self.is_shared:
            return self.holder_pid is not None
        is_of_other_ledger = self.local_pid is None and find_lock_holder(self.state_dir) is not None
        return not is_of_other_ledger and is_answering_ping(self.state_dir)

    def read_node_counters(self) -> "list[NodeCounters]":
        """Return the counters of each live node: of the one on this machine, or of all that share the ledger.

        Those of a shared ledger are up to ten seconds old. Empty if no node answers.
        """
        from herdbeat.service.metrics import NodeCounters, parse_node_counters  # noqa: PLC0415 -- for /metrics alone

        if not self.is_shared:
            counters = _send_to_node(self.state_dir, {"do": "metrics"})
            return [] if counters is None else [NodeCounters(data=counters)]
        with suppress(StoreUnavailable), closing(self.open_reader()) as reader:
            return [parse_node_counters(*row) for row in reader.node_metrics(MAX_NODES)]
        return []

    @property
    def is_shared(self) -> bool:
        """Whether nodes on other machines may run it."""
        return not isinstance(self.path, Path)

    @property
    def live_nodes(self) -> tuple[NodeRecord, ...]:
        """The live nodes that share this ledger. A ledger in a file has none: it has a holder."""
        if not self.is_shared or not self.has_ledger:
            return ()
        if self.reader is not None:
            return tuple(self.reader.nodes(MAX_NODES, self.clock.now()))
        with closing(self.open_reader()) as reader:
            return tuple(reader.nodes(MAX_NODES, self.clock.now()))

    def use_ledger_clock(self) -> "FleetHandle":
        """The same with the time that counts in the ledger; unchanged if there is no ledger."""
        clock = select_clock(self.path, self.clock)
        return self if clock is None else replace(self, has_ledger=True, clock=clock, now=clock.now())

    def open_reader(self) -> Reader:
        """Return a reader of the ledger; what its fleet keeps secret is hidden from now on."""
        reader = open_reader(self.path)
        names = reader.variables()
        if names:
            from herdbeat.config.files import read_environment  # noqa: PLC0415 -- most fleets have none

            register_variables(names, read_environment(self.fleet.home, os.environ))
        register_secrets(reader.old_secrets())
        return reader

    def require_reader(self) -> Reader:
        """Raises NotFound if nothing has ever run."""
        if self.reader is not None:
            return self.reader
        if self.is_shared:
            raise NotFound("No fleet has been applied to this store yet.", hint="Apply it: herdbeat apply")
        raise NotFound("This fleet has never been started.", hint="Start it with: herdbeat up")

    def build_not_applied_error(self, word: str) -> NotFound | None:
        """Return the error for a name that is in the files and not in the ledger; None if it is in neither."""
        if not self.has_files or self.fleet.schedule(word) is None:
            return None
        hint = "Apply it: herdbeat apply" if self.is_shared else "Start the fleet: herdbeat up"
        return NotFound(f'"{word}" is in the configuration, but not in the ledger yet.', hint=hint)
