"""A fleet as one file of ours: what its files say, with everything they refer to, and what only the ledger has."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.build_fleet import SCHEDULE_ONLY_KEYS, FleetBuilder
from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.files import FileReader, merge_dotenv
from herdbeat.config.imports.document import FleetDocument, MigrationNote, NoteKind, TargetDocument
from herdbeat.config.loader import ConfigLoader
from herdbeat.config.locate import display_path, find_config_in_folder, is_folder
from herdbeat.config.nodes import PUBLIC_KEYS, ConfigNode, PlainData
from herdbeat.config.provenance import to_config_value
from herdbeat.config.schema.fleet import FLEET
from herdbeat.config.schema.key_index import KEY_LOCATIONS
from herdbeat.config.schema.policies import ADAPT, POLICIES, PRECHECK, TIMEZONE
from herdbeat.config.schema.schedule import SCHEDULE
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.targets import SPEC_KEYS, TARGET_TABLES
from herdbeat.config.sources import DefaultZone, FleetFile, ScheduleSource, TargetSource, iter_schedule_sources
from herdbeat.domain.policies import Policies
from herdbeat.domain.references import escape_references, list_variables, unescape_references
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import AgentSpec, CommandSpec, Target, TargetKind
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, Problem, Severity, SourceLocation
from herdbeat.prompts import validate_prompt
from herdbeat.redaction import MASK, is_secret_value, redact, redact_arguments

_NON_VARIABLE_CHARS_PATTERN = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(slots=True)
class ValueWriter:
    """Writes the values of one target. A secret becomes a reference to a variable, with a note.

    `variables` are those that the stored texts, which are written now, refer to.
    """

    owner: str
    where: SourceLocation | None = None
    variables: Collection[str] = ()
    notes: list[MigrationNote] = field(default_factory=list)

    def write_node(self, node: ConfigNode, name: str = "") -> PlainData:
        """Return a value of a file as it is written there: `${NAME}` stays what it is."""
        if isinstance(node.value, dict):
            return {key: self.write_node(child, f"{name}.{key}" if name else key) for key, child in node.items()}
        if isinstance(node.value, list):
            written = [self.write_node(child, f"{name}[{index}]") for index, child in enumerate(node.elements())]
            return self._hide_arguments([child.to_data() for child in node.elements()], written, name)
        if isinstance(node.value, str) and (node.variable_names or node.undefined_variable):
            # A block keeps its references in `raw`, too, but not its line breaks as they are read.
            return node.raw if "${" in node.raw else node.value
        return self.write_data(node.value, name)

    def write_data(self, value: object, name: str = "") -> PlainData:
        """Return plain data as a file has it. What looks like a reference in it is only text."""
        if isinstance(value, Mapping):
            return {
                str(key): self.write_data(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            written = [self.write_data(item, f"{name}[{index}]") for index, item in enumerate(value)]
            return self._hide_arguments(value, written, name)
        plain = to_config_value(value)
        return self._write_text(plain, name) if isinstance(plain, str) else plain

    def _write_text(self, text: str, name: str) -> str:
        key = name.rpartition(".")[2].partition("[")[0]
        if not set(self.variables).isdisjoint(list_variables(text)):
            return text
        if self.variables:
            text = unescape_references(text)
        if key in PUBLIC_KEYS or text in ("", "none"):
            return escape_references(text)
        if is_secret_value(key, text) or (redact(text) != text and not re.search(r"\s", text)):
            before, equals, _ = text.partition("=")
            is_option = bool(equals) and text.startswith("-")
            return f"{before}={self._refer_to_variable(name)}" if is_option else self._refer_to_variable(name)
        hidden = redact(text)
        if hidden != text:
            self._note_hidden(name)
        return escape_references(hidden)

    def _note_hidden(self, name: str) -> None:
        message = f"{name} of {self.owner} contains a secret, which was replaced by {MASK}."
        self._note(NoteKind.NOT_CARRIED, message, "Write ${NAME} in its place.")

    def _hide_arguments(self, items: Sequence[object], written: list[PlainData], name: str) -> list[PlainData]:
        """Return a list as it is written. What follows `--token` or `--token=` in it is a secret."""
        for index, (item, masked) in enumerate(zip(items, redact_arguments(items, name), strict=True)):
            is_hidden = isinstance(masked, str) and masked.endswith(MASK) and masked != item
            if is_hidden and "${" not in str(written[index]):
                written[index] = masked.removesuffix(MASK) + self._refer_to_variable(f"{name}[{index}]")
            elif isinstance(masked, str) and masked not in (item, redact(str(item))):
                written[index] = escape_references(masked)
                self._note_hidden(name)
        return written

    def _refer_to_variable(self, name: str) -> str:
        variable = _NON_VARIABLE_CHARS_PATTERN.sub("_", f"{self.owner}_{name}").strip("_").upper()
        variable = variable if variable[:1].isalpha() else f"V_{variable}"
        message = f"{name} of {self.owner} looks like a secret and was not written."
        hint = f"Put {variable}=… into a file .env beside the fleet file, or into the environment of herdbeat."
        self._note(NoteKind.CHANGED, message, hint)
        return f"${{{variable}}}"

    def _note(self, kind: NoteKind, message: str, hint: str) -> None:
        self.notes.append(MigrationNote(kind=kind, message=message, hint=hint, where=self.where))


def escape_unknown_names(text: str, kind: TriggerKind, *, has_work: bool) -> str:
    """Return a prompt of another tool for a file of ours, in which braces around an unknown name are an error."""
    offsets = {error.offset for error in validate_prompt(text, kind, has_work=has_work)}
    for offset in sorted(offsets, reverse=True):
        text = f"{text[:offset]}\\{text[offset:]}"
    return text


def export_policy_keys(
    policies: Policies, kinds: Collection[str], zone: str, writer: ValueWriter
) -> dict[str, PlainData]:
    """Return the policies that are no defaults of these kinds of trigger and target, by key."""
    keys: dict[str, PlainData] = {} if policies.zone.key == zone else {TIMEZONE.name: policies.zone.key}
    for key in POLICIES:
        if key in (TIMEZONE, ADAPT):
            continue
        if isinstance(key.field_type, Table):
            block = _block_keys(key.field_type, getattr(policies, key.name), kinds, writer)
            keys |= {key.name: block} if block else {}
            continue
        writer.variables = policies.variables if key is PRECHECK else ()
        value = _get_path(policies, key.domain_path)
        if value not in (None, ()) and value != key.default_value(kinds):
            keys[key.name] = writer.write_data(value, key.name)
    if policies.adapt:
        keys[ADAPT.name] = writer.write_data(policies.adapt, ADAPT.name)
    return keys


def export_trigger_keys(trigger: Trigger) -> dict[str, PlainData]:
    """Return a stored trigger as a file has it. A webhook's `auth` is not among them."""
    options = trigger.options()
    for name, key in (("every", "every"), ("expression", "cron"), ("run_at", "at")):
        if name in options:
            anchor: dict[str, PlainData] = {"anchor": str(options["anchor"])} if "anchor" in options else {}
            return {key: options[name], **anchor}
    return {"type": trigger.kind.value}


def export_target_keys(target: Target, writer: ValueWriter) -> dict[str, PlainData]:
    """Return the keys of a target that no file defines."""
    spec = target.spec
    writer.variables = spec.variables
    keys: dict[str, PlainData] = {"description": target.description} if target.description else {}
    for key in SPEC_KEYS[target.kind]:
        if key.unsupported_reason or not hasattr(spec, key.domain_path):
            continue
        value = getattr(spec, key.domain_path)
        if value not in (None, (), {}, key.default_value()):
            keys[key.name] = writer.write_data(value, key.name)
    if isinstance(spec, AgentSpec | CommandSpec):
        if spec.working_directory != ".":
            keys["working_directory"] = escape_references(spec.working_directory)
        if spec.env or spec.env_values:
            keys["env"] = list(spec.env) if spec.env else writer.write_data(spec.env_values, "env")
    if target.max_concurrent != 1:
        keys["instances"] = {"max_concurrent": target.max_concurrent}
    return keys


def _block_keys(table: Table, value: object, kinds: Collection[str], writer: ValueWriter) -> dict[str, PlainData]:
    if value is None:
        return {}
    pairs = ((key, getattr(value, key.domain_path)) for key in table.keys)
    return {
        key.name: writer.write_data(inner, key.name)
        for key, inner in pairs
        if inner is not None and inner != _default(key, kinds)
    }


def _default(key: Field[object], kinds: Collection[str]) -> object:
    return key.default_value(kinds)


def _get_path(value: object, path: str) -> object:
    for name in path.split("."):
        value = getattr(value, name)
    return value


_TARGET_SECTIONS = tuple(kind.section for kind in TargetKind)
_FLATTENED_KEYS = frozenset(
    {"version", "fleet", "timezone", "defaults", "rules", "fleets", "imports", *_TARGET_SECTIONS}
)
"""Keys of a fleet file whose content is written out with each target, or in front of all others."""

_SHARED_KEYS = frozenset({"account", "isolation", "on_denied", "session", "tool_policy", "workspace", "budget"})
"""Keys that belong to the target if they stand beside its name, although schedules have them, too."""

_SHARED_BLOCKS = ("notify", "runtimes")
_NOTE_CODES = {Code.CHANGED_MEANING: NoteKind.CHANGED, Code.NOT_SERVED: NoteKind.NOT_CARRIED}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTarget:
    """A target or schedules of the ledger that no file defines."""

    target: Target
    schedules: tuple[Schedule, ...]


def export_files(
    path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path, created: Sequence[CreatedTarget] = ()
) -> FleetDocument:
    """Return the fleet at a path as one document. Raises ConfigError if the files have errors.

    Secrets stay references. Relative paths count from the folder of the first file.
    """
    path = path.absolute()
    if is_folder(path):
        path = find_config_in_folder(path) or path
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS)
    dotenv = path.parent / ".env"
    files = FileReader(
        base=base,
        environ=merge_dotenv(environ, dotenv, display_path(dotenv, base), diagnostics),
        diagnostics=diagnostics,
    )
    loader = ConfigLoader(files, DefaultZone(zone=system_zone, origin="system zone"))
    _, (fleet, sources) = loader.collect(path)
    builder = FleetBuilder(diagnostics)
    builder.add_all(sources)
    errors = [each for each in diagnostics.sorted_problems() if each.severity is Severity.ERROR]
    if errors or fleet is None:
        raise ConfigError(errors)
    exporter = _FileExporter(fleet=fleet, builder=builder)
    targets = [exporter.export(source) for source in sources]
    name = builder.build(fleet).name
    origin = f"the files of the fleet {name}" + (" and its ledger" if created else "")
    settings = exporter.settings(name)
    settings |= _build_shared_blocks(sources, settings, exporter.writer)
    return FleetDocument(
        origin=origin,
        targets=merge_created(targets, created, fleet.zone.zone.key),
        notes=(*exporter.writer.notes, *_build_notes(diagnostics.sorted_problems())),
        settings=settings,
        verb="Exported",
        home=str(fleet.home),
    )


def export_created(name: str, zone: ZoneInfo, created: Sequence[CreatedTarget]) -> FleetDocument:
    """Return the fleet of a ledger that has no files."""
    return FleetDocument(
        origin=f"the ledger of the fleet {name}",
        targets=merge_created([], created, zone.key),
        settings={"fleet": {"name": name}, "timezone": zone.key},
        verb="Exported",
    )


@dataclass(slots=True)
class _FileExporter:
    """Writes what files say. The builder has the same targets and schedules with every value resolved."""

    fleet: FleetFile
    builder: FleetBuilder
    writer: ValueWriter = field(default_factory=lambda: ValueWriter("the fleet"))

    def settings(self, name: str) -> dict[str, PlainData]:
        """Return the keys in front of the targets."""
        tree = self.fleet.tree
        identity = tree.child("fleet")
        settings: dict[str, PlainData] = {}
        written = self.writer.write_node(identity, "fleet") if identity is not None else {}
        settings["fleet"] = {**(written if isinstance(written, dict) else {}), "name": name}
        settings["timezone"] = self.fleet.zone.zone.key
        for key, node in tree.items():
            known = FLEET.by_name.get(key)
            if key not in _FLATTENED_KEYS and known is not None and not known.unsupported_reason:
                settings[key] = self.writer.write_node(node, key)
        return settings

    def export(self, source: TargetSource) -> TargetDocument:
        target = next(each for each in self.builder.targets if each.name == source.name)
        where = source.node.report_location
        writer = ValueWriter(source.name, where)
        keys: dict[str, PlainData] = {}
        dropped = {"name", "schedules", *SCHEDULE_ONLY_KEYS[source.kind]}
        for key, node in source.node.items():
            if key not in dropped and key in TARGET_TABLES[source.kind].by_name:
                keys[key] = writer.write_node(node, key)
        keys |= self._resolve_paths(source, target)
        prompt = keys.get("default_prompt")
        if isinstance(prompt, str) and self._is_foreign(source.node.find(("default_prompt",))):
            for one in (each for each in self.builder.schedules if each.target == source.name and each.prompt is None):
                prompt = escape_unknown_names(prompt, one.trigger.kind, has_work=one.work_source is not None)
            keys["default_prompt"] = prompt
        schedules = {
            each.name: self._export_schedule(source, each, writer)
            for each in iter_schedule_sources(source, Diagnostics(key_locations=KEY_LOCATIONS))
        }
        keys |= _place_schedules(schedules)
        name = source.name.replace(".", "-")
        if name != source.name:
            message = f"{source.name} is in a sub-fleet; in one file it is called {name} and has a history of its own."
            writer.notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, where=where))
        return TargetDocument(kind=source.kind, name=name, keys=keys, where=where, notes=tuple(writer.notes))

    def _is_foreign(self, node: ConfigNode) -> bool:
        return self.builder.diagnostics.is_foreign(node.location)

    def _resolve_paths(self, source: TargetSource, target: Target) -> dict[str, PlainData]:
        """Return paths that count from another folder than that of the new file."""
        spec = target.spec
        keys: dict[str, PlainData] = {}
        if not isinstance(spec, AgentSpec | CommandSpec):
            return keys
        if spec.working_directory != "." or source.node.child("working_directory") is not None:
            keys["working_directory"] = escape_references(spec.working_directory)
        if isinstance(spec, AgentSpec) and source.home != self.fleet.home:
            keys |= {"extra_dirs": list(spec.extra_dirs)} if spec.extra_dirs else {}
            keys |= {"program": spec.program} if spec.program else {}
        return keys

    def _export_schedule(self, source: TargetSource, each: ScheduleSource, writer: ValueWriter) -> dict[str, PlainData]:
        built = next(one for one in self.builder.schedules if one.id == f"{source.name}/{each.name}")
        keys = {
            key: writer.write_node(node, key)
            for key, node in each.node.items()
            if key in SCHEDULE.by_name and node.value is not None
        }
        keys.pop("timezone", None)
        has_work = built.work_source is not None
        if isinstance(prompt := keys.get("prompt"), str) and self._is_foreign(each.node.find(("prompt",))):
            keys["prompt"] = escape_unknown_names(prompt, built.trigger.kind, has_work=has_work)
        if built.policies.zone != self.fleet.zone.zone:
            keys["timezone"] = built.policies.zone.key
        if built.policies.adapt:
            keys[ADAPT.name] = writer.write_data(built.policies.adapt, ADAPT.name)
        if built.work_source is not None and source.home != self.fleet.home:
            keys["work_source"] = writer.write_data(built.work_source, "work_source")
        return keys


def _place_schedules(schedules: dict[str, dict[str, PlainData]]) -> dict[str, PlainData]:
    """Return a single default schedule beside the name of its target, and all others under `schedules`."""
    if list(schedules) == [DEFAULT_SCHEDULE_NAME] and _SHARED_KEYS.isdisjoint(schedules[DEFAULT_SCHEDULE_NAME]):
        return schedules[DEFAULT_SCHEDULE_NAME]
    return {"schedules": dict(schedules)} if schedules else {}


def _build_shared_blocks(
    sources: Sequence[TargetSource], settings: Mapping[str, PlainData], writer: ValueWriter
) -> dict[str, PlainData]:
    """Return the channels and runtimes that sub-fleets add to those of the fleet."""
    blocks: dict[str, PlainData] = {}
    for name in _SHARED_BLOCKS:
        written = settings.get(name)
        merged: dict[str, PlainData] = dict(written) if isinstance(written, dict) else {}
        for source in sources:
            block: ConfigNode | None = getattr(source.fleet, name)
            for key, node in block.items() if block is not None else ():
                if key not in merged:
                    merged[key] = writer.write_node(node, f"{name}.{key}")
        blocks |= {name: merged} if merged else {}
    return blocks


def merge_created(
    targets: Sequence[TargetDocument], created: Sequence[CreatedTarget], zone: str
) -> tuple[TargetDocument, ...]:
    """Return the targets of the files with what the ledger adds to them, then those that only the ledger has."""
    merged = {target.name: target for target in targets}
    for each in created:
        known = merged.get(each.target.name)
        where = known.where if known is not None else None
        writer = ValueWriter(each.target.name, None)
        keys = dict(known.keys) if known is not None else export_target_keys(each.target, writer)
        schedules = {
            schedule.name: _export_created_schedule(schedule, each.target.kind, zone, writer)
            for schedule in each.schedules
        }
        notes = (*(known.notes if known is not None else ()), *writer.notes)
        merged[each.target.name] = TargetDocument(
            kind=each.target.kind,
            name=each.target.name,
            keys=_add_schedules(keys, schedules),
            where=where,
            source="" if known is not None else "created without a file",
            notes=notes,
        )
    return tuple(merged.values())


def _export_created_schedule(
    schedule: Schedule, kind: TargetKind, zone: str, writer: ValueWriter
) -> dict[str, PlainData]:
    keys: dict[str, PlainData] = {**export_trigger_keys(schedule.trigger)}
    if schedule.prompt is not None:
        writer.variables = schedule.variables
        keys["prompt"] = writer.write_data(schedule.prompt, "prompt")
    if not schedule.enabled:
        keys["enabled"] = False
    kinds = (schedule.trigger.kind, kind)
    if schedule.trigger.kind is TriggerKind.WEBHOOK:
        keys["auth"] = {"token": True} if "method" in schedule.trigger.options() else "none"
    return keys | export_policy_keys(schedule.policies, kinds, zone, writer)


def _add_schedules(keys: dict[str, PlainData], added: dict[str, dict[str, PlainData]]) -> dict[str, PlainData]:
    """Return a target with further schedules. One that stands beside the name moves under `schedules`."""
    listed = keys.pop("schedules", None)
    schedules: dict[str, dict[str, PlainData]] = {}
    if isinstance(listed, dict):
        schedules = {name: dict(each) for name, each in listed.items() if isinstance(each, dict)}
    elif any(name in keys for name in ("every", "interval", "cron", "at", "type")):
        own = {name: keys.pop(name) for name in list(keys) if name in SCHEDULE.by_name and name not in _SHARED_KEYS}
        schedules = {DEFAULT_SCHEDULE_NAME: own}
    return keys | _place_schedules(schedules | added)


def _build_notes(problems: Iterable[Problem]) -> tuple[MigrationNote, ...]:
    """Return what the loader warns of: keys that mean something else here, or nothing."""
    return tuple(
        MigrationNote(kind=_NOTE_CODES[each.code], message=each.message, hint=each.hint, where=each.where)
        for each in problems
        if each.code in _NOTE_CODES
    )
