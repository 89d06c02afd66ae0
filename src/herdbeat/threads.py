"""Threads for our own blocking calls, which the program around us and its functions cannot fill.

Why not `asyncio.to_thread`: the threads of the loop are few and belong to everybody. Six functions that slept in them
kept the node from its ledger: nothing started any more, and on PostgreSQL it lost its lease.
"""

import asyncio
import contextvars
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver, ResolveResult

P = ParamSpec("P")
T = TypeVar("T")

MAX_OWN_THREADS = 64
MAX_LOOKUP_THREADS = 32
"""A silent name server keeps a thread for half a minute. So lookups have their own."""

SPARE_THREADS = 64
"""How many threads the functions of a node have beside one for each run."""


class Captured(NamedTuple):
    """What a call returned or raised."""

    value: Any = None
    error: BaseException | None = None


def capture(call: Callable[[], object]) -> Captured:
    """Call a function, and never raise: for threads that somebody waits for."""
    try:
        return Captured(call())
    # Broad, because whatever ended the thread, those who wait for it would wait for ever. The error is raised to them.
    except BaseException as error:  # noqa: BLE001
        return Captured(error=error)


class DaemonExecutor(ThreadPoolExecutor):
    """Like its base, but nothing waits for its threads: a function that hangs delays neither a stop nor the exit."""

    def __init__(self, limit: int, name: str) -> None:
        super().__init__(limit, name)  # whose own threads are never started
        self._limit = limit
        self._name = name
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._counts = threading.Lock()
        self._count = 0
        self._unfinished = 0
        self._is_closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._counts:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._tasks.put(partial(_call, future, partial(function, *args, **kwargs)))
            self._unfinished += 1
            if self._unfinished > self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=f"{self._name} {self._count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End idle threads now, and busy ones after their function."""
        with self._counts:
            if not self._is_closed:
                self._is_closed = True
                for _ in range(self._count):
                    self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            with self._counts:
                self._unfinished -= 1


def _call(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    captured = capture(function)
    if captured.error is not None:
        future.set_exception(captured.error)
    else:
        future.set_result(captured.value)


def _open_pools() -> tuple[DaemonExecutor, DaemonExecutor]:
    return DaemonExecutor(MAX_OWN_THREADS, "herdbeat"), DaemonExecutor(MAX_LOOKUP_THREADS, "herdbeat lookup")


_own_pool, _lookup_pool = _open_pools()


def _forget_threads() -> None:
    """A forked process has the pools of its parent, and none of their threads."""
    global _own_pool, _lookup_pool
    _own_pool, _lookup_pool = _open_pools()


os.register_at_fork(after_in_child=_forget_threads)


async def call_in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks in a thread of our own, with the context of the caller."""
    call = partial(contextvars.copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_own_pool, call)


def use_daemon_threads(max_concurrent: int) -> None:
    """Give the running loop threads of which each run can hold one: by default it has two more than four processors.

    Only for a loop of our own. The functions use them with `asyncio.to_thread`.
    """
    executor = DaemonExecutor(max_concurrent + SPARE_THREADS, "function")
    asyncio.get_running_loop().set_default_executor(executor)


class _HostLookup:
    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> "list[ResolveResult]":
        look_up = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        found = await asyncio.get_running_loop().run_in_executor(_lookup_pool, look_up)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            {"hostname": host, "host": str(place[0]), "port": port, "family": kind, "proto": protocol, "flags": flags}
            for kind, _, protocol, _, place in found
        ]

    async def close(self) -> None:
        """Nothing is open."""


def host_lookup() -> "AbstractResolver":
    """Return what aiohttp asks for the addresses of a host. Its own resolver uses the threads of the loop."""
    # Not derived from its class: importing aiohttp takes a quarter of a second.
    return cast("AbstractResolver", _HostLookup())
