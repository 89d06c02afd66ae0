"""Runs endpoints. The HTTP library is imported by the first run: a fleet without endpoints does not pay for it."""

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
    """The runner of endpoints, which loads the HTTP client on first use."""

    def __init__(self, settings: RunnerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._caller: EndpointCaller | None = None
        self._open_lock = asyncio.Lock()

    async def run(self, job: Job) -> Outcome:
        caller = self._caller or await self._open()
        return await caller.run(job)

    async def wait_stopped(self, run_id: int) -> None:
        """Return at once: a cancelled request closes its connection before its run ends."""

    async def close(self) -> None:
        if self._caller is not None:
            await self._caller.close()

    async def _open(self) -> "EndpointCaller":
        async with self._open_lock:
            if self._caller is None:
                # In a thread, because the import takes a quarter of a second and would delay other schedules.
                await asyncio.to_thread(import_module, "herdbeat.runners.http.client")
                from herdbeat.runners.http.client import EndpointCaller  # noqa: PLC0415

                self._caller = EndpointCaller(self._settings, self._clock)
        return self._caller
