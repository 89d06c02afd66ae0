"""Runs endpoints. Loads its HTTP library with the first of them: a fleet without endpoints does not pay for it."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from herdbeat.clock import Clock
from herdbeat.domain.run import Outcome
from herdbeat.runners.base import Job
from herdbeat.runners.settings import RunnerSettings

if TYPE_CHECKING:
    from herdbeat.runners.http.calls import Calls


class HttpRunner:
    def __init__(self, settings: RunnerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._calls: Calls | None = None
        self._opening = asyncio.Lock()

    async def run(self, job: Job) -> Outcome:
        calls = self._calls or await self._open()
        return await calls.run(job)

    async def ended(self, run_id: int) -> None:
        """At once: a cancelled request has let go of its connection."""

    async def close(self) -> None:
        if self._calls is not None:
            await self._calls.close()

    async def _open(self) -> "Calls":
        async with self._opening:
            if self._calls is None:
                # In a thread: it takes a quarter of a second, and other schedules are due meanwhile.
                await asyncio.to_thread(import_module, "herdbeat.runners.http.calls")
                from herdbeat.runners.http.calls import Calls  # noqa: PLC0415

                self._calls = Calls(self._settings, self._clock)
        return self._calls
