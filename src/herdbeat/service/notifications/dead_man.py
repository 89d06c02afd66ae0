"""The dead-man ping: a monitor elsewhere is called while the loop turns. If it turns no more, the calls stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from herdbeat.domain.fleet import DeadMan
from herdbeat.scheduler.timers import Timer

log = logging.getLogger(__name__)


async def ping_while_turning(
    dead_man: DeadMan, timer: Timer, count_cycles: Callable[[], int], ping: Callable[[str], Awaitable[str]]
) -> None:
    """Call the monitor until cancelled, each time only if the loop has turned since the last call.

    `ping` returns what went wrong; empty if nothing did.
    """
    never, seen = asyncio.Event(), 0
    while True:
        cycles = count_cycles()
        if cycles != seen:
            seen = cycles
            problem = await ping(dead_man.url)
            if problem:
                log.warning("dead man not called error=%s retry in %s", problem, dead_man.every)
        await timer.sleep_until(timer.now() + dead_man.every, never)
