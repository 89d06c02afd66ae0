"""What runs have printed, on its way into a ledger that other nodes read."""

import asyncio
from collections.abc import Awaitable, Callable

from herdbeat.domain.claim import Claim
from herdbeat.runners.log import overhear
from herdbeat.runners.log_reader import end_of_log
from herdbeat.store.base import FinishedRun

KEPT = 64 * 1024
"""Bytes of its log that the ledger keeps of a run: the end of it. All of it stays with the node that ran it."""

Perform = Callable[[Claim], Awaitable[FinishedRun]]


def with_output(perform: Perform) -> Perform:
    """The same, with what the run has printed. A log that cannot be read never fails its run."""

    async def performed(claim: Claim) -> FinishedRun:
        places = overhear()
        finished = await perform(claim)
        if not places:
            return finished
        try:
            return finished._replace(output=await asyncio.to_thread(end_of_log, places[-1], KEPT))
        except OSError:
            return finished

    return performed
