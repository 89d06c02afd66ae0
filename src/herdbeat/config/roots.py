"""The six things a path may lead to, and how each becomes a fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, assert_never

from herdbeat.config.agentd import AgentdReader
from herdbeat.config.assemble import FleetBuilder, has_fleet_budget
from herdbeat.config.collect import TargetCollector, check_docker_safety
from herdbeat.config.drafts import DefaultZone, FleetFile, TargetSource
from herdbeat.config.files import FileReader
from herdbeat.config.fleets import FleetFileLoader
from herdbeat.config.imports import AGENTD_DEFAULT_ZONE, AgentdImporter
from herdbeat.config.kinds import FileKind, detect_kind_by_keys, detect_kind_by_name, is_agentd_folder
from herdbeat.config.renames import normalize_keys
from herdbeat.config.report import Diagnostics
from herdbeat.config.values import ResolvedValue
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import TargetKind
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode


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
        return detect_kind_by_keys(tree) if tree is not None else FileKind.FLEET

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
