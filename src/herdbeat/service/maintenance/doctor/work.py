"""Checks of work sources: each is asked what it offers, as a beat would, and whether it is set up for more."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem
from herdbeat.work.base import WorkSourceFailed
from herdbeat.work.registry import SourceContext, open_work_source

CHECK_TIMEOUT_S = 30.0
"""Seconds for one source: a person waits for the answer."""

LABEL_FIX = "Create the label in the repository, or name another one under labels."


def check_work(fleet: Fleet, environ: Mapping[str, str], clock: Clock) -> Iterator[DoctorFinding]:
    """Report each work source that cannot be used, once, with the schedules that take items from it."""
    schedules: dict[str, list[str]] = {}
    for schedule in fleet.schedules:
        if schedule.work_source is not None:
            schedules.setdefault(json.dumps(dict(schedule.work_source), sort_keys=True), []).append(schedule.id)
    programs = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    context = SourceContext(clock=clock, environment=environ, program_environment=programs)
    for text, labels in schedules.items():
        yield asyncio.run(_check_source(json.loads(text), context, ", ".join(labels)))


async def _check_source(spec: Mapping[str, Any], context: SourceContext, labels: str) -> DoctorFinding:
    name = "work"
    try:
        source = open_work_source(spec, context)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                offered, problems = len(await source.list()), await source.find_problems()
        finally:
            await source.close()
    except WorkSourceFailed as error:
        return report_problem(name, f"{labels}: {error.message}", error.hint)
    except TimeoutError:
        return report_problem(name, f"{labels}: no answer in {CHECK_TIMEOUT_S:g} s", "Check the network.")
    if problems:
        return report_problem(name, f"{labels}: {' '.join(problems)}", LABEL_FIX)
    return report_ok(name, f"{labels}: {offered} item{'' if offered == 1 else 's'} offered")
