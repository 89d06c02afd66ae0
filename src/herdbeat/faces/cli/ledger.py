"""Opening the ledger to look at it, for every command that asks. Nothing is changed, and nothing has to run."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.clock import Clock
from herdbeat.domain.records import NodeRecord
from herdbeat.errors import ConfigError, NotFound, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.signpost import Signpost, find_bare_ledger, find_signpost, leave_signpost
from herdbeat.faces.cli.times import wanted_zone
from herdbeat.faces.cli.world import World
from herdbeat.store.lock import holder_of
from herdbeat.store.looking import LookReader
from herdbeat.store.opening import audit_at, clock_at, look_at
from herdbeat.store.places import LedgerPlace, ledger_of, state_dir_of

if TYPE_CHECKING:
    from herdbeat.domain.fleet import Fleet

MOST = 10_000
NEVER = "Nothing has run here yet. Start it with: herdbeat up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The fleet's name, its ledger and the moment of asking. Without a reader, nothing has ever run.

    A fleet of a Python program has a ledger and no files.
    """

    name: str
    path: LedgerPlace
    now: datetime
    zone: ZoneInfo
    clock: Clock
    read_files: "Callable[[], Fleet]"
    reader: LookReader | None = None
    has_files: bool = True
    is_there: bool = False

    @property
    def fleet(self) -> "Fleet":
        """What the files say. They are read when this is first asked for, which takes its time."""
        return self.read_files()

    @property
    def state_dir(self) -> Path:
        return state_dir_of(self.path)

    @property
    def holder(self) -> int | None:
        """The process that runs the fleet; None if nobody does. Where nodes share a ledger, any that works will do."""
        if isinstance(self.path, Path):
            return holder_of(self.state_dir)
        return next((node.pid for node in self.crew if node.works), None)

    @property
    def is_shared(self) -> bool:
        """Whether nodes on other machines may run it."""
        return not isinstance(self.path, Path)

    @property
    def crew(self) -> tuple[NodeRecord, ...]:
        """The nodes that share this ledger and live. A ledger in a file has none: it has a holder."""
        if not self.is_shared or not self.is_there:
            return ()
        if self.reader is not None:
            return tuple(self.reader.nodes(MOST, self.clock.now()))
        with closing(look_at(self.path)) as reader:
            return tuple(reader.nodes(MOST, self.clock.now()))

    def opened(self) -> LookReader:
        if self.reader is None:
            raise self._never()
        return self.reader

    def _never(self) -> NotFound:
        if not self.is_shared:
            return NotFound("Nothing has run here yet.", hint="Start it with: herdbeat up")
        return NotFound("Nothing was applied to this store yet.", hint="Do so once: herdbeat apply")

    def only_written(self, word: str) -> NotFound | None:
        """What to say of a name that is in the files and not in the ledger; None if it is not there either."""
        if not self.has_files or self.fleet.schedule(word) is None:
            return None
        hint = "Bring it along: herdbeat apply" if self.is_shared else "Start it once: herdbeat up"
        return NotFound(f'"{word}" is in the files, but not in the ledger yet.', hint=hint)


@contextmanager
def open_ledger(given: Given, world: World) -> Iterator[Ledger]:
    found = by_its_clock(_find(given.value(flags.CONFIG), world), world)
    reader = look_at(found.path) if found.is_there else None
    try:
        # What the time is is asked last: to reach a database takes a while, in which others start and end.
        yield replace(found, reader=reader, zone=wanted_zone(given) or found.zone, now=found.clock.now())
    finally:
        if reader is not None:
            reader.close()


def by_its_clock(found: Ledger, world: World) -> Ledger:
    """The same, with the time that counts there."""
    clock = clock_at(found.path, world.clock)
    if clock is None:
        return found
    return replace(found, is_there=True, clock=clock, now=clock.now())


def _find(config: str | None, world: World) -> Ledger:
    signpost = find_signpost(config, world)
    if signpost is not None:
        return _by(signpost, config, world)
    last = find_signpost(config, world, is_current=False)
    if last is not None and holder_of(state_dir_of(last.ledger)) is not None:
        # Who runs the fleet reads its changed files, and goes on with its name, zone and ledger until it is started
        # anew. With ten thousand targets, the first command after each edit took 6 s to read them, too.
        return _by(last, config, world)
    bare = find_bare_ledger(config, world)
    if bare is not None:
        return _of(_fleet_in(bare, world), bare, world, has_files=False)
    try:
        return _of(*_read(config, world), world)
    except ConfigError as error:
        # Who breaks a file at night wants to know what is running, and was told of a missing bracket instead.
        if last is None:
            raise
        count = counted(len(error.problems), "problem")
        world.terminal.remark(f"The files cannot be read ({count}); this is the ledger. See: herdbeat validate")
        return _by(last, config, world)


def _by(signpost: Signpost, config: str | None, world: World) -> Ledger:
    """The files are read only if somebody asks for them."""
    return Ledger(
        name=signpost.name,
        path=signpost.ledger,
        now=world.clock.now(),
        clock=world.clock,
        zone=signpost.zone,
        read_files=cache(lambda: _read(config, world)[0]),
    )


def _of(fleet: "Fleet", path: LedgerPlace, world: World, *, has_files: bool = True) -> Ledger:
    return Ledger(
        name=fleet.name,
        path=path,
        now=world.clock.now(),
        clock=world.clock,
        zone=fleet.zone,
        read_files=lambda: fleet,
        has_files=has_files,
    )


def _fleet_in(path: Path, world: World) -> "Fleet":
    """What is known of a fleet without files: its name. Its program has the rest."""
    from herdbeat.app import system_zone  # noqa: PLC0415 -- most of the time the signpost is enough
    from herdbeat.domain.fleet import Fleet, Server  # noqa: PLC0415

    name = audit_at(path).peek(lambda tx: tx.fleet_name())
    zone = system_zone(world.environ)
    return Fleet(name=name or "", zone=zone, targets=(), schedules=(), store=f"sqlite:{path}", server=Server())


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
