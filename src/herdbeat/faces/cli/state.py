"""`herdbeat state`: the state of all schedules as a state.yaml, and the import of one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from herdbeat.domain.schedule import label_of
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.person import person
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import World
from herdbeat.scheduler.remember import Memory
from herdbeat.service.state_file import memory_rows, read_state, remember_for_later, state_object

BATCH = 100
"""Schedules in one request: it is one line, and those are not endless."""

_NAMED = 5
"""Schedules of one fate that are named; more are counted."""

Memories = Mapping[tuple[str, str], Memory]


def run(given: Given, world: World) -> int:
    file = given.value(flags.IMPORT)
    with open_ledger(given, world) as ledger:
        if file is not None:
            return _import(given, world, ledger, (world.folder / file).absolute())
        found = state_object(ledger.reader, ledger.name) if ledger.reader is not None else {"agents": {}}
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    world.terminal.out.write(_yaml(found))
    if ledger.reader is None:
        world.terminal.remark(NEVER)
    return 0


def _yaml(found: object) -> str:
    from yaml import safe_dump  # noqa: PLC0415 - not for who wants JSON

    text: str = safe_dump(found, sort_keys=False, allow_unicode=True, width=120)
    return text


def _import(given: Given, world: World, ledger: Ledger, file: Path) -> int:
    memories = read_state(file)
    if not memories:
        raise UsageError(f"{file} tells of no schedule.", hint="Name a state.yaml: agents, each with its schedules.")
    if given.has(flags.DRY_RUN):
        known = {each.id for each in ledger.fleet.schedules}
        found = [key for key in memories if "/".join(key) in known]
        world.terminal.remark(
            f"Would look at {len(found)} of {counted(len(memories), 'schedule')}. Nothing was changed."
        )
        return 0
    answers = [_remember(world, ledger, part) for part in _parts(memories)]
    total: dict[str, list[str]] = {"taken": [], "kept": [], "empty": [], "unknown": []}
    for answer in answers:
        for fate in total:
            total[fate] += answer[fate]
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(total, indent=2, ensure_ascii=False))
        return 0
    for line in _told(total):
        world.terminal.say(line)
    return 0


def _remember(world: World, ledger: Ledger, memories: Memories) -> dict[str, Any]:
    who = person(world)
    request = {"do": "remember", "who": who, "memories": list(memory_rows(memories))}

    def offline() -> dict[str, Any]:
        return asdict(remember_for_later(ledger.path, ledger.fleet, ledger.now, memories, who))

    return reach(ledger, request, offline)[0]


def _parts(memories: Memories) -> Iterator[Memories]:
    left = iter(memories.items())
    while part := dict(islice(left, BATCH)):
        yield part


def _told(total: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"Took over {counted(len(total['taken']), 'schedule')}.   see: herdbeat list"
    for fate, said in (("kept", "has a past here, which stays"), ("unknown", "is not in this fleet")):
        for name in total[fate][:_NAMED]:
            yield f"  {_label(name)}  {said}"
        if len(total[fate]) > _NAMED:
            yield f"  and {len(total[fate]) - _NAMED} more"
    if total["empty"]:
        yield f"  {counted(len(total['empty']), 'schedule')} never ran there"


def _label(name: str) -> str:
    return printable(label_of(*name.rsplit("/", 1)))
