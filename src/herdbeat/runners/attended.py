"""A child that somebody waits for: its pipes are read, and nothing of it is left when the waiting ends."""

import asyncio
import signal

from herdbeat.runners.capture import OutputCapture
from herdbeat.runners.child import Child
from herdbeat.runners.log import RunLog
from herdbeat.runners.pipes import PipeReader, PipeWriter
from herdbeat.runners.settings import RunnerSettings


class SupervisedProcess:
    """A child and the ends of its pipes, from its start until nothing of it is left."""

    def __init__(
        self, child: Child, capture: OutputCapture, run_log: RunLog, settings: RunnerSettings, stdin: bytes
    ) -> None:
        self._child = child
        self._capture = capture
        self._run_log = run_log
        self._kill_after = settings.kill_after.total_seconds()
        self._pipe_grace = settings.pipe_grace.total_seconds()
        self._readers = (PipeReader(child.stdout, capture.add_stdout), PipeReader(child.stderr, capture.add_stderr))
        self._writer = PipeWriter(child.stdin, stdin) if child.stdin is not None else None

    async def wait_exit(self) -> int:
        """The exit status. Cancelled: TERM to the group, time to obey, then KILL. Cancelled twice: KILL at once."""
        try:
            await self._child.exited.wait()
            await self._drain_pipes()
        except asyncio.CancelledError:
            self._run_log.note("cancelled: the program is asked to end")
            self._child.signal_group(signal.SIGTERM)
            await self._await_termination()
            raise
        finally:
            status = self._cleanup()
        assert status is not None
        return status

    async def _drain_pipes(self) -> None:
        """The program has ended, but one that it started may hold its output, and would hold us for ever."""
        try:
            async with asyncio.timeout(self._pipe_grace):
                await self._wait_drained()
        except TimeoutError:
            self._run_log.note("the program has ended but left others behind that hold its output: they are ended, too")

    async def _await_termination(self) -> None:
        try:
            async with asyncio.timeout(self._kill_after):
                await self._child.exited.wait()
                await self._wait_drained()
        except TimeoutError:
            self._run_log.note("it did not end in time and is killed")
        except asyncio.CancelledError:
            self._run_log.note("cancelled once more: the program is killed")
        self._child.signal_group(signal.SIGKILL)
        await self._child.exited.wait()

    async def _wait_drained(self) -> None:
        for reader in self._readers:
            await reader.eof.wait()

    def _cleanup(self) -> int | None:
        """Whatever is left of the group dies with the run, before the number of the group is given back."""
        self._child.signal_group(signal.SIGKILL)
        for reader in self._readers:
            reader.read_remaining()
            reader.close()
        if self._writer is not None:
            self._writer.close()
        self._capture.close()
        return self._child.release()
