"""Have the files of a fleet changed? Told from their times and sizes, so that asking costs nearly nothing."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from herdbeat.clock import Clock
from herdbeat.config.loader import LoadResult
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, StoreUnavailable
from herdbeat.events import ConfigApplied, ConfigRejected, EventListener
from herdbeat.service.commands.base import AppliedFleet
from herdbeat.service.commands.fleet import require_valid_fleet

FileStamps = Mapping[Path, tuple[int, int, int] | None]
"""Of each file when it was changed, how long it is and which one it is; None for one that is not there."""


def list_watched_paths(result: LoadResult, base: Path) -> tuple[Path, ...]:
    """Everything that a reading looked at: its files, the folders it listed, and an .env beside the first file."""
    named = [base / name for name in (*result.sources, *result.folders)]
    return (*named, *(path.parent / ".env" for path in named[:1]))


def stamp_files(paths: Iterable[Path]) -> FileStamps:
    return {path: _stamp_file(path) for path in paths}


def _stamp_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# Files that change while the fleet runs: looked at every second, read when they have settled, applied if right.
#
# A file with a mistake changes nothing: the fleet goes on with the last good one, and says so once.


log = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
"""Seconds between two looks."""

READER_SWITCH_INTERVAL_S = 0.0005
"""Seconds for which the thread that reads keeps Python's lock, while somebody waits for it.

Python's own 5 ms add up: a beat's way through the loop and the writer asks for the lock a dozen times, and while ten
thousand targets were read, beats started 140 ms late.
"""

LoadConfig = Callable[[], LoadResult]
ApplyFleet = Callable[[Fleet], Awaitable[AppliedFleet]]

_RESTART_REQUIRED_SETTINGS = (
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


class ConfigWatcher:
    """Watches what `read` reads. `base` is the folder that its names count from."""

    def __init__(
        self, fleet: Fleet, base: Path, read: LoadConfig, apply: ApplyFleet, publish: EventListener, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._base = base
        self._read = read
        self._apply = apply
        self._publish = publish
        self._clock = clock
        self._paths: tuple[Path, ...] = ()
        self._last_seen: FileStamps = {}
        self._last_applied: FileStamps = {}

    async def run(self) -> None:
        """Until cancelled. It has to begin first."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.poll()

    def start_watching(self, load_result: LoadResult) -> None:
        """From here on, changes count."""
        self._paths = list_watched_paths(load_result, self._base)
        self._last_seen = self._last_applied = stamp_files(self._paths)

    async def poll(self) -> None:
        """One look. What has changed is read at the second look that finds it the same: editors write in pieces."""
        found = await asyncio.to_thread(stamp_files, self._paths)
        has_settled, self._last_seen = found == self._last_seen, found
        if found == self._last_applied or not has_settled:
            return
        self._last_applied = found
        try:
            await self.reload()
        except StoreUnavailable as error:
            log.warning("files not applied error=%s next look in %ss", error, POLL_INTERVAL_S)
            self._last_applied = {}

    async def reload(self) -> None:
        """Read the files now, and do what they say."""
        try:
            load_result = await load_in_thread(self._read)
        except ConfigError as error:  # the file itself is gone
            self._publish_rejected(error)
            return
        # A broken file may lead to fewer others than the good one did: those stay watched, for they mend it too.
        self._paths = tuple(
            dict.fromkeys((*list_watched_paths(load_result, self._base), *(self._paths if load_result.errors else ())))
        )
        self._last_seen = self._last_applied = stamp_files(self._paths)
        try:
            fleet = require_valid_fleet(load_result)
        except ConfigError as error:
            self._publish_rejected(error)
            return
        result = await self._apply(fleet)
        publish_applied(self._publish, self._clock.now(), result, restart_required(self._fleet, fleet))

    def _publish_rejected(self, error: ConfigError) -> None:
        where = str(error.where or "")
        self._publish(ConfigRejected(self._clock.now(), where, error.problems[0].message, len(error.problems)))


_T = TypeVar("_T")
_DEFAULT_SWITCH_INTERVAL_S = sys.getswitchinterval()


async def load_in_thread(read: Callable[[], _T]) -> _T:
    """In a thread that gives way to the beats. For a process that is all herdbeat's: how threads take turns is its."""
    sys.setswitchinterval(READER_SWITCH_INTERVAL_S)
    try:
        return await asyncio.to_thread(read)
    finally:
        sys.setswitchinterval(_DEFAULT_SWITCH_INTERVAL_S)


def publish_applied(publish: EventListener, now: datetime, result: AppliedFleet, ignored: tuple[str, ...] = ()) -> None:
    """Files that say the same in other lines are no news."""
    event = ConfigApplied(now, result.added, result.changed, result.removed, ignored)
    if event.added or event.changed or event.removed or event.unheeded:
        publish(event)


def restart_required(current: Fleet, updated: Fleet) -> tuple[str, ...]:
    """The settings that differ and only count from the next start."""
    return tuple(name for name in _RESTART_REQUIRED_SETTINGS if getattr(current, name) != getattr(updated, name))
