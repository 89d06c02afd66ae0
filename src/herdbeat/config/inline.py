"""Targets and schedules without a file, from the CLI or a Python program: the same keys, checks and messages.

`load_inline` takes one target or schedule and applies the defaults of a fleet; `load_fleet_tree` takes a whole fleet.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.build_fleet import FleetBuilder
from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.files import FileReader
from herdbeat.config.loader import ConfigLoader, LoadResult
from herdbeat.config.locate import FileKind
from herdbeat.config.nodes import ConfigNode, Scalar
from herdbeat.config.provenance import to_config_scalar
from herdbeat.config.schema.key_index import KEY_LOCATIONS
from herdbeat.config.sources import DefaultZone, FleetFile, TargetCollector
from herdbeat.config.yaml import parse_yaml
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CreatedVia, Target, TargetKind
from herdbeat.errors import InvalidSpec, Problem, Severity, SourceLocation, UsageError

_INLINE_FILE = "(inline)"
"""The name of no file, by which problems of the request itself are distinguished from those of the fleet's files."""

_PLACEHOLDER_TARGETS: Mapping[TargetKind, Mapping[str, object]] = {
    TargetKind.AGENT: {},
    TargetKind.ENDPOINT: {"url": "https://placeholder.invalid/"},
    TargetKind.COMMAND: {"command": ["true"]},
    TargetKind.CALLABLE: {"call": "placeholder:call"},
}
"""For a schedule of an existing target: then only the kind of the target matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineSpec:
    """A request in the keys of a file. Without `keys` the target exists; without `schedule` it is for that alone."""

    kind: TargetKind
    target: str
    keys: Mapping[str, object] | None
    name: str
    schedule: Mapping[str, object] | None = None
    created_via: CreatedVia = field(default=CreatedVia.CLI)


def load_inline(
    spec: InlineSpec, path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path
) -> tuple[Target, Schedule | None]:
    """Return target and schedule, with the defaults of the fleet at `path`. Raises InvalidSpec."""
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS)
    default_zone = DefaultZone(zone=system_zone, origin="system zone")
    files = FileReader(base=base, environ=environ, diagnostics=diagnostics)
    # Not as escapes: YAML does not know the pairs in which JSON writes characters beyond U+FFFF.
    node = parse_yaml(json.dumps(_to_document(spec), ensure_ascii=False), _INLINE_FILE, diagnostics)
    if node is None:
        message = "A text has characters that no configuration can have."
        raise UsageError(message, hint="Remove control characters and unpaired surrogates.")
    builder = ConfigLoader(files, default_zone).load_target(path.absolute(), spec.kind, node)
    for problem in diagnostics.sorted_problems():
        if problem.severity is Severity.ERROR and problem.where is not None and problem.where.file == _INLINE_FILE:
            raise _build_error(problem, spec)
    target = replace(builder.targets[0], name=spec.target, origin=spec.created_via)
    schedules = [replace(each, target=spec.target, origin=spec.created_via) for each in builder.schedules]
    return target, schedules[0] if schedules else None


def load_inline_alone(spec: InlineSpec, *, zone: ZoneInfo, home: Path) -> tuple[Target, Schedule | None]:
    """Return target and schedule where no file defines a fleet. Raises InvalidSpec."""
    location = SourceLocation(file=_INLINE_FILE, line=1, column=1)
    result = load_fleet_tree(build_node({f"{spec.kind}s": [_to_document(spec)]}, location), zone=zone, home=home)
    if result.errors or result.fleet is None:
        raise _build_error(result.errors[0], spec)
    target = replace(result.fleet.targets[0], name=spec.target, origin=spec.created_via)
    schedules = [replace(each, target=spec.target, origin=spec.created_via) for each in result.fleet.schedules]
    return target, schedules[0] if schedules else None


def _build_error(problem: Problem, spec: InlineSpec) -> InvalidSpec:
    """Return the error with its place in the request, without the parts of a fleet that we have put around it."""
    given = {**(spec.keys or {}), **(spec.schedule or {})}
    keys = problem.where.pointer.split("/") if problem.where is not None else []
    while keys and keys[0] not in given:
        keys = keys[1:]
    value = given[keys[0]] if len(keys) == 1 else None
    return InvalidSpec(problem, "/" + "/".join(keys) if keys else "", "" if value is None else str(value))


def _to_document(spec: InlineSpec) -> dict[str, object]:
    # The name of an existing target may be one that no new target may have: those of sub-fleets have a prefix.
    document: dict[str, object] = {"name": "placeholder" if spec.keys is None else spec.target}
    document |= _PLACEHOLDER_TARGETS[spec.kind] if spec.keys is None else spec.keys
    if spec.schedule is not None:
        document["schedules"] = {spec.name: spec.schedule}
    return document


_MAX_DEPTH = 50
_SCALAR_TYPES = (Enum, bool, int, float, str, timedelta, datetime, ZoneInfo, Path)


def build_node(value: object, location: SourceLocation) -> ConfigNode:
    """Return plain Python data as a tree, each value located by its path. Raises UsageError for other objects."""
    return _build_node(value, location, 1)


def load_fleet_tree(tree: ConfigNode, *, zone: ZoneInfo, home: Path, is_foreign: bool = False) -> LoadResult:
    """Load a fleet from a tree of `agents`, `endpoints`, `commands` and `callables`. Paths are relative to `home`.

    `is_foreign` data was written for herdctl and is validated as its files are.
    """
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS, lenient=True)
    if is_foreign:
        diagnostics.foreign_files.add(tree.location.file)
    files = FileReader(base=home, environ={}, diagnostics=diagnostics)
    file = FleetFile(path=home / "herdbeat.yaml", tree=tree, zone=DefaultZone(zone=zone, origin="the program"))
    builder = FleetBuilder(diagnostics)
    builder.add_all(list(TargetCollector(files).iter_target_sources(file)))
    fleet = builder.build(replace(file, tree=ConfigNode({}, tree.location)))
    return LoadResult(kind=FileKind.FLEET, fleet=fleet, problems=diagnostics.sorted_problems())


def _build_node(value: object, location: SourceLocation, depth: int) -> ConfigNode:
    if depth > _MAX_DEPTH:
        raise UsageError(
            f"{location.path} is nested deeper than {_MAX_DEPTH} levels.", hint="Check whether it contains itself."
        )
    if isinstance(value, ConfigNode):
        return value
    if isinstance(value, Mapping):
        named = {str(name): _build_child(item, location, str(name), depth) for name, item in value.items()}
        return ConfigNode(named, location, key=location)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = [_build_child(item, location, str(number), depth) for number, item in enumerate(value)]
        return ConfigNode(items, location, key=location)
    scalar = _to_scalar(value, location)
    return ConfigNode(scalar, location, key=location, raw=_format_scalar(scalar))


def _build_child(value: object, parent: SourceLocation, name: str, depth: int) -> ConfigNode:
    path = f"{parent.path}.{name}" if parent.path else name
    return _build_node(value, replace(parent, path=path, pointer=f"{parent.pointer}/{name}"), depth + 1)


def _to_scalar(value: object, location: SourceLocation) -> Scalar:
    """Return the value as one writes it in a file. Raises UsageError for a type that no file has."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.isoformat()
    if value is None or isinstance(value, _SCALAR_TYPES):
        return to_config_scalar(value)
    kind = type(value).__name__
    raise UsageError(f"{location.path} is a {kind}.", hint="Use a string, a number, a list or a mapping.")


def _format_scalar(scalar: Scalar) -> str:
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return "" if scalar is None else str(scalar)
