"""Schedules and endpoints that arrive from outside, in the keys of a file, with the fleet's defaults, never expanded.

Also the patch that changes the timing of a schedule in its file.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.inline import load_inline_spec
from herdbeat.config.inline import InlineSpec, load_inline_alone
from herdbeat.config.schema.policies import POLICIES
from herdbeat.config.timing_patch import NoPatch, TimingChange, build_timing_patch
from herdbeat.domain.codec import to_json
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import CreatedVia, EndpointSpec, Target, TargetKind
from herdbeat.domain.trigger import Trigger
from herdbeat.error_codes import Code
from herdbeat.errors import Conflict, HerdbeatError, UsageError, truncate_for_message
from herdbeat.redaction import redact
from herdbeat.service.commands.base import NewSchedule, NewTarget
from herdbeat.service.commands.fleet import build_new_schedule, build_new_target

TRIGGER_KEYS = frozenset({"type", "interval", "every", "anchor", "cron", "expression", "at", "run_at"})
POLICY_KEYS = frozenset(
    {
        *("timezone", "catchup", "catchup_max", "grace", "max_late", "overlap", "jitter", "min_interval"),
        *("max_interval", "backoff", "retry", "timeout", "late_after", "pause_after_failures", "max_runs"),
        *("starts_at", "ends_at", "expires", "active_hours", "priority", "tags", "group", "first_run", "on_interrupt"),
    }
)
SCHEDULE_KEYS = TRIGGER_KEYS | POLICY_KEYS | {"prompt", "enabled"}
ENDPOINT_KEYS = frozenset({"name", "description", "url", "method", "headers", "body"})
"""Which keys may arrive from outside. All others are defined in files only.

A key that names a program (`precheck`), a secret (`*_env`, `*_file`) or a variable (`${NAME}`) would let a token read
or run what its owner cannot. So such keys are refused by their name, and values are never expanded.
"""

MAX_DEPTH = 20


def build_remote_schedule(
    target: Target | TargetKind, label: tuple[str, str], document: Mapping[str, object], source: "ConfigSource"
) -> NewSchedule:
    """Return a schedule that arrives from outside, with the defaults of the fleet. Raises RefusedKey, UsageError."""
    check_remote_schedule(document)
    kind = target.kind if isinstance(target, Target) else target
    name, schedule_name = label
    spec = InlineSpec(
        kind=kind, target=name, keys=None, name=schedule_name, schedule=document, created_via=CreatedVia.API
    )
    _, schedule = _load(spec, source)
    if schedule is None:
        raise UsageError("The schedule has no trigger.", hint="Add every, cron or at.")
    return build_new_schedule(schedule)


def build_remote_endpoint(
    name: str, document: Mapping[str, object], source: "ConfigSource"
) -> tuple[NewTarget, NewSchedule | None]:
    """Return an endpoint that arrives from outside, and its schedule if it has a trigger."""
    check_remote_endpoint(document)
    keys = {key: value for key, value in document.items() if key not in SCHEDULE_KEYS}
    schedule = {key: value for key, value in document.items() if key in SCHEDULE_KEYS}
    spec = InlineSpec(
        kind=TargetKind.ENDPOINT,
        target=name,
        keys=keys,
        name=DEFAULT_SCHEDULE_NAME,
        schedule=schedule or None,
        created_via=CreatedVia.API,
    )
    target, loaded = _load(spec, source)
    return build_new_target(target), None if loaded is None else build_new_schedule(loaded)


def edit_remote_endpoint(stored: Target, document: Mapping[str, object], source: "ConfigSource") -> NewTarget:
    """Return a stored endpoint with the given keys changed; all others stay. Raises RefusedKey, Conflict."""
    if not isinstance(stored.spec, EndpointSpec):
        hint = "Through the server only endpoints can be changed."
        raise Conflict(f'"{stored.name}" is no endpoint, but of the kind {stored.kind}.', hint=hint)
    check_remote_endpoint(document, has_schedule=False)
    given = {key: value for key, value in document.items() if key != "name"}
    # An endpoint of a file has a trigger. This one has schedules already, so any will do to have its keys read.
    complete = {"url": stored.spec.url, **given, "name": stored.name, "type": "manual"}
    read, _ = build_remote_endpoint(stored.name, complete, source)
    spec = {**to_json(stored.spec), **{key: read.spec[key] for key in given if key in read.spec}}
    return NewTarget(kind=read.kind, spec=spec, max_concurrent=stored.max_concurrent)


def edit_remote_schedule(
    stored: NewSchedule,
    kind: TargetKind,
    label: tuple[str, str],
    document: Mapping[str, object],
    source: "ConfigSource",
) -> NewSchedule:
    """Return a stored schedule with the given keys changed; all others stay. Raises RefusedKey, UsageError."""
    check_remote_schedule(document)
    complete: dict[str, object] = {"timezone": stored.plan.policies.zone.key, **document}
    if not TRIGGER_KEYS & document.keys():
        complete |= _build_trigger_document(stored.plan.trigger)
    read = build_remote_schedule(kind, label, complete, source)
    changed_fields = {path.partition(".")[0] for key, path in _POLICY_FIELDS.items() if key in document}
    changes = {name: getattr(read.plan.policies, name) for name in changed_fields}
    trigger = read.plan.trigger if {*TRIGGER_KEYS, "timezone"} & document.keys() else stored.plan.trigger
    return NewSchedule(
        plan=replace(stored.plan, trigger=trigger, policies=replace(stored.plan.policies, **changes)),
        brief=replace(stored.brief, prompt=read.brief.prompt) if "prompt" in document else stored.brief,
        enabled=read.enabled if "enabled" in document else stored.enabled,
    )


_POLICY_FIELDS = {name: key.domain_path for key in POLICIES for name in (key.name, *key.aliases)}


def _build_trigger_document(trigger: Trigger) -> dict[str, object]:
    options = trigger.options()
    for name, key in (("every", "every"), ("expression", "cron"), ("run_at", "at")):
        if name in options:
            return {key: options[name]}
    return {"type": trigger.kind.value}


def _load(spec: InlineSpec, source: "ConfigSource") -> tuple[Target, Schedule | None]:
    if not source.path:
        return load_inline_alone(spec, zone=source.zone, home=source.folder)
    # Without the environment: what arrives from outside is not expanded.
    return load_inline_spec(spec, source.path, source.environ, source.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSource:
    """Where the defaults of a fleet are: its files, or "" if it has none."""

    path: str
    folder: Path
    zone: ZoneInfo
    environ: Mapping[str, str]


MAX_FILE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """A unified diff, and the folder in which `git apply` or `patch -p1` takes it."""

    text: str
    folder: str


def read_timing_patch(origin: str, kind: str, value: str, source: ConfigSource) -> FilePatch:
    """Return the patch for the schedule that is defined at `file:line:column`. Raises NoPatch.

    A patch that would show a secret is not made: it would have to be hidden, and then it would not apply.
    """
    file, line, column = _split_origin(origin)
    path = (source.folder / file).absolute()
    change = TimingChange(line=line, column=column, kind=kind, value=value)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise NoPatch(f"{file} is too large for a patch.", hint=f"Write at line {line}: {change.describe()}")
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = f"Write at line {line}: {change.describe()}"
        raise NoPatch(f"{file} cannot be read on this machine.", hint=hint) from error
    home = Path(source.path).parent if source.path and not Path(source.path).is_dir() else Path(source.path or ".")
    folder = home if path.is_relative_to(home) else path.parent
    patch = build_timing_patch(text, path.relative_to(folder).as_posix(), change)
    if redact(patch) != patch:
        message = f"The lines around {file}:{line} have a secret, so no patch is shown."
        raise NoPatch(message, hint=f"Write there: {change.describe()}")
    return FilePatch(text=patch, folder=os.fspath(folder))


def _split_origin(origin: str) -> tuple[str, int, int]:
    file, _, column = origin.rpartition(":")
    file, _, line = file.rpartition(":")
    if not (file and line.isdecimal() and column.isdecimal()):
        raise NoPatch("The schedule has no place in a file.", hint="Change it with: herdbeat update")
    return file, int(line), int(column)


# --- keys


class RefusedKey(HerdbeatError):
    """A key or a value that only files may have."""

    code = Code.INVALID_VALUE
    exit_status = 2
    http_status = 422


def check_remote_schedule(document: Mapping[str, object]) -> None:
    """Raises RefusedKey."""
    _check_keys(document, SCHEDULE_KEYS)


def check_remote_endpoint(document: Mapping[str, object], *, has_schedule: bool = True) -> None:
    """Raises RefusedKey, also for the keys of a schedule where only those of the endpoint are accepted."""
    _check_keys(document, ENDPOINT_KEYS | SCHEDULE_KEYS if has_schedule else ENDPOINT_KEYS)


def _check_keys(document: Mapping[str, object], allowed: Iterable[str]) -> None:
    refused = next((key for key in document if key not in allowed), None)
    if refused is not None:
        raise RefusedKey(
            f'The key "{truncate_for_message(refused)}" cannot be set through the server.',
            hint="Set it in the fleet file. The server takes the trigger, timing policies, tags, enabled and prompt.",
        )
    for key, value in document.items():
        _check_value(key, value, depth=0)


def _check_value(key: str, value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RefusedKey(f'"{truncate_for_message(key)}" is nested too deeply.', hint="Write fewer levels.")
    if key.endswith(("_env", "_file")) or (isinstance(value, str) and "${" in value and key != "prompt"):
        raise RefusedKey(
            f'"{truncate_for_message(key)}" refers to a variable or a file of the machine.',
            hint="Write the value itself, or set the key in the fleet file.",
        )
    if isinstance(value, Mapping):
        for name, item in value.items():
            _check_value(str(name), item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_value(key, item, depth + 1)
