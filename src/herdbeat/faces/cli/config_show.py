"""`herdbeat config show`: what is really in force, and which line of which file says so."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read, select_schedules
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World

if TYPE_CHECKING:
    from herdbeat.config import Value


def run(given: Given, world: World) -> int:
    path, selector = _path_and_selector(given)
    reading, fleet = read(path, world)
    prefixes = None if selector is None else tuple(_prefixes(fleet, selector))
    values = [each for each in reading.values if prefixes is None or each.path.startswith(prefixes)]
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({"values": [_json(each) for each in values]}, indent=2, ensure_ascii=False))
    elif given.has(flags.PLAIN):
        for each in values:
            world.terminal.say("\t".join([each.path, _text(each), str(each.origin)]))
    else:
        kept = [each for each in values if given.has(flags.VERBOSE) or _is_worth_a_line(each, selector is not None)]
        _show(world.terminal, fleet, kept)
        if len(kept) < len(values):
            world.terminal.remark("Some defaults are left out; -v shows them.")
    return 0


def _path_and_selector(given: Given) -> tuple[str | None, str | None]:
    """A single word is a path if it looks like one: it ends in .yaml, or begins with a dot or a slash."""
    option, first, second = given.value(flags.CONFIG), given.word(0), given.word(1)
    path = first if second is not None or (first is not None and _looks_like_path(first)) else None
    if path is not None and option is not None:
        raise UsageError("PATH and --config say the same thing.", hint="Give the path once.")
    return path if path is not None else option, second if path is not None else first


def _looks_like_path(word: str) -> bool:
    return word.endswith((".yaml", ".yml", "/")) or word.startswith((".", "/"))


def _prefixes(fleet: Fleet, selector: str) -> Iterator[str]:
    """The beginnings of the paths of what was selected: of whole targets, or of single schedules."""
    schedules = select_schedules(fleet, selector)
    target = fleet.target(selector)
    if target is not None:
        yield _path_of(target)
        return
    for schedule in schedules:
        yield _path_of_schedule(fleet, schedule)


def _path_of(target: Target) -> str:
    return f"{target.kind.section}.{target.name}."


def _path_of_schedule(fleet: Fleet, schedule: Schedule) -> str:
    target = fleet.target(schedule.target)
    assert target is not None
    return f"{_path_of(target)}schedules.{schedule.name}."


def _show(terminal: Terminal, fleet: Fleet, values: "Sequence[Value]") -> None:
    """Key, value and origin, below the name of what they belong to."""
    owners = _owners(fleet)
    rows, headings = [], []
    for value in values:
        prefix = next((prefix for prefix in owners if value.path.startswith(prefix)), "")
        headings.append(owners.get(prefix, fleet.name))
        key = value.path.removeprefix(prefix)
        rows.append([printable(key), printable(_text(value)), _styled_origin(terminal, value)])
    lines = terminal.lines(rows, indent="  ", shrink=(1,))
    for heading, pairs in groupby(zip(headings, lines, strict=True), key=lambda pair: pair[0]):
        terminal.say(terminal.style(printable(heading), "bold"))
        for _, line in pairs:
            terminal.say(line)


def _owners(fleet: Fleet) -> dict[str, str]:
    """The beginning of a path, and whose it is; schedules first, for they lie inside their targets."""
    schedules = {_path_of_schedule(fleet, each): each.id for each in fleet.schedules}
    return schedules | {_path_of(each): f"{each.name} ({each.kind})" for each in fleet.targets}


def _is_worth_a_line(value: "Value", show_defaults: bool) -> bool:
    """What nobody set is left out, and of a whole fleet the defaults too."""
    return value.origin != "default" or (show_defaults and value.value is not None)


def _styled_origin(terminal: Terminal, value: "Value") -> str:
    origin = printable(str(value.origin))
    return terminal.style(origin, "dim" if isinstance(value.origin, str) else "cyan")


def _text(value: "Value") -> str:
    """One line: texts as they are, everything else as JSON."""
    if isinstance(value.value, str):
        return " ".join(value.value.split()) if value.value else '""'
    return "—" if value.value is None else json.dumps(value.value, ensure_ascii=False)


def _json(value: "Value") -> dict[str, object]:
    place = None if isinstance(value.origin, str) else value.origin
    return {
        "path": value.path,
        "value": value.value,
        "origin": str(value.origin),
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }
