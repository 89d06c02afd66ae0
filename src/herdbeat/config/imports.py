"""agentd's folders as parts of a fleet: their agents beside its own, their workflows on either."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.codes import Code
from herdbeat.config.agentd import AgentdReader, Workflow
from herdbeat.config.collect import Collector
from herdbeat.config.drafts import Draft, FleetFile, FleetZone, Imported
from herdbeat.config.guess import did_you_mean
from herdbeat.config.keys.fleet import IMPORT, IMPORT_FOLDER, IMPORT_ZONE
from herdbeat.config.places import beside, is_folder
from herdbeat.config.report import Report
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.domain.target import TargetKind
from herdbeat.errors import ending
from herdbeat.located import Located

AGENTD_ZONE = FleetZone(zone=ZoneInfo("UTC"), origin="agentd default")


@dataclass(slots=True)
class Importer:
    """Adds what the `imports:` of a fleet file name to the drafts collected so far."""

    agentd: AgentdReader
    collector: Collector
    report: Report

    def add_all(self, fleet: FleetFile, drafts: list[Draft]) -> None:
        for entry in self.collector.entries(fleet.tree, "imports"):
            mark = self.report.errors
            IMPORT.check(entry, self.report)
            written = IMPORT_FOLDER.of(entry) if self.report.errors == mark else None
            if written is None:
                continue
            folder = beside(fleet.path, written)
            if not is_folder(folder):
                message = f'There is no folder "{written}".'
                self.report.error(Code.FILE_NOT_FOUND, message, entry.find(("agentd",)).place, "Correct the path.")
                continue
            zone = IMPORT_ZONE.of(entry)
            origin = entry.find(("timezone",)).place
            self.add(folder, fleet, FleetZone(zone=zone, origin=origin) if zone else AGENTD_ZONE, drafts)

    def add(self, folder: Path, fleet: FleetFile, zone: FleetZone, drafts: list[Draft]) -> None:
        """The agents of a folder, then its workflows, which may also be for agents of the fleet."""
        for file, node in self.agentd.agents(folder):
            draft = self.collector.made(fleet, TargetKind.AGENT, node, home=file.parent)
            if self.collector.is_new(draft, node):
                drafts.append(draft)
        self.attach(self.agentd.workflows(folder), zone, drafts, fleet.prefix)

    def attach(self, workflows: Iterable[Workflow], zone: FleetZone, drafts: list[Draft], prefix: str = "") -> None:
        """Put each workflow onto the agent it names."""
        positions = {draft.name: index for index, draft in enumerate(drafts)}
        for workflow in workflows:
            name = f"{prefix}{workflow.agent.value}"
            if name not in positions:
                self._refuse_unknown(workflow.agent, positions)
                continue
            index = positions[name]
            drafts[index] = self._with(drafts[index], workflow, zone)

    def _with(self, draft: Draft, workflow: Workflow, zone: FleetZone) -> Draft:
        name = str(workflow.name.value)
        taken = {DEFAULT_NAME, *draft.imported, *(each for each, _ in _schedules(draft).items())}
        if name in taken:
            message = f'"{draft.name}" already has a schedule "{name}".'
            self.report.error(Code.DUPLICATE_NAME, message, workflow.name.place, "Rename one of the two.")
            return draft
        imported = Imported(node=workflow.schedule, zone=zone, is_refused=workflow.is_refused)
        return replace(draft, imported={**draft.imported, name: imported})

    def _refuse_unknown(self, agent: Located, known: Iterable[str]) -> None:
        guess = did_you_mean(str(agent.value), known)
        message = f'There is no agent "{agent.value}"{ending(guess)}'
        self.report.error(Code.UNKNOWN_TARGET, message, agent.place, "Correct the name, or add the agent.")


def _schedules(draft: Draft) -> Located:
    return draft.node.child("schedules") or Located({}, draft.node.place)
