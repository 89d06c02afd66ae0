"""What the work sources of a fleet offer now: each is queried once, as a beat queries it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from herdbeat.clock import Clock
from herdbeat.config.files import read_environment
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.work_item import WorkItem
from herdbeat.work.base import WorkSourceFailed
from herdbeat.work.registry import SourceContext, open_work_source

ASK_TIMEOUT_S = 30.0
"""Seconds for one source: a person waits for the answer."""

_PROGRAM_VARIABLES = ("PATH", "HOME")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffer:
    """What one source offers to the schedules that take items from it.

    `problems` are what a person should put right. If it did not answer, `error` says why and `hint` what to do.
    """

    schedules: tuple[str, ...]
    key: str = ""
    items: tuple[WorkItem, ...] = ()
    problems: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""


def ask_sources(
    fleet: Fleet, environ: Mapping[str, str], clock: Clock, *, target: str | None = None, finds_problems: bool = False
) -> list[SourceOffer]:
    """Return the offer of each source, for one target or for all. Sources are asked at the same time."""
    environ = read_environment(fleet.home, environ)
    context = SourceContext(
        clock=clock,
        environment=environ,
        program_environment={name: environ[name] for name in _PROGRAM_VARIABLES if name in environ},
    )
    sources = _group_schedules(fleet, target)

    async def ask_all() -> list[SourceOffer]:
        asked = (_ask(text, tuple(labels), context, finds_problems) for text, labels in sources.items())
        return list(await asyncio.gather(*asked))

    return asyncio.run(ask_all()) if sources else []


def _group_schedules(fleet: Fleet, target: str | None) -> dict[str, list[str]]:
    """Return the labels of schedules by their source, as text."""
    labels: dict[str, list[str]] = {}
    for schedule in fleet.schedules:
        if schedule.work_source is not None and target in (None, schedule.target):
            labels.setdefault(json.dumps(dict(schedule.work_source), sort_keys=True), []).append(schedule.label)
    return labels


async def _ask(text: str, labels: tuple[str, ...], context: SourceContext, finds_problems: bool) -> SourceOffer:
    try:
        source = open_work_source(json.loads(text), context)
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                items = await source.list()
                problems = await source.find_problems() if finds_problems else ()
        finally:
            await source.close()
    except WorkSourceFailed as error:
        return SourceOffer(schedules=labels, error=error.message, hint=error.hint)
    except TimeoutError:
        return SourceOffer(schedules=labels, error=f"no answer in {ASK_TIMEOUT_S:g} s", hint="Check the network.")
    return SourceOffer(schedules=labels, key=source.key, items=items, problems=problems)
