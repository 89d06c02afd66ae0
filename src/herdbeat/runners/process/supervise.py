"""A program under supervision: its pipes are read, and all its processes are ended if its run is cancelled.

A program that ends by itself takes its process group with it, and no more: it may have started a server on purpose, in
a session of its own. A program that is cancelled takes everything with it that it has started, and so does an agent:
what it has left in the background, nobody has asked for.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from herdbeat.platform import ControlGroup, ProcessInfo, has_process_table
from herdbeat.runners.process.child import Child, PipeReader, PipeWriter
from herdbeat.runners.process.output import OutputSink
from herdbeat.runners.process.process_tree import (
    ProcessIdentity,
    find_descendants,
    find_run_processes,
    send_signal,
)
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.05
KILL_WAIT_S = 5.0
"""How long processes are killed again and again until none is left. The kernel may hold one in I/O for longer."""

EMPTY_LOOKS = 2
"""How many looks at the process table in a row find nobody before the processes count as ended.

A process that is started while the table is read may be missing in it.
"""

ENCLOSE_LOOKS = 2
"""How often the processes of a new program are looked for, to move them into its group: some start meanwhile."""

MAX_NAMED_PIDS = 5


@dataclass(slots=True)
class RunProcesses:
    """The processes of one run: those of its program's group, and those that have left it.

    With `is_sandboxed` the group is only what confines the program, which ends with it. It is killed, but not asked to
    end: the program would have no time for that.
    """

    child: Child
    node: str
    run: str
    group: ControlGroup | None
    is_sandboxed: bool = False
    _known: set[ProcessIdentity] = field(default_factory=set)

    async def enclose(self) -> None:
        """Put the program into its control group, with what it has started by now."""
        if self.group is not None:
            await call_in_thread(self._enclose, self.group)

    def _enclose(self, group: ControlGroup) -> None:
        # The kernel may need 10 ms to move a process: the event loop does not wait for it. The program is not stopped
        # meanwhile, because what leaves its process group right then would never be continued. What is started while
        # the others are moved is found by its mark.
        moved: set[int] = set()
        for _ in range(ENCLOSE_LOOKS):
            for pid in find_descendants(self.child.identity.pid):
                if pid not in moved:
                    group.add(pid)
                    moved.add(pid)

    async def find(self) -> list[ProcessInfo]:
        """Return the living ones. In a thread: reading the process table takes milliseconds, with `ps` many."""
        runs = {self.run: self.child.identity}
        found = await call_in_thread(find_run_processes, self.node, runs, frozenset(self._known))
        # They are looked for again: an exiting process loses its mark a moment before it has ended.
        self._known.update(ProcessIdentity(process.pid, process.start) for process in found)
        return found

    def signal(self, number: signal.Signals, processes: Sequence[ProcessInfo]) -> None:
        """Signal the program's group, and those of the processes that have left it."""
        if not self.is_sandboxed or number is signal.SIGKILL:
            self.child.signal_group(number)
        for process in self.outside_group(processes):
            send_signal(ProcessIdentity(process.pid, process.start), number)

    def outside_group(self, processes: Sequence[ProcessInfo]) -> list[ProcessInfo]:
        return [process for process in processes if process.group != self.child.identity.pid]

    async def kill(self) -> list[ProcessInfo]:
        """Kill until none is left, also of those that are started meanwhile. Returns what survives."""
        loop = asyncio.get_running_loop()
        until, empty_looks = loop.time() + KILL_WAIT_S, 0
        while True:
            # Before the look: one that takes longer than all of the time finds what nobody has killed so far.
            is_last = loop.time() > until
            if self.group is not None:
                self.group.kill()
            found = await self.find()
            self.signal(signal.SIGKILL, found)
            empty_looks = 0 if found else empty_looks + 1
            if empty_looks == EMPTY_LOOKS or is_last:
                return found
            if found:
                await asyncio.sleep(POLL_INTERVAL_S)


class SupervisedProcess:
    """A child with its pipes. When `wait_exit` raises CancelledError, nothing that it started is left.

    `output` gets what the child prints, `survivors` says what could not be ended, for the user. With `interrupts_first`
    a cancelled program gets INT, as by Ctrl-C, and time to end its work, before it gets TERM. With `ends_all` nothing
    is left of one that ends by itself either.
    """

    def __init__(
        self,
        processes: RunProcesses,
        run_log: RunLog,
        settings: RunnerSettings,
        output: OutputSink,
        *,
        stdin: bytes = b"",
        interrupts_first: bool = False,
        ends_all: bool = False,
    ) -> None:
        self.survivors = ""
        self._ends_all = ends_all
        self._output = output
        self._processes = processes
        self._child = child = processes.child
        self._run_log = run_log
        self._interrupt_grace = settings.interrupt_grace.total_seconds() if interrupts_first else 0.0
        self._kill_after = settings.kill_after.total_seconds()
        self._pipe_grace = settings.pipe_grace.total_seconds()
        self._readers = (PipeReader(child.stdout, output.add_stdout), PipeReader(child.stderr, output.add_stderr))
        self._writer = PipeWriter(child.stdin, stdin) if child.stdin is not None else None

    async def wait_exit(self) -> int:
        """Return the exit status. Cancelled, it sends TERM to all processes, then KILL: later or if cancelled again."""
        enclosing = asyncio.ensure_future(self._processes.enclose())
        try:
            await asyncio.shield(enclosing)
            await self._child.exited.wait()
            await self._drain_pipes()
            if self._ends_all:
                await self._end_rest()
        except asyncio.CancelledError:
            self._run_log.note("cancelled: stopping the program and all processes that it started")
            self._output.mark_cancelled()
            is_forced = await complete(enclosing)
            if is_forced:
                self._note_forced()
            else:
                await self._terminate()
            await complete(self._kill())
            raise
        finally:
            status = self._cleanup()
        assert status is not None
        return status

    async def _drain_pipes(self) -> None:
        """Read the rest of the output, for a limited time: processes that the program left may keep the pipes open."""
        for reader in self._readers:
            reader.hurry()
        try:
            async with asyncio.timeout(self._pipe_grace):
                await self._wait_drained()
        except TimeoutError:
            await self._report_holders()

    async def _report_holders(self) -> None:
        found = await self._processes.find()
        left = self._processes.outside_group(found)
        if len(left) < len(found) or not found:
            self._run_log.note("the program has ended but left processes that keep its output open; stopping them")
        if left and not self._ends_all:
            self._run_log.note(
                "the program has ended; processes that it started in new sessions continue,"
                " and their output is no longer recorded:"
                f" {_format_pids(left)}"
            )

    async def _end_rest(self) -> None:
        """Kill what the program has left in sessions of its own. Its group ends with it in any case."""
        left = self._processes.outside_group(await self._processes.find())
        if left:  # what confines a program needs a moment to end after it: that is nothing to report
            await asyncio.sleep(POLL_INTERVAL_S)
            left = self._processes.outside_group(await self._processes.find())
        if left:
            self._run_log.note(f"the program has ended and left processes; stopping them: {_format_pids(left)}")
            await complete(self._kill())

    async def _terminate(self) -> None:
        try:
            await self._interrupt()
            async with asyncio.timeout(self._kill_after):
                found = await self._processes.find()
                self._processes.signal(signal.SIGTERM, found)
                await self._child.exited.wait()
                await self._wait_drained()
                while await self._processes.find():  # noqa: ASYNC110  processes that are not our children
                    await asyncio.sleep(POLL_INTERVAL_S)
        except TimeoutError:
            self._run_log.note("the program did not stop in time; killing it")
        except asyncio.CancelledError:
            self._note_forced()

    def _note_forced(self) -> None:
        self._run_log.note("cancelled again: killing the program")

    async def _interrupt(self) -> None:
        """Let an agent end its turn, as by Ctrl-C: it may still say what it has used."""
        if self._interrupt_grace:
            if self._processes.is_sandboxed:
                self._processes.signal(signal.SIGINT, await self._processes.find())
            else:
                self._child.signal_group(signal.SIGINT)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interrupt_grace):
                    await self._child.exited.wait()

    async def _kill(self) -> None:
        """Kill what is left, and say what cannot be killed."""
        left = await self._processes.kill()
        await self._child.exited.wait()
        if left:
            self.survivors = f"some processes could not be stopped: {_format_pids(left)}"
            self._run_log.note(self.survivors)
            log.error(
                "processes could not be stopped run=%s pids=%s stop them manually",
                self._processes.run,
                _format_pids(left),
            )
        elif not has_process_table():
            self._run_log.note("only its process group was stopped: other processes are not visible on this system")

    async def _wait_drained(self) -> None:
        for reader in self._readers:
            await reader.eof.wait()

    def _cleanup(self) -> int | None:
        """Kill what is left of the group, before reaping the leader makes the id of the group reusable."""
        self._child.signal_group(signal.SIGKILL)
        for reader in self._readers:
            reader.read_remaining()
            reader.close()
        if self._writer is not None:
            self._writer.close()
        self._output.close()
        return self._child.release()


async def complete(work: Awaitable[None]) -> bool:
    """Await to the end, however often this task is cancelled meanwhile. The caller raises CancelledError itself.

    Returns whether it was cancelled meanwhile: a cancel that means "at once" would be lost otherwise.
    """
    task = asyncio.ensure_future(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    return is_cancelled


def _format_pids(processes: Sequence[ProcessInfo]) -> str:
    pids = ", ".join(str(process.pid) for process in processes[:MAX_NAMED_PIDS])
    more = len(processes) - MAX_NAMED_PIDS
    return f"pid {pids}" + (f" and {more} more" if more > 0 else "")
