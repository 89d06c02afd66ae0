"""Runs endpoints. Loads its HTTP library with the first of them: a fleet without endpoints does not pay for it."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome
from herdbeat.runners.base import Job
from herdbeat.runners.settings import RunnerSettings

if TYPE_CHECKING:
    from herdbeat.runners.http.client import EndpointCaller


class HttpRunner:
    def __init__(self, settings: RunnerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._caller: EndpointCaller | None = None
        self._open_lock = asyncio.Lock()

    async def run(self, job: Job) -> Outcome:
        caller = self._caller or await self._open()
        return await caller.run(job)

    async def wait_stopped(self, run_id: int) -> None:
        """At once: a cancelled request has let go of its connection."""

    async def close(self) -> None:
        if self._caller is not None:
            await self._caller.close()

    async def _open(self) -> "EndpointCaller":
        async with self._open_lock:
            if self._caller is None:
                # In a thread: it takes a quarter of a second, and other schedules are due meanwhile.
                await asyncio.to_thread(import_module, "herdbeat.runners.http.client")
                from herdbeat.runners.http.client import EndpointCaller  # noqa: PLC0415

                self._caller = EndpointCaller(self._settings, self._clock)
        return self._caller
