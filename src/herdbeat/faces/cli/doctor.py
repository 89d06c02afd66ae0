"""`herdbeat doctor`: what is well here, what is not, and what to do about it."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from herdbeat.app import read_configuration
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, HerdbeatError, Problem, Severity
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.up_shared import unapplied_words
from herdbeat.faces.cli.world import World
from herdbeat.service.doctor.finding import Finding, Level, problem, warning, well
from herdbeat.service.doctor.ledger import check_ledger, check_node, check_state
from herdbeat.service.doctor.machine import check_clock, check_others
from herdbeat.service.doctor.programs import check_environment, check_modules, check_programs
from herdbeat.store.lock import holder_of
from herdbeat.store.places import PostgresPlace, ledger_of, state_dir_of

UNWELL = 6
_MARKS = {Level.WELL: ("✓", "green"), Level.WARNING: ("!", "yellow"), Level.PROBLEM: ("✗", "red")}


def run(given: Given, world: World) -> int:
    here = f"{world.folder}/"  # what lies here is named as who stands here would
    found = [replace(each, text=each.text.replace(here, "")) for each in examine(given.value(flags.CONFIG), world)]
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(_object(found), indent=2, ensure_ascii=False))
    else:
        for line in _lines(world.terminal, found):
            world.terminal.say(line)
        world.terminal.remark(_summary(found))
    return UNWELL if any(each.level is Level.PROBLEM for each in found) else 0


def examine(config: str | None, world: World) -> Iterator[Finding]:
    """Everything that can be said. Without a fleet, what can be said of the machine."""
    try:
        reading = read_configuration(config, world.environ, world.folder)
    except ConfigError as error:
        yield problem("config", error.message, "herdbeat init")
        yield check_clock()
        return
    yield from _files(reading.problems, list(reading.sources))
    if reading.fleet is not None:
        yield from _fleet(reading.fleet, world)
    yield check_clock()


def _fleet(fleet: Fleet, world: World) -> Iterator[Finding]:
    counts = f"{counted(len(fleet.targets), 'target')}, {counted(len(fleet.schedules), 'schedule')}"
    yield well("fleet", f"{fleet.name}, {counts}, {fleet.zone.key}")
    path = ledger_of(fleet)
    unfit = list(check_state(path))
    yield from unfit
    if not unfit or isinstance(path, PostgresPlace):
        yield from check_ledger(path, world.clock)
        yield from _applied(fleet, world)
    if not unfit:
        yield from check_node(path)
    yield from check_programs(fleet, world.environ)
    yield from check_modules(fleet, sys.path)
    yield from check_environment(fleet, world.environ)
    yield from check_others(Path(fleet.home), None if unfit else holder_of(state_dir_of(path)))


def _applied(fleet: Fleet, world: World) -> Iterator[Finding]:
    """Whether nodes that share a ledger run what these files say."""
    try:
        differs = unapplied_words(fleet, world)
    except HerdbeatError:
        return  # the ledger cannot be asked, as was said above
    if differs:
        yield warning("files", differs.partition("\n")[0], "herdbeat apply --dry-run, then herdbeat apply")


def _files(problems: tuple[Problem, ...], sources: list[str]) -> Iterator[Finding]:
    errors = [each for each in problems if each.severity is Severity.ERROR]
    first = sources[0] if sources else "the configuration"
    if errors:
        where = f"{errors[0].where}  " if errors[0].where else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        yield problem("config", f"{where}{errors[0].message}{more}", "herdbeat validate")
    elif problems:
        yield warning("config", f"{first}  {counted(len(problems), 'warning')}", "herdbeat validate")
    else:
        yield well("config", f"{first}{f' (and {len(sources) - 1} more)' if len(sources) > 1 else ''}")


def _lines(terminal: Terminal, found: list[Finding]) -> Iterator[str]:
    room = max(len(each.about) for each in found)
    for each in found:
        glyph, colour = _MARKS[each.level]
        head = f"{terminal.style(glyph, colour)} {printable(each.about):{room}}  "
        indent = " " * (room + 4)
        first, *rest = terminal.wrap(printable(each.text), indent)
        yield head + first.strip()
        yield from rest
        if each.mend:
            fix, *more = terminal.wrap(f"fix: {printable(each.mend)}", indent)
            yield terminal.style(fix, "dim")
            yield from more


def _summary(found: list[Finding]) -> str:
    problems = sum(each.level is Level.PROBLEM for each in found)
    warnings = sum(each.level is Level.WARNING for each in found)
    if not problems and not warnings:
        return "All is well."
    parts = [counted(problems, "problem")] if problems else []
    return ", ".join([*parts, *([counted(warnings, "warning")] if warnings else [])])


def _object(found: list[Finding]) -> dict[str, object]:
    items = [{"level": each.level, "about": each.about, "text": each.text, "hint": each.mend} for each in found]
    return {"well": not any(each.level is Level.PROBLEM for each in found), "items": items}
