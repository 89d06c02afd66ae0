"""A target or a schedule that somebody asks for without a file, read as if it stood in one: same keys, same checks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.drafts import DefaultZone
from herdbeat.config.keys.homes import KEY_LOCATIONS
from herdbeat.config.report import Diagnostics
from herdbeat.config.roots import ConfigLoader
from herdbeat.config.yaml_tree import parse_yaml
from herdbeat.domain.origin import CreatedVia
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target, TargetKind
from herdbeat.errors import Severity, UsageError

_INLINE_FILE = "(asked)"
_PLACEHOLDER_TARGETS: Mapping[TargetKind, Mapping[str, object]] = {
    TargetKind.AGENT: {},
    TargetKind.ENDPOINT: {"url": "https://stand.in/"},
    TargetKind.COMMAND: {"command": ["true"]},
    TargetKind.CALLABLE: {"call": "stand:in"},
}
"""For a schedule of a target that is there already: what that is does not matter then, only its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineSpec:
    """In the keys of a file. Without `keys` the target exists; without `schedule` only the target is wanted."""

    kind: TargetKind
    target: str
    keys: Mapping[str, object] | None
    name: str
    schedule: Mapping[str, object] | None = None
    created_via: CreatedVia = field(default=CreatedVia.CLI)


def load_inline(
    spec: InlineSpec, path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path
) -> tuple[Target, Schedule | None]:
    """The values. `path` is the fleet whose defaults count. Raises UsageError for the first thing that is wrong."""
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS)
    default_zone = DefaultZone(zone=system_zone, origin="system zone")
    loader = ConfigLoader.create(base=base, environ=environ, default_zone=default_zone, diagnostics=diagnostics)
    node = parse_yaml(json.dumps(_to_document(spec)), _INLINE_FILE, diagnostics)
    assert node is not None, "what was dumped can be read"
    builder = loader.load_target(path.absolute(), spec.kind, node)
    for problem in diagnostics.sorted_problems():
        if problem.severity is Severity.ERROR and problem.where is not None and problem.where.file == _INLINE_FILE:
            raise UsageError(problem.message, hint=problem.hint)
    target = replace(builder.targets[0], name=spec.target, origin=spec.created_via)
    schedules = [replace(each, target=spec.target, origin=spec.created_via) for each in builder.schedules]
    return target, schedules[0] if schedules else None


def _to_document(spec: InlineSpec) -> dict[str, object]:
    """An existing target may have a name that no new one may have, such as that of a sub-fleet's."""
    is_new = spec.keys is not None
    found: dict[str, object] = {"name": spec.target if is_new else "stand-in"}
    found |= _PLACEHOLDER_TARGETS[spec.kind] if spec.keys is None else spec.keys
    if spec.schedule is not None:
        found["schedules"] = {spec.name: spec.schedule}
    return found
