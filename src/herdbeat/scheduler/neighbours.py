"""Neighbours: other nodes on this machine. The end of their processes is seen at once, long before their leases end."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta

from herdbeat.errors import StoreUnavailable
from herdbeat.platform import ProcessOrigin, has_ended, open_pidfd
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import Neighbour, SharedStore
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

FIRST_RETRY_DELAY = timedelta(milliseconds=20)
"""How soon a dead neighbour is looked at again, whose programs are still being ended. The wait doubles each time."""

HasLeftovers = Callable[[int, int], bool]
"""Called with pid and start of a dead node: whether programs of its runs are left. Blocks."""

RescueNodes = Callable[[Sequence[int]], Awaitable[None]]
"""Declares these nodes dead, and ends their runs as interrupted."""


def no_leftovers(pid: int, start: int) -> bool:  # noqa: ARG001 - the shape of a question
    """The default, for nodes that start no programs."""
    return False


class NeighbourWatch:
    """Rescues the runs of nodes whose processes have ended, when nothing of their programs is left.

    Only nodes with the same boot id, namespaces and user are watched: elsewhere a pid means nothing. All others, and
    nodes whose programs cannot be ended, are found dead by their lease. A stopped process has not ended.
    """

    def __init__(
        self, shared: SharedStore, timer: Timer, origin: ProcessOrigin, has_leftovers: HasLeftovers, poll: timedelta
    ) -> None:
        self._shared = shared
        self._timer = timer
        self._origin = origin
        self._has_leftovers = has_leftovers
        self._poll = poll
        self._pidfds: dict[Neighbour, int | None] = {}
        self._wake_event = asyncio.Event()

    def wake(self) -> None:
        """Look now: a node has joined, or a process has ended."""
        self._wake_event.set()

    async def run(self, node_id: int, rescue: RescueNodes, refresh: timedelta) -> None:
        """Watch until cancelled. The list of neighbours is read after notifications, and once in every `refresh`."""
        retry = FIRST_RETRY_DELAY
        try:
            while True:
                self._wake_event.clear()
                dead = await self._rescue_dead(node_id, rescue)
                wait = min(retry, self._poll) if dead else self._wait(refresh)
                retry = retry * 2 if dead else FIRST_RETRY_DELAY
                await self._timer.sleep_until(self._timer.now() + wait, self._wake_event)
        finally:
            self._watch(())

    async def _rescue_dead(self, node_id: int, rescue: RescueNodes) -> bool:
        """Return whether there are dead neighbours that this call may not have rescued."""
        try:
            self._watch(await call_in_thread(self._shared.list_neighbours, node_id, self._origin))
            dead = [each for each in self._pidfds if has_ended(each.pid, each.start)]
            gone = [each for each in dead if not await call_in_thread(self._has_leftovers, each.pid, each.start)]
            if gone:
                log.warning(
                    "neighbour died nodes=%s its process has ended; its runs are rescued",
                    [each.node_id for each in gone],
                )
                await rescue([each.node_id for each in gone])
        except StoreUnavailable as error:
            log.debug("neighbours not read error=%s retry in %s", error, self._poll)
            return True
        return bool(dead)

    def _wait(self, refresh: timedelta) -> timedelta:
        return self._poll if None in self._pidfds.values() else refresh

    def _watch(self, neighbours: Iterable[Neighbour]) -> None:
        """Watch exactly these processes."""
        wanted, loop = set(neighbours), asyncio.get_running_loop()
        for gone in self._pidfds.keys() - wanted:
            pidfd = self._pidfds.pop(gone)
            if pidfd is not None:
                loop.remove_reader(pidfd)
                os.close(pidfd)
        for new in wanted - self._pidfds.keys():
            self._pidfds[new] = pidfd = _open_or_none(new.pid)
            if pidfd is not None:
                loop.add_reader(pidfd, self._on_exit, pidfd)

    def _on_exit(self, pidfd: int) -> None:
        # It stays readable, and would call back at every step of the loop.
        asyncio.get_running_loop().remove_reader(pidfd)
        self.wake()


def _open_or_none(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None where it has to be polled."""
    try:
        return open_pidfd(pid)
    except OSError:
        return None  # it has ended, or there are no more descriptors
