"""Runs any target by telling one function of the process about it: the way of those who bring a runner of their own."""

from functools import partial

from herdbeat.domain.run import Outcome
from herdbeat.runners.base import Job
from herdbeat.runners.callable import CallableRunner
from herdbeat.runners.functions import Function


class CallbackRunner:
    """The function gets the Job. What it returns or raises counts as with any callable."""

    def __init__(self, function: Function, callables: CallableRunner) -> None:
        self._function = function
        self._callables = callables

    async def run(self, job: Job) -> Outcome:
        call = partial(self._function.call, job)
        return await self._callables.attempt(job, self._callables.call(job, call, is_async=self._function.is_async))

    async def wait_stopped(self, run_id: int) -> None:
        await self._callables.wait_stopped(run_id)
