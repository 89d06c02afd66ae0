"""Opening fleet files: the first one, and the sub-fleets it leads to."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, assert_never
from zoneinfo import ZoneInfo

from herdbeat.config.build_fleet import FleetBuilder, has_fleet_budget
from herdbeat.config.compat.agentd import AgentdReader, AgentdWorkflow
from herdbeat.config.compat.herdctl import normalize_deprecated_keys, normalize_keys
from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.files import FileReader, merge_dotenv
from herdbeat.config.locate import (
    HERDCTL_FILE_NAMES,
    FileKind,
    detect_kind_by_keys,
    detect_kind_by_name,
    display_path,
    find_config_in_folder,
    find_fleet_file,
    is_agentd_folder,
    is_folder,
    real_path,
    resolve_relative_path,
)
from herdbeat.config.nodes import ConfigNode, drop_keys, merge_nodes
from herdbeat.config.provenance import ResolvedValue
from herdbeat.config.schema.fleet import FLEET, FLEET_SETTINGS, IMPORT, IMPORT_FOLDER, IMPORT_ZONE, SUB_FLEET, TIMEZONE
from herdbeat.config.schema.formats import NAME
from herdbeat.config.schema.key_index import KEY_LOCATIONS
from herdbeat.config.schema.messages import find_closest_match, wrong_type_error
from herdbeat.config.sources import (
    DefaultZone,
    FleetFile,
    ImportedSchedule,
    TargetCollector,
    TargetSource,
    check_docker_safety,
)
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, HerdbeatError, Problem, Severity, SourceLocation, did_you_mean_suffix

# agentd's folders as parts of a fleet: their agents beside its own, their workflows on either.


AGENTD_DEFAULT_ZONE = DefaultZone(zone=ZoneInfo("UTC"), origin="agentd default")


@dataclass(slots=True)
class AgentdImporter:
    """Adds what the `imports:` of a fleet file name to the drafts collected so far."""

    agentd: AgentdReader
    collector: TargetCollector
    diagnostics: Diagnostics

    def import_all(self, fleet: FleetFile, target_sources: list[TargetSource]) -> None:
        for entry in self.collector.iter_entries(fleet.tree, "imports"):
            errors_before = self.diagnostics.error_count
            IMPORT.validate(entry, self.diagnostics)
            written = IMPORT_FOLDER.get(entry) if self.diagnostics.error_count == errors_before else None
            if written is None:
                continue
            folder = resolve_relative_path(fleet.path, written)
            if not is_folder(folder):
                message = f'There is no folder "{written}".'
                self.diagnostics.error(
                    Code.FILE_NOT_FOUND, message, entry.find(("agentd",)).location, "Correct the path."
                )
                continue
            zone = IMPORT_ZONE.get(entry)
            origin = entry.find(("timezone",)).location
            self.add(
                folder, fleet, DefaultZone(zone=zone, origin=origin) if zone else AGENTD_DEFAULT_ZONE, target_sources
            )

    def add(self, folder: Path, fleet: FleetFile, zone: DefaultZone, target_sources: list[TargetSource]) -> None:
        """The agents of a folder, then its workflows, which may also be for agents of the fleet."""
        for file, node in self.agentd.agents(folder):
            target_source = self.collector.build_target_source(fleet, TargetKind.AGENT, node, home=file.parent)
            if self.collector.register_name(target_source, node):
                target_sources.append(target_source)
        self.attach(self.agentd.workflows(folder), zone, target_sources, fleet.prefix)

    def attach(
        self,
        workflows: Iterable[AgentdWorkflow],
        zone: DefaultZone,
        target_sources: list[TargetSource],
        prefix: str = "",
    ) -> None:
        """Put each workflow onto the agent it names."""
        positions = {target_source.name: index for index, target_source in enumerate(target_sources)}
        for workflow in workflows:
            name = f"{prefix}{workflow.agent.value}"
            if name not in positions:
                self._report_unknown_agent(workflow.agent, positions)
                continue
            index = positions[name]
            target_sources[index] = self._attach_workflow(target_sources[index], workflow, zone)

    def _attach_workflow(
        self, target_source: TargetSource, workflow: AgentdWorkflow, zone: DefaultZone
    ) -> TargetSource:
        name = str(workflow.name.value)
        used_names = {
            DEFAULT_SCHEDULE_NAME,
            *target_source.imported,
            *(each for each, _ in _own_schedules(target_source).items()),
        }
        if name in used_names:
            message = f'"{target_source.name}" already has a schedule "{name}".'
            self.diagnostics.error(Code.DUPLICATE_NAME, message, workflow.name.location, "Rename one of the two.")
            return target_source
        imported = ImportedSchedule(node=workflow.schedule, zone=zone, is_invalid=workflow.is_invalid)
        return replace(target_source, imported={**target_source.imported, name: imported})

    def _report_unknown_agent(self, agent: ConfigNode, known: Iterable[str]) -> None:
        guess = find_closest_match(str(agent.value), known)
        message = f'There is no agent "{agent.value}"{did_you_mean_suffix(guess)}'
        self.diagnostics.error(Code.UNKNOWN_TARGET, message, agent.location, "Correct the name, or add the agent.")


def _own_schedules(target_source: TargetSource) -> ConfigNode:
    return target_source.node.child("schedules") or ConfigNode({}, target_source.node.location)


_MAX_FLEET_DEPTH = 20
_MAX_SUB_FLEETS = 1_000
"""Twenty levels that name the next one twice each would be a million fleets."""
_ROOT_ONLY_SETTINGS = {key.name for key in FLEET_SETTINGS} - {
    "version",
    "fleet",
    "timezone",
    "defaults",
    "rules",
    "notify",
    "web",
    "webhooks",
}


@dataclass(slots=True)
class FleetFileLoader:
    """Opens one fleet file and everything below it."""

    files: FileReader
    diagnostics: Diagnostics
    collector: TargetCollector
    importer: AgentdImporter
    sub_fleet_count: int = 0

    def open(self, path: Path, default_zone: DefaultZone) -> FleetFile | None:
        """The first file; None if it cannot be read at all."""
        tree = self.files.tree(path, is_foreign=path.name in HERDCTL_FILE_NAMES)
        if tree is None or not self._require_mapping(tree):
            return None
        return self._validate(FleetFile(path=path, tree=tree, zone=default_zone, include_chain=(real_path(path),)))

    def target_sources(self, fleet: FleetFile) -> Iterator[TargetSource]:
        """Its own targets and those of its imports, then those of each sub-fleet, depth first."""
        own = list(self.collector.target_sources(fleet))
        self.importer.import_all(fleet, own)
        yield from own
        names: dict[str, SourceLocation] = {}
        for entry in self.collector.iter_entries(fleet.tree, "fleets"):
            sub_fleet = self._load_sub_fleet(fleet, entry, names)
            if sub_fleet is not None:
                yield from self.target_sources(sub_fleet)

    def _require_mapping(self, tree: ConfigNode) -> bool:
        if isinstance(tree.value, dict):
            return True
        self.diagnostics.add(wrong_type_error(tree, "a mapping of keys"), tree)
        return False

    def _validate(self, fleet: FleetFile, parent: FleetFile | None = None) -> FleetFile:
        """The file with settled names and what it hands down. Targets are looked at one by one, later."""
        errors_before = self.diagnostics.error_count
        tree = self._normalize(fleet.tree)
        FLEET.validate(drop_keys(tree, *(kind.section for kind in TargetKind), "fleets"), self.diagnostics)
        self._check_version(tree)
        if parent is not None:
            self._warn_unused_settings(tree)
        is_invalid = self.diagnostics.error_count > errors_before or self.files.is_broken(fleet.path)
        return replace(
            fleet,
            tree=tree,
            zone=fleet.zone if is_invalid else _resolve_default_zone(tree, fleet.zone),
            defaults=_inherit_block("defaults", tree, parent.defaults if parent else None),
            rules=_inherit_block("rules", tree, parent.rules if parent else None),
            notify=_inherit_block("notify", tree, parent.notify if parent else None),
            is_invalid=is_invalid,
        )

    def _normalize(self, tree: ConfigNode) -> ConfigNode:
        """The file with settled names, those of its defaults included."""
        tree = normalize_deprecated_keys(tree, self.diagnostics)
        defaults = tree.child("defaults")
        if defaults is None or not isinstance(tree.value, dict):
            return tree
        return replace(tree, value=tree.value | {"defaults": normalize_keys(defaults, self.diagnostics)})

    def _check_version(self, tree: ConfigNode) -> None:
        version = tree.find(("version",))
        if isinstance(version.value, int) and version.value > 1 and not self.diagnostics.is_foreign(version.location):
            message = f"This file is written for version {version.value} of the format; version 1 is known."
            self.diagnostics.error(
                Code.INVALID_VALUE, message, version.location, "Use a newer herdbeat, or version: 1."
            )

    def _warn_unused_settings(self, tree: ConfigNode) -> None:
        """A sub-fleet has no server, store or clock of its own. herdctl switches its `web` off without a word."""
        for name, child in tree.items():
            if name in _ROOT_ONLY_SETTINGS:
                message = f'"{name}" has no effect in a sub-fleet: the first file decides.'
                self.diagnostics.warning(Code.NOT_SERVED, message, child.report_location, "Remove it if it misleads.")

    def _load_sub_fleet(
        self, fleet: FleetFile, entry: ConfigNode, names: dict[str, SourceLocation]
    ) -> FleetFile | None:
        errors_before = self.diagnostics.error_count
        SUB_FLEET.validate(entry, self.diagnostics)
        if self.diagnostics.error_count > errors_before:
            return None
        path = entry.find(("path",))
        referenced_path = resolve_relative_path(fleet.path, str(path.value))
        file = find_fleet_file(referenced_path) or referenced_path
        if self._is_cycle(fleet, file, path.location) or self._exceeds_fleet_limit(path.location):
            return None
        tree = self.files.tree(file, path.location, is_foreign=file.name in HERDCTL_FILE_NAMES)
        if tree is None or not self._require_mapping(tree):
            return None
        tree = merge_nodes(tree, entry.child("overrides"))
        name = self._resolve_name(entry, tree, file, names)
        if name is None:
            return None
        chain = (*fleet.include_chain, real_path(file))
        prefix = f"{fleet.prefix}{name}."
        sub_fleet = FleetFile(
            path=file, tree=tree, zone=fleet.zone, prefix=prefix, include_chain=chain, root_folder=fleet.home
        )
        return self._validate(sub_fleet, fleet)

    def _is_cycle(self, fleet: FleetFile, file: Path, location: SourceLocation) -> bool:
        """Only a file that is still open is a cycle; the same one twice side by side is not."""
        if real_path(file) not in fleet.include_chain and len(fleet.include_chain) < _MAX_FLEET_DEPTH:
            return False
        chain = " → ".join(self.files.display_name(each) for each in (*fleet.include_chain, real_path(file)))
        message = f"The fleet includes itself: {chain}."
        self.diagnostics.error(Code.FLEET_CYCLE, message, location, "Remove one of these references.")
        return True

    def _exceeds_fleet_limit(self, location: SourceLocation) -> bool:
        self.sub_fleet_count += 1
        if self.sub_fleet_count == _MAX_SUB_FLEETS + 1:
            message = f"There are more than {_MAX_SUB_FLEETS:,} sub-fleets."
            self.diagnostics.error(Code.YAML_LIMIT, message, location, "Name each fleet file once.")
        return self.sub_fleet_count > _MAX_SUB_FLEETS

    def _resolve_name(
        self, entry: ConfigNode, tree: ConfigNode, file: Path, names: dict[str, SourceLocation]
    ) -> str | None:
        """What goes before the names of its targets: as referenced, as it says, or as its folder is called."""
        own = tree.find(("fleet", "name"))
        written = entry.child("name") or (own if isinstance(own.value, str) else None)
        node = written or ConfigNode(file.parent.name, entry.find(("path",)).location, raw=file.parent.name)
        try:
            name = NAME.read(node)
        except HerdbeatError as error:
            self.diagnostics.add(error, node)
            return None
        if name in names:
            message = f'There is already a sub-fleet "{name}", at {names[name]}.'
            self.diagnostics.error(Code.DUPLICATE_NAME, message, entry.location, "Give one of them another name.")
            return None
        names[name] = node.location
        return name


def _resolve_default_zone(tree: ConfigNode, parent: DefaultZone) -> DefaultZone:
    zone = TIMEZONE.get(tree)
    return DefaultZone(zone=zone, origin=tree.find(("timezone",)).location) if zone else parent


def _inherit_block(name: str, tree: ConfigNode, parent: ConfigNode | None) -> ConfigNode | None:
    """A block of the fleet laid over that of the fleet above: the nearest wins."""
    own = tree.child(name)
    return merge_nodes(parent, own) if own is not None and isinstance(own.value, dict) else parent


# The six things a path may lead to, and how each becomes a fleet.


@dataclass(slots=True)
class ConfigLoader:
    """Reads the first path; the readers it holds follow the references."""

    files: FileReader
    diagnostics: Diagnostics
    default_zone: DefaultZone
    fleet_loader: FleetFileLoader
    importer: AgentdImporter

    @classmethod
    def create(
        cls, *, base: Path, environ: Mapping[str, str], default_zone: DefaultZone, diagnostics: Diagnostics
    ) -> Self:
        files = FileReader(base=base, environ=environ, diagnostics=diagnostics)
        collector = TargetCollector(files=files, diagnostics=diagnostics)
        agentd = AgentdReader(files=files, diagnostics=diagnostics)
        importer = AgentdImporter(agentd=agentd, collector=collector, diagnostics=diagnostics)
        fleet_loader = FleetFileLoader(files=files, diagnostics=diagnostics, collector=collector, importer=importer)
        return cls(
            files=files,
            diagnostics=diagnostics,
            default_zone=default_zone,
            fleet_loader=fleet_loader,
            importer=importer,
        )

    def read(self, path: Path) -> tuple[FileKind, Fleet | None, list[ResolvedValue]]:
        """What the path is, the fleet it makes, and the values of that."""
        kind = self._detect_kind(path)
        self.diagnostics.lenient = kind is not FileKind.FLEET
        if kind in (FileKind.HERDCTL_FLEET, FileKind.HERDCTL_AGENT):
            self.default_zone = replace(self.default_zone, origin="herdctl default (system zone)")
        target_sources: list[TargetSource] = []
        fleet = self._collect_sources(kind, path, target_sources)
        names = frozenset(target_source.name for target_source in target_sources)
        builder = FleetBuilder(self.diagnostics, names, has_budget=fleet is not None and has_fleet_budget(fleet.tree))
        for target_source in target_sources:
            builder.add(target_source)
        if fleet is None or fleet.is_invalid:
            return kind, None, []
        return kind, builder.fleet(fleet), builder.values

    def load_target(self, path: Path, kind: TargetKind, node: ConfigNode) -> FleetBuilder:
        """A target as if it stood in the fleet at that path: with its defaults, and judged like any other."""
        is_fleet = self._detect_kind(path) in (FileKind.FLEET, FileKind.HERDCTL_FLEET)
        fleet_file = self.fleet_loader.open(path, self.default_zone) if is_fleet else None
        node = normalize_keys(node, self.diagnostics)
        target_source = self.importer.collector.build_target_source(
            fleet_file or self._empty_fleet(path, self.default_zone), kind, node, home=path.parent
        )
        builder = FleetBuilder(self.diagnostics, frozenset({target_source.name}))
        builder.add(target_source)
        return builder

    def _detect_kind(self, path: Path) -> FileKind:
        if is_agentd_folder(path):
            return FileKind.AGENTD_FOLDER
        by_name = detect_kind_by_name(path)
        if by_name is not None:
            return by_name
        tree = self.files.tree(path)
        return FileKind.FLEET if tree is None else detect_kind_by_keys([name for name, _ in tree.items()])

    def _collect_sources(self, kind: FileKind, path: Path, target_sources: list[TargetSource]) -> FleetFile | None:
        match kind:
            case FileKind.FLEET | FileKind.HERDCTL_FLEET:
                return self._collect_fleet(path, target_sources)
            case FileKind.AGENTD_FOLDER:
                fleet = self._empty_fleet(path, AGENTD_DEFAULT_ZONE)
                self.importer.add(path, fleet, AGENTD_DEFAULT_ZONE, target_sources)
                return fleet
            case FileKind.AGENTD_WORKFLOW:
                return self._collect_workflow(path, target_sources)
            case FileKind.AGENTD_AGENT:
                is_in_folder = is_agentd_folder(path.parent.parent)
                node = self.importer.agentd.agent(path, path.parents[2] if is_in_folder else path.parent)
                return self._single_agent_fleet(path, node, AGENTD_DEFAULT_ZONE, target_sources)
            case FileKind.HERDCTL_AGENT:
                return self._collect_herdctl_agent(path, target_sources)
            case _:
                assert_never(kind)

    def _collect_fleet(self, path: Path, target_sources: list[TargetSource]) -> FleetFile | None:
        fleet = self.fleet_loader.open(path, self.default_zone)
        if fleet is not None:
            target_sources.extend(self.fleet_loader.target_sources(fleet))
        return fleet

    def _collect_workflow(self, path: Path, target_sources: list[TargetSource]) -> FleetFile | None:
        """One workflow by itself: its agent cannot be known, so it is taken as given."""
        workflow = self.importer.agentd.workflow(path)
        if workflow is None:
            return None if self.diagnostics.error_count else self._empty_fleet(path, AGENTD_DEFAULT_ZONE)
        placeholder = ConfigNode({"name": workflow.agent}, workflow.schedule.location)
        fleet = self._single_agent_fleet(path, placeholder, AGENTD_DEFAULT_ZONE, target_sources)
        self.importer.attach([workflow], AGENTD_DEFAULT_ZONE, target_sources)
        return fleet

    def _collect_herdctl_agent(self, path: Path, target_sources: list[TargetSource]) -> FleetFile | None:
        tree = self.files.tree(path)
        if tree is None:
            return None
        self.diagnostics.foreign_files.add(self.files.display_name(path))
        node = normalize_keys(tree, self.diagnostics)
        errors_before = self.diagnostics.error_count
        check_docker_safety(node, self.diagnostics)
        is_valid = self.diagnostics.error_count == errors_before and not self.files.is_broken(path)
        fleet = self._single_agent_fleet(path, node, self.default_zone, target_sources)
        return fleet if is_valid else None

    def _single_agent_fleet(
        self, path: Path, node: ConfigNode | None, zone: DefaultZone, target_sources: list[TargetSource]
    ) -> FleetFile | None:
        """A fleet of one agent."""
        if node is None:
            return None
        fleet = self._empty_fleet(path, zone)
        target_sources.append(
            self.importer.collector.build_target_source(fleet, TargetKind.AGENT, node, home=path.parent)
        )
        return fleet

    def _empty_fleet(self, path: Path, zone: DefaultZone) -> FleetFile:
        """A fleet without settings of its own."""
        tree = ConfigNode({}, SourceLocation(file=self.files.display_name(path), line=1, column=1))
        return FleetFile(path=path, tree=tree, zone=zone)


# A path -> a Reading: the fleet, every problem, every value with its origin.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What the files say. `fleet` is None if a file as a whole cannot be used.

    A schedule or target with a problem of its own is left out of the fleet; the others are there.
    `sources` has the text of each file by the name that places use; `folders` are those that were listed.
    """

    kind: FileKind
    fleet: Fleet | None
    problems: tuple[Problem, ...] = ()
    values: tuple[ResolvedValue, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)


def try_load_fleet(
    path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None
) -> LoadResult:
    """Read a fleet and everything it refers to. Never raises for what a file says.

    `system_zone` is the zone where no file names one; messages name files relative to `base`.
    """
    path = path.absolute()
    if is_folder(path):
        path = find_config_in_folder(path) or path
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS)
    base = base or Path.cwd()
    dotenv = path.parent / ".env"
    loader = ConfigLoader.create(
        base=base,
        environ=merge_dotenv(environ, dotenv, display_path(dotenv, base), diagnostics),
        default_zone=DefaultZone(zone=system_zone, origin="system zone"),
        diagnostics=diagnostics,
    )
    kind, fleet, values = loader.read(path)
    return LoadResult(
        kind=kind,
        fleet=fleet,
        problems=diagnostics.sorted_problems(),
        values=tuple(values),
        sources=diagnostics.sources,
        folders=tuple(sorted(diagnostics.folders)),
    )


def load_fleet(path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None) -> Fleet:
    """The same, but an error in any file is raised as ConfigError with all of them."""
    result = try_load_fleet(path, environ=environ, system_zone=system_zone, base=base)
    if result.errors or result.fleet is None:
        raise ConfigError(result.errors)
    return result.fleet
