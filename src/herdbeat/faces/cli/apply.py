"""`herdbeat apply`: the plan, and then the doing. With --dry-run the plan alone, which writes nothing at all."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdbeat.app import read_configuration
from herdbeat.config import find_config
from herdbeat.domain.change import What
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.apply_words import plan_lines, summary
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.crew import effect_words
from herdbeat.faces.cli.ledger import Ledger, by_its_clock
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.person import person
from herdbeat.faces.cli.problems import show_error
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.times import wanted_zone
from herdbeat.faces.cli.world import World
from herdbeat.scheduler.foresee import Foresight
from herdbeat.service.applying import (
    PARTS,
    apply_for_later,
    arranged_object,
    part_of,
    plan_in,
    plan_object,
    stored_in,
    usable,
)
from herdbeat.store.places import ledger_of

DECLINED = 1
CHANGES = 6
"""What --exit-code answers if there is something to do."""

_SAME = "The fleet is as the files say. Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be applied, to which ledger. A part removes nothing."""

    fleet: Fleet
    ledger: Ledger
    file: Path
    is_whole: bool


def run(given: Given, world: World) -> int:
    """Files with a mistake change nothing, and every mistake is told."""
    try:
        wanted = _wanted(given, world)
    except ConfigError as error:
        show_error(world.terminal, error, as_json=given.has(flags.JSON))
        world.terminal.remark("Nothing was changed; a fleet that runs keeps the last good configuration.")
        return error.exit_status
    plan = plan_in(wanted.ledger.path, wanted.fleet, wanted.ledger.now, is_whole=wanted.is_whole)
    is_json = given.has(flags.JSON)
    if not is_json:
        for line in plan_lines(world.terminal, plan, wanted.ledger.now, wanted.ledger.zone):
            world.terminal.say(line)
    if given.has(flags.DRY_RUN):
        return _end_dry(given, world, plan, is_json=is_json)
    if not _consented(given, world, plan):
        world.terminal.remark("Nothing was changed.")
        return DECLINED
    done, is_served = _apply(world, wanted)
    if is_json:
        answer = {**plan_object(plan), "applied": True, "served": is_served}
        world.terminal.say(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        world.terminal.remark(_told(plan, done, wanted.ledger))
    return 0


def _wanted(given: Given, world: World) -> Wanted:
    word, option = given.word(0), given.value(flags.CONFIG)
    reading = read_configuration(word or option, world.environ, world.folder)
    is_part = word is not None and reading.kind in PARTS
    if word is not None and option is not None and not is_part:
        raise UsageError("PATH and --config say the same thing.", hint="Give the path once.")
    whole = usable(read_configuration(option, world.environ, world.folder) if is_part else reading)
    path = ledger_of(whole)
    fleet = part_of(whole, reading, stored_in(path)) if is_part else whole
    ledger = Ledger(
        name=whole.name,
        path=path,
        now=world.clock.now(),
        clock=world.clock,
        zone=wanted_zone(given) or whole.zone,
        reader=None,
        read_files=lambda: whole,
    )
    named = word or option
    file = find_config(world.folder, world.environ, None if named is None else Path(named))
    assert file is not None, "it was read a moment ago"
    ledger = by_its_clock(ledger, world)
    return Wanted(fleet=fleet, ledger=ledger, file=file.absolute(), is_whole=not is_part)


def _apply(world: World, wanted: Wanted) -> tuple[dict[str, Any], bool]:
    who = person(world)
    request = {"do": "apply", "path": os.fspath(wanted.file), "who": who}

    def offline() -> dict[str, Any]:
        ledger = wanted.ledger
        done = apply_for_later(ledger.path, wanted.fleet, ledger.now, who, is_whole=wanted.is_whole)
        return arranged_object(done)

    return reach(wanted.ledger, request, offline)


def _consented(given: Given, world: World, plan: Foresight) -> bool:
    """Asked where somebody sits and something goes away. A pipeline has said what it wants by its files."""
    removed = plan.count(What.REMOVE)
    if not removed or given.has(flags.YES) or not world.can_ask or world.stdin is None:
        return True
    world.terminal.err.write(f"Removes {counted(removed, 'schedule')}; history stays. Continue? [y/N] ")
    world.terminal.err.flush()
    return world.stdin.readline().strip().lower() in ("y", "yes")


def _end_dry(given: Given, world: World, plan: Foresight, *, is_json: bool) -> int:
    if is_json:
        answer = {**plan_object(plan), "applied": False}
        world.terminal.say(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        world.terminal.remark(f"{summary(plan, 'to')}  Nothing was changed." if plan.items else _SAME)
    return CHANGES if plan.items and given.has(flags.EXIT_CODE) else 0


def _told(plan: Foresight, done: dict[str, Any], ledger: Ledger) -> str:
    if not plan.items:
        return _SAME
    effect = f"  In effect now (pid {done['pid']})." if "pid" in done else f"\n{effect_words(ledger)}"
    return f"{summary(plan, '')}{effect}\nundo: put the files back as they were, and apply again"
