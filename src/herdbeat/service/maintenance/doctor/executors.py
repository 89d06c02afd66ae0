"""Checks of the engines that runs happen on."""

import asyncio
from collections.abc import Iterator, Mapping

from herdbeat.clock import SystemClock
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.fleet import Fleet
from herdbeat.executors.base import Executor, ExecutorError
from herdbeat.executors.registry import open_executors
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning


def check_executors(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report each engine of the fleet that does not answer, and what runs on it would miss."""
    if not fleet.executors.kinds:
        return
    for kind, said in asyncio.run(_ask_all(fleet, environ)).items():
        if isinstance(said, ExecutorError):
            yield report_problem(kind, said.message, said.hint or "Correct executors.")
        else:
            yield report_ok(kind, said)
    for kind in fleet.executors.kinds:
        access = fleet.executors.access(kind)
        if access is not None and not (access.callback or fleet.server.public_url):
            what = f"runs on {kind} report to the address of the server, which only this machine may reach"
            yield report_warning(kind, what, f"Set executors.{kind}.callback or server.public_url.")


async def _ask_all(fleet: Fleet, environ: Mapping[str, str]) -> dict[ExecutorKind, "str | ExecutorError"]:
    engines = open_executors(fleet.executors, environ, SystemClock())
    return {kind: await _ask(engine) for kind, engine in engines.items()}


async def _ask(engine: Executor) -> "str | ExecutorError":
    try:
        return await engine.check()
    except ExecutorError as error:
        return error
    finally:
        await engine.close()
