"""Python values -> the same tree that a file gives, judged by the same tables: one wording for one mistake."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.assemble import FleetBuilder
from herdbeat.config.collect import TargetCollector
from herdbeat.config.drafts import DefaultZone, FleetFile
from herdbeat.config.files import FileReader
from herdbeat.config.keys.homes import KEY_LOCATIONS
from herdbeat.config.kinds import FileKind
from herdbeat.config.reading import LoadResult
from herdbeat.config.report import Diagnostics
from herdbeat.durations import format_duration
from herdbeat.errors import SourceLocation, UsageError
from herdbeat.located import ConfigNode, Scalar
from herdbeat.moments import format_timestamp

_MAX_DEPTH = 50


def build_node(value: object, location: SourceLocation) -> ConfigNode:
    """Any plain Python data as a tree; what stands inside is known by its path. Raises UsageError for other objects."""
    return _build_node(value, location, 1)


def load_fleet_tree(tree: ConfigNode, *, zone: ZoneInfo, home: Path, is_foreign: bool = False) -> LoadResult:
    """A fleet of such a tree: `agents`, `endpoints`, `commands`, `callables`. Relative paths count from `home`.

    `is_foreign` data was written for herdctl and is judged as its files are.
    """
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS, lenient=True)
    if is_foreign:
        diagnostics.foreign_files.add(tree.location.file)
    collector = TargetCollector(
        files=FileReader(base=home, environ={}, diagnostics=diagnostics), diagnostics=diagnostics
    )
    file = FleetFile(path=home / "herdbeat.yaml", tree=tree, zone=DefaultZone(zone=zone, origin="the program"))
    target_sources = list(collector.target_sources(file))
    builder = FleetBuilder(diagnostics, frozenset(target_source.name for target_source in target_sources))
    for target_source in target_sources:
        builder.add(target_source)
    bare = replace(file, tree=ConfigNode({}, tree.location))
    return LoadResult(kind=FileKind.FLEET, fleet=builder.fleet(bare), problems=diagnostics.sorted_problems())


def _build_node(value: object, location: SourceLocation, depth: int) -> ConfigNode:
    if depth > _MAX_DEPTH:
        raise UsageError(f"{location.path} is nested deeper than {_MAX_DEPTH} levels.", hint="Does it hold itself?")
    if isinstance(value, ConfigNode):
        return value
    if isinstance(value, Mapping):
        named = {
            str(name): _build_node(item, _child_location(location, str(name)), depth + 1)
            for name, item in value.items()
        }
        return ConfigNode(named, location, key=location)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = [
            _build_node(item, _child_location(location, str(number)), depth + 1) for number, item in enumerate(value)
        ]
        return ConfigNode(list(items), location, key=location)
    scalar = _to_scalar(value, location)
    return ConfigNode(scalar, location, key=location, raw=_format_scalar(scalar))


def _child_location(location: SourceLocation, name: str) -> SourceLocation:
    path = f"{location.path}.{name}" if location.path else name
    return replace(location, path=path, pointer=f"{location.pointer}/{name}")


def _to_scalar(value: object, location: SourceLocation) -> Scalar:
    """As it would be written in a file."""
    match value:
        case Enum():
            return str(value.value)
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return format_duration(value)
        case datetime():
            return value.isoformat() if value.tzinfo is None else format_timestamp(value)
        case ZoneInfo():
            return value.key
        case Path():
            return str(value)
        case _:
            kind = type(value).__name__
            raise UsageError(f"{location.path} is a {kind}.", hint="Write a text, a number, a list or a mapping.")


def _format_scalar(scalar: Scalar) -> str:
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return "" if scalar is None else str(scalar)
