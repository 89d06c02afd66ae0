"""A child that somebody waits for: its pipes are read, and nothing of it is left when the waiting ends."""

import asyncio
import signal

from herdbeat.runners.capture import Capture
from herdbeat.runners.child import Child
from herdbeat.runners.log import RunLog
from herdbeat.runners.pipes import Drain, Feed
from herdbeat.runners.settings import RunnerSettings


class Attended:
    """A child and the ends of its pipes, from its start until nothing of it is left."""

    def __init__(self, child: Child, capture: Capture, words: RunLog, settings: RunnerSettings, stdin: bytes) -> None:
        self._child = child
        self._capture = capture
        self._words = words
        self._kill_after = settings.kill_after.total_seconds()
        self._pipe_grace = settings.pipe_grace.total_seconds()
        self._drains = (Drain(child.stdout, capture.take_out), Drain(child.stderr, capture.take_err))
        self._feed = Feed(child.stdin, stdin) if child.stdin is not None else None

    async def until_ended(self) -> int:
        """The exit status. Cancelled: TERM to the group, time to obey, then KILL. Cancelled twice: KILL at once."""
        try:
            await self._child.exited.wait()
            await self._let_pipes_end()
        except asyncio.CancelledError:
            self._words.note("cancelled: the program is asked to end")
            self._child.signal_group(signal.SIGTERM)
            await self._let_obey()
            raise
        finally:
            status = self._clear_away()
        assert status is not None
        return status

    async def _let_pipes_end(self) -> None:
        """The program has ended, but one that it started may hold its output, and would hold us for ever."""
        try:
            async with asyncio.timeout(self._pipe_grace):
                await self._drained()
        except TimeoutError:
            self._words.note("the program has ended but left others behind that hold its output: they are ended, too")

    async def _let_obey(self) -> None:
        try:
            async with asyncio.timeout(self._kill_after):
                await self._child.exited.wait()
                await self._drained()
        except TimeoutError:
            self._words.note("it did not end in time and is killed")
        except asyncio.CancelledError:
            self._words.note("cancelled once more: the program is killed")
        self._child.signal_group(signal.SIGKILL)
        await self._child.exited.wait()

    async def _drained(self) -> None:
        for drain in self._drains:
            await drain.ended.wait()

    def _clear_away(self) -> int | None:
        """Whatever is left of the group dies with the run, before the number of the group is given back."""
        self._child.signal_group(signal.SIGKILL)
        for drain in self._drains:
            drain.take_rest()
            drain.close()
        if self._feed is not None:
            self._feed.close()
        self._capture.close()
        return self._child.release()
