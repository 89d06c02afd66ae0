"""agentd's folders as parts of a fleet: their agents beside its own, their workflows on either."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.config.agentd import AgentdReader, AgentdWorkflow
from herdbeat.config.collect import TargetCollector
from herdbeat.config.drafts import DefaultZone, FleetFile, ImportedSchedule, TargetSource
from herdbeat.config.guess import find_closest_match
from herdbeat.config.keys.fleet import IMPORT, IMPORT_FOLDER, IMPORT_ZONE
from herdbeat.config.places import is_folder, resolve_relative_path
from herdbeat.config.report import Diagnostics
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.errors import did_you_mean_suffix
from herdbeat.located import ConfigNode

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
