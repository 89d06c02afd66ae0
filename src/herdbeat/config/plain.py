"""Python values -> the same tree that a file gives, judged by the same tables: one wording for one mistake."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.assemble import Assembly
from herdbeat.config.collect import Collector
from herdbeat.config.drafts import FleetFile, FleetZone
from herdbeat.config.files import Files
from herdbeat.config.keys.homes import HOMES
from herdbeat.config.kinds import FileKind
from herdbeat.config.reading import Reading
from herdbeat.config.report import Report
from herdbeat.durations import format_duration
from herdbeat.errors import Place, UsageError
from herdbeat.located import Located, Scalar
from herdbeat.moments import format_moment

_DEEPEST = 50


def located(value: object, place: Place) -> Located:
    """Any plain Python data as a tree; what stands inside is known by its path. Raises UsageError for other objects."""
    return _located(value, place, 1)


def read_plain(tree: Located, *, zone: ZoneInfo, home: Path, is_foreign: bool = False) -> Reading:
    """A fleet of such a tree: `agents`, `endpoints`, `commands`, `callables`. Relative paths count from `home`.

    `is_foreign` data was written for herdctl and is judged as its files are.
    """
    report = Report(homes=HOMES, is_mild=True)
    if is_foreign:
        report.foreign.add(tree.place.file)
    collector = Collector(files=Files(base=home, environ={}, report=report), report=report)
    file = FleetFile(path=home / "herdbeat.yaml", tree=tree, zone=FleetZone(zone=zone, origin="the program"))
    drafts = list(collector.drafts(file))
    assembly = Assembly(report, frozenset(draft.name for draft in drafts))
    for draft in drafts:
        assembly.add(draft)
    bare = replace(file, tree=Located({}, tree.place))
    return Reading(kind=FileKind.FLEET, fleet=assembly.fleet(bare), problems=report.in_file_order())


def _located(value: object, place: Place, depth: int) -> Located:
    if depth > _DEEPEST:
        raise UsageError(f"{place.path} is nested deeper than {_DEEPEST} levels.", hint="Does it hold itself?")
    if isinstance(value, Located):
        return value
    if isinstance(value, Mapping):
        named = {str(name): _located(item, _below(place, str(name)), depth + 1) for name, item in value.items()}
        return Located(named, place, key=place)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = [_located(item, _below(place, str(number)), depth + 1) for number, item in enumerate(value)]
        return Located(list(items), place, key=place)
    scalar = _scalar(value, place)
    return Located(scalar, place, key=place, written=_written(scalar))


def _below(place: Place, name: str) -> Place:
    path = f"{place.path}.{name}" if place.path else name
    return replace(place, path=path, pointer=f"{place.pointer}/{name}")


def _scalar(value: object, place: Place) -> Scalar:
    """As it would be written in a file."""
    match value:
        case Enum():
            return str(value.value)
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return format_duration(value)
        case datetime():
            return value.isoformat() if value.tzinfo is None else format_moment(value)
        case ZoneInfo():
            return value.key
        case Path():
            return str(value)
        case _:
            kind = type(value).__name__
            raise UsageError(f"{place.path} is a {kind}.", hint="Write a text, a number, a list or a mapping.")


def _written(scalar: Scalar) -> str:
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return "" if scalar is None else str(scalar)
