"""Opening the ledger to look at it, for every command that asks. Nothing is changed, and nothing has to run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.errors import NotFound, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.signpost import find_signpost, leave_signpost
from herdbeat.faces.cli.times import wanted_zone
from herdbeat.faces.cli.world import World
from herdbeat.store.lock import holder_of
from herdbeat.store.looking import LookReader
from herdbeat.store.opening import is_there, look_at
from herdbeat.store.places import LedgerPlace, ledger_of, state_dir_of

if TYPE_CHECKING:
    from herdbeat.domain.fleet import Fleet

MOST = 10_000
NEVER = "Nothing has run here yet. Start it with: herdbeat up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The fleet's name, its ledger and the moment of asking. Without a reader, nothing has ever run."""

    name: str
    path: LedgerPlace
    now: datetime
    zone: ZoneInfo
    reader: LookReader | None
    read_files: "Callable[[], Fleet]"

    @property
    def fleet(self) -> "Fleet":
        """What the files say. They are read when this is first asked for, which takes its time."""
        return self.read_files()

    @property
    def state_dir(self) -> Path:
        return state_dir_of(self.path)

    @property
    def holder(self) -> int | None:
        """The process that runs the fleet; None if nobody does."""
        return holder_of(self.state_dir)

    def opened(self) -> LookReader:
        if self.reader is None:
            raise NotFound("Nothing has run here yet.", hint="Start it with: herdbeat up")
        return self.reader


@contextmanager
def open_ledger(given: Given, world: World) -> Iterator[Ledger]:
    config = given.value(flags.CONFIG)
    read_files = cache(lambda: _read(config, world)[0])
    signpost = find_signpost(config, world)
    if signpost is not None:
        name, zone = signpost.name, signpost.zone
        path: LedgerPlace = signpost.ledger
    else:
        fleet, path = _read(config, world)
        read_files = cache(lambda: fleet)
        name, zone = fleet.name, fleet.zone
    reader = look_at(path) if is_there(path) else None
    zone = wanted_zone(given) or zone
    try:
        yield Ledger(name=name, path=path, now=world.clock.now(), zone=zone, reader=reader, read_files=read_files)
    finally:
        if reader is not None:
            reader.close()


def _read(config: str | None, world: World) -> "tuple[Fleet, LedgerPlace]":
    from herdbeat.faces.cli.fleets import read  # noqa: PLC0415 -- most of the time the signpost is enough

    reading, fleet = read(config, world)
    path = ledger_of(fleet)
    if isinstance(path, Path):  # the way to a database may have a password in it, and is not written down
        leave_signpost(config, world, reading, path)
    return fleet, path


def wanted_rows(text: str | None, usual: int = 50) -> int:
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 7 and 0 < int(text) <= MOST):
        raise UsageError(f'--count cannot be "{text[:20]}".', hint=f"Write a whole number from 1 to {MOST}.")
    return int(text)
