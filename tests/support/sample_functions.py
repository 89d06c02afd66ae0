"""Functions that a fleet file might name."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.runners.python import RunContext

WORD = contextvars.ContextVar("WORD", default="")
GATE = threading.Event()
ENTERED = threading.Event()
NUMBER = 17


def nothing() -> None:
    """Return nothing."""


async def nothing_async() -> None:
    """Return nothing, asynchronously."""


def yielding() -> Iterator[int]:
    yield 1


async def yielding_async() -> AsyncIterator[int]:
    yield 1


def thread() -> str:
    return threading.current_thread().name


async def thread_async() -> str:
    return threading.current_thread().name


def about(run: RunContext) -> list[object]:
    return [run.schedule, run.beat, run.due_at.isoformat(), run.attempt, run.prompt, run.variables["title"]]


async def about_async(run: RunContext) -> str:
    return run.prompt


def about_if_requested(run: RunContext | None = None) -> bool:
    return run is not None


def with_defaults(count: int = 3, *rest: int, **more: int) -> int:
    return count


def with_two(first: int, second: int) -> None: ...


def with_keyword(*, run: RunContext) -> None: ...


def word() -> str:
    return WORD.get()


def fails() -> None:
    raise ValueError("the queue is closed")


async def fails_async() -> None:
    raise ValueError("the queue is closed")


async def cancels_itself() -> None:
    raise asyncio.CancelledError


def stops_iterating() -> None:
    raise StopIteration(17)


def interrupts() -> None:
    raise KeyboardInterrupt


class OwnBaseException(BaseException):
    pass


async def raises_own_base_exception() -> None:
    raise OwnBaseException("mine")


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def raises_unreadable() -> None:
    raise UnreadableError


async def raises_generator_exit() -> None:
    raise GeneratorExit


def exits_badly() -> None:
    sys.exit("no disk")


async def exits_well() -> None:
    sys.exit()


def not_json() -> object:
    return {1}


def not_a_number() -> float:
    return float("nan")


def long() -> str:
    return "x" * 1_000_000


def outcome() -> Outcome:
    return Outcome(status=RunStatus.FAILED, error="its own words")


def waits() -> str:
    ENTERED.set()
    GATE.wait()
    return "late"


def waits_and_fails() -> None:
    ENTERED.set()
    GATE.wait()
    raise ValueError("nobody waits for this")


async def waits_async() -> None:
    ENTERED.set()
    await asyncio.Event().wait()


async def ignores_cancellation() -> None:
    """Go on until the gate opens, whatever it is told."""
    ENTERED.set()
    while not GATE.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


async def returns_when_cancelled() -> str:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "as if nothing had happened"
    return "late"


async def uses_timeouts() -> str:
    task = asyncio.create_task(asyncio.sleep(3600))
    task.cancel()
    await asyncio.wait([task])
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)
    except TimeoutError:
        return "timed out inside"
    return "late"


def looks_sync() -> object:
    return nothing_async()


class Greeter:
    def greet(self) -> str:
        return "hello"

    async def __call__(self) -> str:
        return "called"


GREETER = Greeter()
GREET: Callable[[], str] = partial(Greeter.greet, GREETER)
