"""`herdbeat config show`: what is really in force, and which line of which file says so."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from herdbeat.bootstrap import config as app
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files, select_schedules
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import UsageError

if TYPE_CHECKING:
    from herdbeat.config import ResolvedValue


def run_config_show(args: ParsedArgs, context: Context) -> int:
    path, selector = _path_and_selector(args)
    reading, fleet = load_fleet_files(path, context)
    prefixes = None if selector is None else tuple(_selected_prefixes(fleet, selector))
    values = [each for each in reading.values if prefixes is None or each.path.startswith(prefixes)]
    if args.has(flags.JSON):
        context.terminal.print(
            json.dumps({"values": [_value_object(each) for each in values]}, indent=2, ensure_ascii=False)
        )
    elif args.has(flags.PLAIN):
        for each in values:
            context.terminal.print("\t".join([each.path, _format_value(each), str(each.origin)]))
    else:
        kept = [each for each in values if args.has(flags.VERBOSE) or _is_visible(each, selector is not None)]
        _show_values(context.terminal, fleet, kept)
        if len(kept) < len(values):
            context.terminal.info("Some defaults are left out; -v shows them.")
    return 0


def _path_and_selector(args: ParsedArgs) -> tuple[str | None, str | None]:
    """A single word is a path if it looks like one: it ends in .yaml, or begins with a dot or a slash."""
    option, first, second = args.value(flags.CONFIG), args.positional(0), args.positional(1)
    path = first if second is not None or (first is not None and _is_path_like(first)) else None
    if path is not None and option is not None:
        raise UsageError("PATH and --config say the same thing.", hint="Give the path once.")
    return path if path is not None else option, second if path is not None else first


def _is_path_like(word: str) -> bool:
    return word.endswith((".yaml", ".yml", "/")) or word.startswith((".", "/"))


def _selected_prefixes(fleet: Fleet, selector: str) -> Iterator[str]:
    """The beginnings of the paths of what was selected: of whole targets, or of single schedules."""
    schedules = select_schedules(fleet, selector)
    target = fleet.target(selector)
    if target is not None:
        yield _target_prefix(target)
        return
    for schedule in schedules:
        yield _schedule_prefix(fleet, schedule)


def _target_prefix(target: Target) -> str:
    return f"{target.kind.section}.{target.name}."


def _schedule_prefix(fleet: Fleet, schedule: Schedule) -> str:
    target = fleet.target(schedule.target)
    assert target is not None
    return f"{_target_prefix(target)}schedules.{schedule.name}."


def _show_values(terminal: Terminal, fleet: Fleet, values: "Sequence[ResolvedValue]") -> None:
    """Key, value and origin, below the name of what they belong to."""
    owners = _owners_by_prefix(fleet)
    rows, headings = [], []
    for value in values:
        prefix = next((prefix for prefix in owners if value.path.startswith(prefix)), "")
        headings.append(owners.get(prefix, fleet.name))
        key = value.path.removeprefix(prefix)
        rows.append([printable(key), printable(_format_value(value)), _format_origin(terminal, value)])
    lines = terminal.format_table(rows, indent="  ", shrink=(1,))
    for heading, pairs in groupby(zip(headings, lines, strict=True), key=lambda pair: pair[0]):
        terminal.print(terminal.style(printable(heading), "bold"))
        for _, line in pairs:
            terminal.print(line)


def _owners_by_prefix(fleet: Fleet) -> dict[str, str]:
    """The beginning of a path, and whose it is; schedules first, for they lie inside their targets."""
    schedules = {_schedule_prefix(fleet, each): each.id for each in fleet.schedules}
    return schedules | {_target_prefix(each): f"{each.name} ({each.kind})" for each in fleet.targets}


def _is_visible(value: "ResolvedValue", show_defaults: bool) -> bool:
    """What nobody set is left out, and of a whole fleet the defaults too."""
    return value.origin != "default" or (show_defaults and value.value is not None)


def _format_origin(terminal: Terminal, value: "ResolvedValue") -> str:
    origin = printable(str(value.origin))
    return terminal.style(origin, "dim" if isinstance(value.origin, str) else "cyan")


def _format_value(value: "ResolvedValue") -> str:
    """One line: texts as they are, everything else as JSON."""
    if isinstance(value.value, str):
        return " ".join(value.value.split()) if value.value else '""'
    return "—" if value.value is None else json.dumps(value.value, ensure_ascii=False)


def _value_object(value: "ResolvedValue") -> dict[str, object]:
    place = None if isinstance(value.origin, str) else value.origin
    return {
        "path": value.path,
        "value": value.value,
        "origin": str(value.origin),
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }


# `herdbeat schema`: for editors, which then complete and check while one types.


def run_schema(args: ParsedArgs, context: Context) -> int:
    schema = app.build_file_schema(args.positional(0) or "fleet")
    context.terminal.print(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0
