"""Opening the ledger to look at it, for every command that asks. Nothing is changed, and nothing has to run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import NotFound, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.next_times import wanted_zone
from herdbeat.faces.cli.world import World
from herdbeat.store.lock import holder_of
from herdbeat.store.places import ledger_path
from herdbeat.store.reader import SqliteReader

MOST = 10_000
NEVER = "Nothing has run here yet. Start it with: herdbeat up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The fleet, its ledger and the moment of asking. Without a reader, nothing has ever run."""

    fleet: Fleet
    path: Path
    now: datetime
    zone: ZoneInfo
    reader: SqliteReader | None

    @property
    def state_dir(self) -> Path:
        return self.path.parent

    @property
    def holder(self) -> int | None:
        """The process that runs the fleet; None if nobody does."""
        return holder_of(self.state_dir)

    def opened(self) -> SqliteReader:
        if self.reader is None:
            raise NotFound("Nothing has run here yet.", hint="Start it with: herdbeat up")
        return self.reader


@contextmanager
def open_ledger(given: Given, world: World) -> Iterator[Ledger]:
    _, fleet = read(given.value(flags.CONFIG), world)
    path = ledger_path(fleet)
    reader = SqliteReader(path) if path.exists() else None
    zone = wanted_zone(given) or fleet.zone
    try:
        yield Ledger(fleet=fleet, path=path, now=world.clock.now(), zone=zone, reader=reader)
    finally:
        if reader is not None:
            reader.close()


def wanted_rows(text: str | None, usual: int = 50) -> int:
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 7 and 0 < int(text) <= MOST):
        raise UsageError(f'--count cannot be "{text[:20]}".', hint=f"Write a whole number from 1 to {MOST}.")
    return int(text)
