"""The clock of this machine, moved by a test: real processes, real waiting, another time on the wall."""

from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.scheduler.pulse import ClockReading
from herdbeat.scheduler.timer import SystemTimer


class OffsetTimer(SystemTimer):
    """Adds the seconds written in a file, which may be changed while a process runs. Nobody else's clock is touched."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        return super().now() + self._offset()

    def pulse(self) -> ClockReading:
        real = super().pulse()
        return ClockReading(self.now(), real.monotonic, real.boottime)

    def _offset(self) -> timedelta:
        try:
            return timedelta(seconds=float(self._path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return timedelta(0)
