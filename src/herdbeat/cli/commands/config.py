"""`herdbeat config show`: the values in force and the line that sets each. `herdbeat schema`: the JSON Schema."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from herdbeat.bootstrap.config import build_file_schema
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files, select_schedules
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import UsageError
from herdbeat.service.serialize import serialize_config

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import ResolvedValue


def run_show(args: ParsedArgs, context: Context) -> Output:
    path, selector = _path_and_selector(args)
    reading, fleet = load_fleet_files(path, context)
    prefixes = ("",) if selector is None else tuple(_selected_prefixes(fleet, selector))
    values = [value for value in reading.values if value.path.startswith(prefixes)]
    visible = [value for value in values if args.has(flags.VERBOSE) or _is_visible(value, selector)]
    return Output(
        json=lambda: serialize_config(values),
        plain=("\t".join([value.path, _format_value(value), str(value.origin)]) for value in values),
        lines=_value_lines(context.terminal, fleet, visible, is_cut=len(visible) < len(values)),
    )


def run_schema(args: ParsedArgs, context: Context) -> Output:  # noqa: ARG001 -- every command has this signature
    """Return the JSON Schema of a file: editors complete and check keys with it."""
    schema = build_file_schema(args.positional(0) or "fleet")
    return Output(lines=[json.dumps(schema, indent=2, ensure_ascii=False)])


def _path_and_selector(args: ParsedArgs) -> tuple[str | None, str | None]:
    """Return both. A single word is a path if it ends in .yaml, .yml or /, or begins with a dot or a slash."""
    option, first, second = args.value(flags.CONFIG), args.positional(0), args.positional(1)
    path = first if second is not None or (first is not None and _is_path_like(first)) else None
    if path is not None and option is not None:
        raise UsageError("PATH and --config cannot be combined.", hint="Give the path once.")
    return path if path is not None else option, second if path is not None else first


def _is_path_like(word: str) -> bool:
    return word.endswith((".yaml", ".yml", "/")) or word.startswith((".", "/"))


def _selected_prefixes(fleet: Fleet, selector: str) -> Iterator[str]:
    """Yield the path prefixes of what was selected: of a whole target, or of single schedules. Raises NotFound."""
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


def _is_visible(value: "ResolvedValue", selector: str | None) -> bool:
    """Return whether somebody set the value; for a selected part of the fleet, defaults are shown too."""
    return value.origin != "default" or (selector is not None and value.value is not None)


def _value_lines(terminal: Terminal, fleet: Fleet, values: "Sequence[ResolvedValue]", *, is_cut: bool) -> Iterator[str]:
    """Yield key, value and origin, below the name of the target or schedule they belong to."""
    owners = _owners_by_prefix(fleet)
    rows, headings = [], []
    for value in values:
        prefix = next((prefix for prefix in owners if value.path.startswith(prefix)), "")
        headings.append(owners.get(prefix, fleet.name))
        key = value.path.removeprefix(prefix)
        rows.append([printable(key), printable(_format_value(value)), _format_origin(terminal, value)])
    lines = terminal.format_table(rows, indent="  ", shrink=(1,))
    for heading, pairs in groupby(zip(headings, lines, strict=True), key=lambda pair: pair[0]):
        yield terminal.style(printable(heading), "bold")
        yield from (line for _, line in pairs)
    if is_cut:
        yield Notice("Some defaults are hidden; show them with -v.")


def _owners_by_prefix(fleet: Fleet) -> dict[str, str]:
    """Return the owner of each path prefix; schedules first, because they lie inside their targets."""
    schedules = {_schedule_prefix(fleet, each): each.id for each in fleet.schedules}
    return schedules | {_target_prefix(each): f"{each.name} ({each.kind})" for each in fleet.targets}


def _format_origin(terminal: Terminal, value: "ResolvedValue") -> str:
    origin = printable(str(value.origin))
    return terminal.style(origin, "dim" if isinstance(value.origin, str) else "cyan")


def _format_value(value: "ResolvedValue") -> str:
    """Return one line: texts as they are, everything else as JSON."""
    if isinstance(value.value, str):
        return " ".join(value.value.split()) if value.value else '""'
    return "—" if value.value is None else json.dumps(value.value, ensure_ascii=False)
