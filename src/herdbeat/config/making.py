"""A target or a schedule that somebody asks for without a file, read as if it stood in one: same keys, same checks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.drafts import FleetZone
from herdbeat.config.keys.homes import HOMES
from herdbeat.config.report import Report
from herdbeat.config.roots import Roots
from herdbeat.config.yaml_tree import read_tree
from herdbeat.domain.origin import Way
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target, TargetKind
from herdbeat.errors import Severity, UsageError

_HERE = "(asked)"
_STAND_INS: Mapping[TargetKind, Mapping[str, object]] = {
    TargetKind.AGENT: {},
    TargetKind.ENDPOINT: {"url": "https://stand.in/"},
    TargetKind.COMMAND: {"command": ["true"]},
    TargetKind.CALLABLE: {"call": "stand:in"},
}
"""For a schedule of a target that is there already: what that is does not matter then, only its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """In the keys of a file. Without `keys` the target exists; without `schedule` only the target is wanted."""

    kind: TargetKind
    target: str
    keys: Mapping[str, object] | None
    name: str
    schedule: Mapping[str, object] | None = None
    way: Way = field(default=Way.CLI)


def read_asked(
    asked: Asked, path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path
) -> tuple[Target, Schedule | None]:
    """The values. `path` is the fleet whose defaults count. Raises UsageError for the first thing that is wrong."""
    report = Report(homes=HOMES)
    system = FleetZone(zone=system_zone, origin="system zone")
    roots = Roots.make(base=base, environ=environ, system=system, report=report)
    node = read_tree(json.dumps(_document(asked)), _HERE, report)
    assert node is not None, "what was dumped can be read"
    assembly = roots.one_more(path.absolute(), asked.kind, node)
    for problem in report.in_file_order():
        if problem.severity is Severity.ERROR and problem.where is not None and problem.where.file == _HERE:
            raise UsageError(problem.message, hint=problem.hint)
    target = replace(assembly.targets[0], name=asked.target, origin=asked.way)
    schedules = [replace(each, target=asked.target, origin=asked.way) for each in assembly.schedules]
    return target, schedules[0] if schedules else None


def _document(asked: Asked) -> dict[str, object]:
    """An existing target may have a name that no new one may have, such as that of a sub-fleet's."""
    is_new = asked.keys is not None
    found: dict[str, object] = {"name": asked.target if is_new else "stand-in"}
    found |= _STAND_INS[asked.kind] if asked.keys is None else asked.keys
    if asked.schedule is not None:
        found["schedules"] = {asked.name: asked.schedule}
    return found
