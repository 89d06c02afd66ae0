"""Load a configuration: the file or folder at a path, and everything it refers to.

A path leads to one of six kinds of file. Each becomes a fleet file (perhaps an empty one) and a list of target sources,
which FleetBuilder makes into the Fleet.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import assert_never
from zoneinfo import ZoneInfo

from herdbeat.config.build_agent import check_runtime_definitions
from herdbeat.config.build_fleet import FleetBuilder
from herdbeat.config.compat.agentd import AgentdReader, AgentdWorkflow
from herdbeat.config.diagnostics import Diagnostics, find_closest_match
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
    resolve_links,
    resolve_relative_path,
)
from herdbeat.config.nodes import ConfigNode, drop_keys, merge_nodes
from herdbeat.config.provenance import ResolvedValue
from herdbeat.config.schema.fleet import FLEET, FLEET_SETTINGS, IMPORT, IMPORT_FOLDER, IMPORT_ZONE, SUB_FLEET, TIMEZONE
from herdbeat.config.schema.formats import NAME
from herdbeat.config.schema.key_index import KEY_LOCATIONS
from herdbeat.config.schema.table import Field
from herdbeat.config.sources import (
    DefaultZone,
    FleetFile,
    ImportedSchedule,
    TargetCollector,
    TargetSource,
    check_docker_safety,
    normalize_deprecated_keys,
    normalize_keys,
    require_mapping,
    warn_own_keys,
)
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, HerdbeatError, Problem, Severity, SourceLocation, did_you_mean_suffix

AGENTD_DEFAULT_ZONE = DefaultZone(zone=ZoneInfo("UTC"), origin="agentd default")

_MAX_FLEET_DEPTH = 20
_MAX_SUB_FLEETS = 1_000
"""Twenty levels that name the next one twice each would be a million fleets."""

_SUB_FLEET_SETTINGS = {"version", "fleet", "timezone", "defaults", "rules", "notify", "runtimes", "web", "webhooks"}
_ROOT_ONLY_SETTINGS = {key.name for key in FLEET_SETTINGS} - _SUB_FLEET_SETTINGS

CollectedFleet = tuple[FleetFile | None, list[TargetSource]]
"""A fleet file and its targets; no file after an error that makes all of it unusable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What the files say. `fleet` is None if a file as a whole cannot be used.

    A schedule or target with a problem of its own is missing from the fleet; the others are there. `sources` has the
    text of each file by the name that locations use; `folders` are those that were listed.
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


def load_fleet(path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None) -> Fleet:
    """Return the fleet. Raises ConfigError with every error of every file."""
    result = try_load_fleet(path, environ=environ, system_zone=system_zone, base=base)
    if result.errors or result.fleet is None:
        raise ConfigError(result.errors)
    return result.fleet


def try_load_fleet(
    path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None
) -> LoadResult:
    """Load a fleet and everything it refers to. Never raises for what a file says.

    `system_zone` applies where no file names a zone; messages name files relative to `base`.
    """
    path = path.absolute()
    if is_folder(path):
        path = find_config_in_folder(path) or path
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS)
    base = base or Path.cwd()
    dotenv = path.parent / ".env"
    environ = merge_dotenv(environ, dotenv, display_path(dotenv, base), diagnostics)
    files = FileReader(base=base, environ=environ, diagnostics=diagnostics)
    kind, fleet, values = ConfigLoader(files, DefaultZone(zone=system_zone, origin="system zone")).load(path)
    problems, sources = diagnostics.sorted_problems(), diagnostics.sources
    folders = tuple(sorted(diagnostics.folders))
    return LoadResult(kind=kind, fleet=fleet, problems=problems, values=tuple(values), sources=sources, folders=folders)


class ConfigLoader:
    """Follows the first path to all targets. One loader serves one load."""

    def __init__(self, files: FileReader, default_zone: DefaultZone) -> None:
        self.files, self.diagnostics, self.default_zone = files, files.diagnostics, default_zone
        self.collector, self.agentd = TargetCollector(files), AgentdReader(files)
        self.sub_fleet_count = 0

    def load(self, path: Path) -> tuple[FileKind, Fleet | None, list[ResolvedValue]]:
        """Return the kind of the path, its fleet, and the values of that with their origins."""
        kind, (fleet, sources) = self.collect(path)
        builder = FleetBuilder(self.diagnostics)
        builder.add_all(sources, has_fleet_budget=fleet is not None and fleet.has_budget)
        if fleet is None or fleet.is_invalid:
            return kind, None, []
        built = builder.build(fleet)
        builder.warn_ineffective_keys(built, fleet.tree)
        return kind, built, builder.values

    def collect(self, path: Path) -> tuple[FileKind, CollectedFleet]:
        """Return the kind of the path, and what its files say about each target before anything is built."""
        kind = self._detect_kind(path)
        self.diagnostics.lenient = kind is not FileKind.FLEET
        if kind in (FileKind.HERDCTL_FLEET, FileKind.HERDCTL_AGENT):
            self.default_zone = replace(self.default_zone, origin="herdctl default (system zone)")
        return kind, self._collect(kind, path)

    def load_target(self, path: Path, kind: TargetKind, node: ConfigNode) -> FleetBuilder:
        """Build a target as if it stood in the fleet at that path: with its defaults, and validated like any other."""
        is_fleet = self._detect_kind(path) in (FileKind.FLEET, FileKind.HERDCTL_FLEET)
        fleet = self._load_root_fleet(path) if is_fleet else None
        fleet = fleet or self._build_empty_fleet(path, self.default_zone)
        node = normalize_keys(node, self.diagnostics)
        builder = FleetBuilder(self.diagnostics)
        builder.add_all([self.collector.build_target_source(fleet, kind, node, home=path.parent)])
        return builder

    def _detect_kind(self, path: Path) -> FileKind:
        if is_agentd_folder(path):
            return FileKind.AGENTD_FOLDER
        by_name = detect_kind_by_name(path)
        if by_name is not None:
            return by_name
        tree = self.files.read_tree(path)
        return FileKind.FLEET if tree is None else detect_kind_by_keys([name for name, _ in tree.items()])

    def _collect(self, kind: FileKind, path: Path) -> CollectedFleet:
        """Return the fleet file and its targets; no fleet after an error that makes all of it unusable."""
        match kind:
            case FileKind.FLEET | FileKind.HERDCTL_FLEET:
                fleet = self._load_root_fleet(path)
                return fleet, list(self._iter_target_sources(fleet)) if fleet is not None else []
            case FileKind.AGENTD_FOLDER:
                fleet = self._build_empty_fleet(path, AGENTD_DEFAULT_ZONE)
                sources: list[TargetSource] = []
                self._import_folder(path, fleet, AGENTD_DEFAULT_ZONE, sources)
                return fleet, sources
            case FileKind.AGENTD_WORKFLOW:
                return self._collect_workflow(path)
            case FileKind.AGENTD_AGENT:
                is_in_folder = is_agentd_folder(path.parent.parent)
                node = self.agentd.read_agent(path, path.parents[2] if is_in_folder else path.parent)
                return self._build_single_agent_fleet(path, node, AGENTD_DEFAULT_ZONE)
            case FileKind.HERDCTL_AGENT:
                return self._collect_herdctl_agent(path)
            case _:
                assert_never(kind)

    def _collect_workflow(self, path: Path) -> CollectedFleet:
        """One workflow by itself. Its agent is in a file that is not known, so it is assumed to exist."""
        workflow = self.agentd.read_workflow(path)
        if workflow is None:
            return None if self.diagnostics.error_count else self._build_empty_fleet(path, AGENTD_DEFAULT_ZONE), []
        placeholder = ConfigNode({"name": workflow.agent}, workflow.schedule.location)
        fleet, sources = self._build_single_agent_fleet(path, placeholder, AGENTD_DEFAULT_ZONE)
        assert fleet is not None, "a placeholder is always an agent"
        self._attach_workflows([workflow], fleet, AGENTD_DEFAULT_ZONE, sources)
        return fleet, [replace(source, is_placeholder=True) for source in sources]

    def _collect_herdctl_agent(self, path: Path) -> CollectedFleet:
        tree = self.files.read_tree(path, is_foreign=True)
        if tree is None:
            return None, []
        node = normalize_keys(tree, self.diagnostics)
        warn_own_keys(node, self.diagnostics)
        is_valid = check_docker_safety(node, self.diagnostics) and not self.files.is_broken(path)
        fleet, sources = self._build_single_agent_fleet(path, node, self.default_zone)
        return fleet if is_valid else None, sources

    def _build_single_agent_fleet(self, path: Path, node: ConfigNode | None, zone: DefaultZone) -> CollectedFleet:
        if node is None:
            return None, []
        fleet = self._build_empty_fleet(path, zone)
        return fleet, [self.collector.build_target_source(fleet, TargetKind.AGENT, node, home=path.parent)]

    def _build_empty_fleet(self, path: Path, zone: DefaultZone) -> FleetFile:
        """Return a fleet without settings of its own."""
        tree = ConfigNode({}, SourceLocation(file=self.files.display_name(path), line=1, column=1))
        return FleetFile(path=path, tree=tree, zone=zone)

    # Fleet files and their sub-fleets.

    def _load_root_fleet(self, path: Path) -> FleetFile | None:
        """Return the first file; None if it cannot be read at all."""
        tree = self._load_fleet_tree(path)
        if tree is None:
            return None
        return self._validate(
            FleetFile(path=path, tree=tree, zone=self.default_zone, include_chain=(resolve_links(path),))
        )

    def _load_fleet_tree(self, path: Path, reference: SourceLocation | None = None) -> ConfigNode | None:
        tree = self.files.read_tree(path, reference, is_foreign=path.name in HERDCTL_FILE_NAMES)
        return tree if tree is not None and require_mapping(tree, self.diagnostics) else None

    def _iter_target_sources(self, fleet: FleetFile) -> Iterator[TargetSource]:
        """Its own targets and those of its imports, then those of each sub-fleet, depth first."""
        own = list(self.collector.iter_target_sources(fleet))
        self._import_folders(fleet, own)
        yield from own
        names: dict[str, SourceLocation] = {}
        for entry in self.collector.iter_entries(fleet.tree, "fleets"):
            sub_fleet = self._load_sub_fleet(fleet, entry, names)
            if sub_fleet is not None:
                yield from self._iter_target_sources(sub_fleet)

    def _validate(self, fleet: FleetFile, parent: FleetFile | None = None) -> FleetFile:
        """Return the file with normalized keys and what it hands down. Its targets are validated one by one, later."""
        errors_before = self.diagnostics.error_count
        tree = self._normalize(fleet.tree)
        FLEET.validate(drop_keys(tree, *(kind.section for kind in TargetKind), "fleets"), self.diagnostics)
        self._check_version(tree)
        if parent is not None:
            self._warn_unused_settings(tree)
        is_invalid = self.diagnostics.error_count > errors_before or self.files.is_broken(fleet.path)
        zone = fleet.zone if is_invalid else _get_zone(TIMEZONE, tree, fleet.zone)
        names = ("defaults", "rules", "notify", "runtimes", "executors")
        blocks = (_inherit_block(name, tree, getattr(parent, name, None)) for name in names)
        defaults, rules, notify, runtimes, executors = blocks
        if (own_runtimes := tree.child("runtimes")) is not None:
            check_runtime_definitions(own_runtimes, self.diagnostics)
        inherited = replace(
            fleet, defaults=defaults, rules=rules, notify=notify, runtimes=runtimes, executors=executors
        )
        return replace(inherited, tree=tree, zone=zone, is_invalid=is_invalid)

    def _normalize(self, tree: ConfigNode) -> ConfigNode:
        """Return the file with normalized keys, those of its defaults included."""
        tree = normalize_deprecated_keys(tree, self.diagnostics)
        defaults = tree.child("defaults")
        if defaults is None or not isinstance(tree.value, dict):
            return tree
        return replace(tree, value=tree.value | {"defaults": normalize_keys(defaults, self.diagnostics)})

    def _check_version(self, tree: ConfigNode) -> None:
        version = tree.find(("version",))
        if isinstance(version.value, int) and version.value > 1 and not self.diagnostics.is_foreign(version.location):
            message = f"This file uses version {version.value} of the format; only version 1 is supported."
            hint = "Upgrade herdbeat, or write version: 1."
            self.diagnostics.error(Code.INVALID_VALUE, message, version.location, hint)

    def _warn_unused_settings(self, tree: ConfigNode) -> None:
        """A sub-fleet has no server, store or clock of its own. herdctl switches its `web` off silently."""
        for name, child in tree.items():
            if name in _ROOT_ONLY_SETTINGS:
                message = f'"{name}" has no effect in a sub-fleet: the main fleet file sets it.'
                self.diagnostics.warning(Code.NOT_SERVED, message, child.report_location, "Remove it.")

    def _load_sub_fleet(
        self, fleet: FleetFile, entry: ConfigNode, names: dict[str, SourceLocation]
    ) -> FleetFile | None:
        if not SUB_FLEET.is_valid(entry, self.diagnostics):
            return None
        path = entry.find(("path",))
        referenced_path = resolve_relative_path(fleet.path, str(path.value))
        file = find_fleet_file(referenced_path) or referenced_path
        if self._is_cycle(fleet, file, path.location) or self._is_fleet_limit_exceeded(path.location):
            return None
        tree = self._load_fleet_tree(file, path.location)
        if tree is None:
            return None
        tree = merge_nodes(tree, entry.child("overrides"))
        name = self._resolve_name(entry, tree, file, names)
        if name is None:
            return None
        prefix, include_chain = f"{fleet.prefix}{name}.", (*fleet.include_chain, resolve_links(file))
        sub_fleet = FleetFile(
            path=file, tree=tree, zone=fleet.zone, prefix=prefix, include_chain=include_chain, root_folder=fleet.home
        )
        return self._validate(sub_fleet, fleet)

    def _is_cycle(self, fleet: FleetFile, file: Path, location: SourceLocation) -> bool:
        """Only a file that is still open is a cycle; the same one twice side by side is not."""
        if resolve_links(file) not in fleet.include_chain and len(fleet.include_chain) < _MAX_FLEET_DEPTH:
            return False
        chain = " → ".join(self.files.display_name(each) for each in (*fleet.include_chain, resolve_links(file)))
        message = f"The fleet includes itself: {chain}."
        self.diagnostics.error(Code.FLEET_CYCLE, message, location, "Remove one of these references.")
        return True

    def _is_fleet_limit_exceeded(self, location: SourceLocation) -> bool:
        self.sub_fleet_count += 1
        if self.sub_fleet_count == _MAX_SUB_FLEETS + 1:
            message = f"There are more than {_MAX_SUB_FLEETS:,} sub-fleets."
            self.diagnostics.error(Code.YAML_LIMIT, message, location, "Include each fleet file only once.")
        return self.sub_fleet_count > _MAX_SUB_FLEETS

    def _resolve_name(
        self, entry: ConfigNode, tree: ConfigNode, file: Path, names: dict[str, SourceLocation]
    ) -> str | None:
        """Return the prefix of its targets: the name in the reference, else its own, else that of its folder."""
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

    # Folders of agentd: their agents beside those of the fleet, their workflows on either.

    def _import_folders(self, fleet: FleetFile, sources: list[TargetSource]) -> None:
        for entry in self.collector.iter_entries(fleet.tree, "imports"):
            written = IMPORT_FOLDER.get(entry) if IMPORT.is_valid(entry, self.diagnostics) else None
            if written is None:
                continue
            folder = resolve_relative_path(fleet.path, written)
            if is_folder(folder):
                self._import_folder(folder, fleet, _get_zone(IMPORT_ZONE, entry, AGENTD_DEFAULT_ZONE), sources)
                continue
            message = f'There is no folder "{written}".'
            location = entry.find(("agentd",)).location
            self.diagnostics.error(Code.FILE_NOT_FOUND, message, location, "Correct the path.")

    def _import_folder(self, folder: Path, fleet: FleetFile, zone: DefaultZone, sources: list[TargetSource]) -> None:
        """Add the agents of a folder, then its workflows, which may also be for agents of the fleet."""
        for file, node in self.agentd.read_agents(folder):
            source = self.collector.build_target_source(fleet, TargetKind.AGENT, node, home=file.parent)
            if self.collector.register_name(source, node):
                sources.append(source)
        self._attach_workflows(self.agentd.read_workflows(folder), fleet, zone, sources)

    def _attach_workflows(
        self, workflows: Iterable[AgentdWorkflow], fleet: FleetFile, zone: DefaultZone, sources: list[TargetSource]
    ) -> None:
        """Add each workflow to the agent it names. One that names no agent is still checked for other mistakes."""
        positions = {source.name: index for index, source in enumerate(sources)}
        for workflow in workflows:
            index = positions.get(f"{fleet.prefix}{workflow.agent.value}")
            if index is None:
                if str(workflow.agent.value) not in self.agentd.invalid_agents:
                    self._report_unknown_agent(workflow.agent, positions)
                sources.append(self._attach_workflow(self._build_placeholder_source(workflow, fleet), workflow, zone))
            else:
                sources[index] = self._attach_workflow(sources[index], workflow, zone)

    def _attach_workflow(self, source: TargetSource, workflow: AgentdWorkflow, zone: DefaultZone) -> TargetSource:
        name = str(workflow.name.value)
        listed = source.node.child("schedules")
        used_names = {DEFAULT_SCHEDULE_NAME, *source.imported}
        if name in used_names or (listed is not None and listed.child(name) is not None):
            message = f'"{source.name}" already has a schedule "{name}".'
            self.diagnostics.error(Code.DUPLICATE_NAME, message, workflow.name.location, "Rename one of them.")
            return source
        imported = ImportedSchedule(node=workflow.schedule, zone=zone, is_invalid=workflow.is_invalid)
        return replace(source, imported={**source.imported, name: imported})

    def _build_placeholder_source(self, workflow: AgentdWorkflow, fleet: FleetFile) -> TargetSource:
        node = ConfigNode({"name": workflow.agent}, workflow.schedule.location)
        source = self.collector.build_target_source(fleet, TargetKind.AGENT, node, home=fleet.path.parent)
        return replace(source, is_invalid=True)

    def _report_unknown_agent(self, agent: ConfigNode, known: Iterable[str]) -> None:
        guess = find_closest_match(str(agent.value), known)
        message = f'There is no agent "{agent.value}"{did_you_mean_suffix(guess)}'
        self.diagnostics.error(Code.UNKNOWN_TARGET, message, agent.location, "Correct the name or add the agent.")


def _get_zone(key: Field[ZoneInfo], node: ConfigNode, inherited: DefaultZone) -> DefaultZone:
    zone = key.get(node)
    return DefaultZone(zone=zone, origin=node.find((key.name,)).location) if zone else inherited


def _inherit_block(name: str, tree: ConfigNode, parent: ConfigNode | None) -> ConfigNode | None:
    """Return a block of the fleet laid over that of its parent: the nearest wins."""
    own = tree.child(name)
    return merge_nodes(parent, own) if own is not None and isinstance(own.value, dict) else parent
