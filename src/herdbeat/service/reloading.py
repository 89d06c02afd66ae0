"""Files that change while the fleet runs: looked at every second, read when they have settled, applied if right.

A file with a mistake changes nothing: the fleet goes on with the last good one, and says so once.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from herdbeat.clock import Clock
from herdbeat.config import Reading
from herdbeat.config.watch import Stamp, stamp, watched
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, StoreUnavailable
from herdbeat.events import FilesApplied, FilesRefused, Listener
from herdbeat.scheduler.arrange import Arranged
from herdbeat.service.applying import usable

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks."""

TURN = 0.0005
"""Seconds for which the thread that reads keeps Python's lock, while somebody waits for it.

Python's own 5 ms add up: a beat's way through the loop and the writer asks for the lock a dozen times, and while ten
thousand targets were read, beats started 140 ms late.
"""

Read = Callable[[], Reading]
Apply = Callable[[Fleet], Awaitable[Arranged]]

_AT_START = (
    "store",
    "server",
    "max_concurrent",
    "egress_allow",
    "lease",
    "check_interval",
    "catchup_rate",
    "stop_timeout",
    "retention",
)
"""Settings that a running fleet has taken at its start, and keeps."""


class Reloader:
    """Watches what `read` reads. `base` is the folder that its names count from."""

    def __init__(self, fleet: Fleet, base: Path, read: Read, apply: Apply, tell: Listener, clock: Clock) -> None:
        self._fleet = fleet
        self._base = base
        self._read = read
        self._apply = apply
        self._tell = tell
        self._clock = clock
        self._paths: tuple[Path, ...] = ()
        self._seen: Stamp = {}
        self._applied: Stamp = {}

    async def run(self) -> None:
        """Until cancelled. It has to begin first."""
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    def begin(self, reading: Reading) -> None:
        """From here on, changes count."""
        self._paths = watched(reading, self._base)
        self._seen = self._applied = stamp(self._paths)

    async def look(self) -> None:
        """One look. What has changed is read at the second look that finds it the same: editors write in pieces."""
        found = await asyncio.to_thread(stamp, self._paths)
        has_settled, self._seen = found == self._seen, found
        if found == self._applied or not has_settled:
            return
        self._applied = found
        try:
            await self.reload()
        except StoreUnavailable as error:
            log.warning("files not applied error=%s next look in %ss", error, LOOK)
            self._applied = {}

    async def reload(self) -> None:
        """Read the files now, and do what they say."""
        try:
            reading = await read_beside(self._read)
        except ConfigError as error:  # the file itself is gone
            self._refuse(error)
            return
        # A broken file may lead to fewer others than the good one did: those stay watched, for they mend it too.
        self._paths = tuple(dict.fromkeys((*watched(reading, self._base), *(self._paths if reading.errors else ()))))
        self._seen = self._applied = stamp(self._paths)
        try:
            fleet = usable(reading)
        except ConfigError as error:
            self._refuse(error)
            return
        arranged = await self._apply(fleet)
        tell_applied(self._tell, self._clock.now(), arranged, unheeded(self._fleet, fleet))

    def _refuse(self, error: ConfigError) -> None:
        where = str(error.where or "")
        self._tell(FilesRefused(self._clock.now(), where, error.problems[0].message, len(error.problems)))


_T = TypeVar("_T")
_USUAL_TURN = sys.getswitchinterval()


async def read_beside(read: Callable[[], _T]) -> _T:
    """In a thread that gives way to the beats. For a process that is all herdbeat's: how threads take turns is its."""
    sys.setswitchinterval(TURN)
    try:
        return await asyncio.to_thread(read)
    finally:
        sys.setswitchinterval(_USUAL_TURN)


def tell_applied(tell: Listener, now: datetime, arranged: Arranged, ignored: tuple[str, ...] = ()) -> None:
    """Files that say the same in other lines are no news."""
    told = FilesApplied(now, tuple(arranged.added), tuple(arranged.changed), tuple(arranged.removed), ignored)
    if told.added or told.changed or told.removed or told.unheeded:
        tell(told)


def unheeded(running: Fleet, wanted: Fleet) -> tuple[str, ...]:
    """The settings that differ and only count from the next start."""
    return tuple(name for name in _AT_START if getattr(running, name) != getattr(wanted, name))
