"""Watches the files of a running fleet: checks them every second, loads them when they have settled, applies them.

A file with a mistake changes nothing: the fleet continues with the last valid one, and publishes the mistake once.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from herdbeat.clock import Clock
from herdbeat.config.loader import LoadResult
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, StoreUnavailable
from herdbeat.events import ConfigApplied, ConfigRejected, EventListener
from herdbeat.service.commands.base import AppliedFleet
from herdbeat.service.commands.fleet import require_valid_fleet
from herdbeat.threads import call_in_thread

FileStamps = Mapping[Path, tuple[int, int, int] | None]
"""Modification time, size and inode of each file; None for one that does not exist."""


def list_watched_paths(result: LoadResult, base: Path) -> tuple[Path, ...]:
    """Return everything that a load reads: its files, the folders it listed, and an .env beside the first file."""
    named = [base / name for name in (*result.sources, *result.folders)]
    return (*named, *(path.parent / ".env" for path in named[:1]))


def stamp_files(paths: Iterable[Path]) -> FileStamps:
    return {path: _stamp_file(path) for path in paths}


def _stamp_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


log = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
READER_SWITCH_INTERVAL_S = 0.0005
"""Seconds for which the thread that loads keeps Python's lock while another thread waits for it.

Python's own 5 ms add up: a beat on its way through the loop and the writer needs the lock a dozen times, and while ten
thousand targets were loaded, beats started 140 ms late.
"""

LoadConfig = Callable[[], LoadResult]
ApplyFleet = Callable[[Fleet], Awaitable[AppliedFleet]]

_RESTART_REQUIRED_SETTINGS = (
    *("store", "server", "max_concurrent", "lease", "check_interval", "catchup_rate"),
    *("stop_timeout", "retention", "planner", "executors"),
)
"""Settings that a running fleet reads at its start and keeps."""


CONFIG_SUBJECT = "config"
"""What the change log says that a refusal of the files is about."""

RecordRejected = Callable[[ConfigRejected], Awaitable[None]]


class ConfigWatcher:
    """Watches what `read` reads. Relative names count from `base`."""

    def __init__(
        self,
        fleet: Fleet,
        base: Path,
        read: LoadConfig,
        apply: ApplyFleet,
        publish: EventListener,
        clock: Clock,
        record: RecordRejected | None = None,
    ) -> None:
        """`record` keeps a refusal where other processes find it."""
        self._fleet, self._base, self._clock = fleet, base, clock
        self._read, self._apply, self._publish = read, apply, publish
        self._record = record
        self._paths: tuple[Path, ...] = ()
        self._last_seen: FileStamps = {}
        self._last_applied: FileStamps = {}

    async def run(self) -> None:
        """Poll until cancelled. Call `start_watching` before."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.poll()

    def start_watching(self, load_result: LoadResult) -> None:
        """Take the files as they are now for applied."""
        self._paths = list_watched_paths(load_result, self._base)
        self._last_seen = self._last_applied = stamp_files(self._paths)

    async def poll(self) -> None:
        """Reload what has changed, once two polls find it the same: editors write in pieces."""
        stamps = await call_in_thread(stamp_files, self._paths)
        has_settled, self._last_seen = stamps == self._last_seen, stamps
        if stamps == self._last_applied or not has_settled:
            return
        self._last_applied = stamps
        try:
            await self.reload()
        except StoreUnavailable as error:
            log.warning("files not applied error=%s retry in %ss", error, POLL_INTERVAL_S)
            self._last_applied = {}

    async def reload(self) -> None:
        """Load the files now, and apply them if they are valid."""
        try:
            load_result = await load_in_thread(self._read)
        except ConfigError as error:  # the file itself is gone
            await self._reject(error)
            return
        # A broken file may include fewer others than before. Those stay watched: the fix may be in one of them.
        earlier = self._paths if load_result.errors else ()
        self._paths = tuple(dict.fromkeys((*list_watched_paths(load_result, self._base), *earlier)))
        self._last_seen = self._last_applied = stamp_files(self._paths)
        try:
            fleet = require_valid_fleet(load_result)
        except ConfigError as error:
            await self._reject(error)
            return
        result = await self._apply(fleet)
        publish_applied(self._publish, self._clock.now(), result, restart_required(self._fleet, fleet))

    async def _reject(self, error: ConfigError) -> None:
        where = str(error.where or "")
        event = ConfigRejected(self._clock.now(), where, error.problems[0].message, len(error.problems))
        self._publish(event)
        if self._record is not None:
            await self._record(event)


def build_rejection(event: ConfigRejected) -> Change:
    """Return the row of the change log for files that were not applied."""
    after = {"where": event.where, "reason": event.reason, "problems": event.problems}
    return Change(at=event.at, who="files", what=ChangeKind.REJECT, subject=CONFIG_SUBJECT, after=after)


_T = TypeVar("_T")
_readings: list[float] = []
"""For each reading under way, the switch interval before it."""


async def load_in_thread(read: Callable[[], _T]) -> _T:
    """Run `read` in a thread that yields to beats. The switch interval of the whole process changes meanwhile."""
    _readings.append(_readings[0] if _readings else sys.getswitchinterval())
    sys.setswitchinterval(READER_SWITCH_INTERVAL_S)
    try:
        return await call_in_thread(read)
    finally:
        before = _readings.pop()
        if not _readings:
            sys.setswitchinterval(before)


def publish_applied(publish: EventListener, now: datetime, result: AppliedFleet, ignored: tuple[str, ...] = ()) -> None:
    """Publish what was applied, unless the files differ only in their lines."""
    event = ConfigApplied(now, result.added, result.changed, result.removed, ignored, result.targets)
    if event.added or event.changed or event.removed or event.unheeded or event.targets:
        publish(event)


def restart_required(current: Fleet, updated: Fleet) -> tuple[str, ...]:
    """Return the settings that differ and take effect only at the next start."""
    return tuple(name for name in _RESTART_REQUIRED_SETTINGS if getattr(current, name) != getattr(updated, name))
