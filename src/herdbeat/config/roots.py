"""The six things a path may lead to, and how each becomes a fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, assert_never

from herdbeat.config.agentd import AgentdReader
from herdbeat.config.assemble import Assembly, has_budget
from herdbeat.config.collect import Collector, refuse_unsafe_docker
from herdbeat.config.drafts import Draft, FleetFile, FleetZone
from herdbeat.config.files import Files
from herdbeat.config.fleets import FleetReader
from herdbeat.config.imports import AGENTD_ZONE, Importer
from herdbeat.config.kinds import FileKind, is_agentd_folder, kind_by_keys, kind_by_name
from herdbeat.config.renames import settle_names
from herdbeat.config.report import Report
from herdbeat.config.values import Value
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import TargetKind
from herdbeat.errors import Place
from herdbeat.located import Located


@dataclass(slots=True)
class Roots:
    """Reads the first path; the readers it holds follow the references."""

    files: Files
    report: Report
    system: FleetZone
    fleets: FleetReader
    importer: Importer

    @classmethod
    def make(cls, *, base: Path, environ: Mapping[str, str], system: FleetZone, report: Report) -> Self:
        files = Files(base=base, environ=environ, report=report)
        collector = Collector(files=files, report=report)
        agentd = AgentdReader(files=files, report=report)
        importer = Importer(agentd=agentd, collector=collector, report=report)
        fleets = FleetReader(files=files, report=report, collector=collector, importer=importer)
        return cls(files=files, report=report, system=system, fleets=fleets, importer=importer)

    def read(self, path: Path) -> tuple[FileKind, Fleet | None, list[Value]]:
        """What the path is, the fleet it makes, and the values of that."""
        kind = self._kind(path)
        self.report.is_mild = kind is not FileKind.FLEET
        if kind in (FileKind.HERDCTL_FLEET, FileKind.HERDCTL_AGENT):
            self.system = replace(self.system, origin="herdctl default (system zone)")
        drafts: list[Draft] = []
        fleet = self._collect(kind, path, drafts)
        names = frozenset(draft.name for draft in drafts)
        assembly = Assembly(self.report, names, has_budget=fleet is not None and has_budget(fleet.tree))
        for draft in drafts:
            assembly.add(draft)
        if fleet is None or fleet.is_refused:
            return kind, None, []
        return kind, assembly.fleet(fleet), assembly.values

    def one_more(self, path: Path, kind: TargetKind, node: Located) -> Assembly:
        """A target as if it stood in the fleet at that path: with its defaults, and judged like any other."""
        is_fleet = self._kind(path) in (FileKind.FLEET, FileKind.HERDCTL_FLEET)
        around = self.fleets.open(path, self.system) if is_fleet else None
        node = settle_names(node, self.report)
        draft = self.importer.collector.made(around or self._bare(path, self.system), kind, node, home=path.parent)
        assembly = Assembly(self.report, frozenset({draft.name}))
        assembly.add(draft)
        return assembly

    def _kind(self, path: Path) -> FileKind:
        if is_agentd_folder(path):
            return FileKind.AGENTD_FOLDER
        by_name = kind_by_name(path)
        if by_name is not None:
            return by_name
        tree = self.files.tree(path)
        return kind_by_keys(tree) if tree is not None else FileKind.FLEET

    def _collect(self, kind: FileKind, path: Path, drafts: list[Draft]) -> FleetFile | None:
        match kind:
            case FileKind.FLEET | FileKind.HERDCTL_FLEET:
                return self._fleet(path, drafts)
            case FileKind.AGENTD_FOLDER:
                fleet = self._bare(path, AGENTD_ZONE)
                self.importer.add(path, fleet, AGENTD_ZONE, drafts)
                return fleet
            case FileKind.AGENTD_WORKFLOW:
                return self._workflow(path, drafts)
            case FileKind.AGENTD_AGENT:
                is_in_folder = is_agentd_folder(path.parent.parent)
                node = self.importer.agentd.agent(path, path.parents[2] if is_in_folder else path.parent)
                return self._alone(path, node, AGENTD_ZONE, drafts)
            case FileKind.HERDCTL_AGENT:
                return self._herdctl_agent(path, drafts)
            case _:
                assert_never(kind)

    def _fleet(self, path: Path, drafts: list[Draft]) -> FleetFile | None:
        fleet = self.fleets.open(path, self.system)
        if fleet is not None:
            drafts.extend(self.fleets.drafts(fleet))
        return fleet

    def _workflow(self, path: Path, drafts: list[Draft]) -> FleetFile | None:
        """One workflow by itself: its agent cannot be known, so it is taken as given."""
        workflow = self.importer.agentd.workflow(path)
        if workflow is None:
            return None if self.report.errors else self._bare(path, AGENTD_ZONE)
        stand_in = Located({"name": workflow.agent}, workflow.schedule.place)
        fleet = self._alone(path, stand_in, AGENTD_ZONE, drafts)
        self.importer.attach([workflow], AGENTD_ZONE, drafts)
        return fleet

    def _herdctl_agent(self, path: Path, drafts: list[Draft]) -> FleetFile | None:
        tree = self.files.tree(path)
        if tree is None:
            return None
        self.report.foreign.add(self.files.shown(path))
        node = settle_names(tree, self.report)
        mark = self.report.errors
        refuse_unsafe_docker(node, self.report)
        is_right = self.report.errors == mark and not self.files.is_broken(path)
        fleet = self._alone(path, node, self.system, drafts)
        return fleet if is_right else None

    def _alone(self, path: Path, node: Located | None, zone: FleetZone, drafts: list[Draft]) -> FleetFile | None:
        """A fleet of one agent."""
        if node is None:
            return None
        fleet = self._bare(path, zone)
        drafts.append(self.importer.collector.made(fleet, TargetKind.AGENT, node, home=path.parent))
        return fleet

    def _bare(self, path: Path, zone: FleetZone) -> FleetFile:
        """A fleet without settings of its own."""
        tree = Located({}, Place(file=self.files.shown(path), line=1, column=1))
        return FleetFile(path=path, tree=tree, zone=zone)
