"""Fleet files -> drafts: references followed, defaults and overrides laid over each other."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.drafts import Draft, FleetFile
from herdbeat.config.files import Files
from herdbeat.config.foreign import note_changed_docker
from herdbeat.config.keys.agent import AGENT_DOCKER, INHERITED_NAMES
from herdbeat.config.keys.fleet import REFERENCE
from herdbeat.config.keys.policies import POLICY_NAMES
from herdbeat.config.merge import merge, only
from herdbeat.config.places import beside
from herdbeat.config.renames import settle_names
from herdbeat.config.report import Report
from herdbeat.config.wording import wrong_type
from herdbeat.domain.target import TargetKind
from herdbeat.errors import Place
from herdbeat.located import Located

_ENTRY_WORDS = {"agents": "a mapping such as { path: ./agents/triage.yaml }", "fleets": "a mapping with a path"}


@dataclass(slots=True)
class Collector:
    """Follows a fleet file into its agents and sub-fleets. Names are unique across all of it."""

    files: Files
    report: Report
    seen: dict[str, Place] = field(default_factory=dict)

    def drafts(self, fleet: FleetFile) -> Iterator[Draft]:
        """The targets of one fleet file, in file order."""
        for kind in TargetKind:
            for entry in self.entries(fleet.tree, kind.section):
                draft = self._draft(fleet, kind, entry)
                if draft is not None and self.is_new(draft, entry):
                    yield draft

    def entries(self, tree: Located, section: str) -> Iterator[Located]:
        """The entries of a section that are mappings; anything else is reported."""
        found = tree.child(section)
        if found is None or found.value is None:
            return
        if not isinstance(found.value, list):
            self.report.misfit(wrong_type(found, "a list (each entry starts with -)"), found)
            return
        for entry in found.value:
            if isinstance(entry.value, dict):
                yield entry
            else:
                self.report.misfit(wrong_type(entry, _ENTRY_WORDS.get(section, "a mapping of keys")), entry)

    def _draft(self, fleet: FleetFile, kind: TargetKind, entry: Located) -> Draft | None:
        if kind is TargetKind.AGENT and entry.child("path") is not None:
            return self._referenced(fleet, entry)
        node = settle_names(entry, self.report)
        return self.made(fleet, kind, node, home=fleet.path.parent)

    def _referenced(self, fleet: FleetFile, entry: Located) -> Draft | None:
        mark = self.report.errors
        REFERENCE.check(entry, self.report)
        path = entry.child("path")
        if self.report.errors > mark or path is None:
            return None
        file = beside(fleet.path, str(path.value))
        tree = self.files.tree(file, path.place, is_foreign=True)
        if tree is None:
            return None
        if not isinstance(tree.value, dict):
            self.report.misfit(wrong_type(tree, "a mapping of keys"), tree)
            return None
        node = settle_names(tree, self.report)
        refuse_unsafe_docker(node, self.report)
        note_changed_docker(node, fleet.defaults, self.report)
        overrides = entry.child("overrides")
        above = settle_names(overrides, self.report) if overrides is not None else None
        draft = self.made(fleet, TargetKind.AGENT, node, home=file.parent, overrides=above)
        is_right = self.report.errors == mark and not self.files.is_broken(file)
        return draft if is_right else replace(draft, is_refused=True)

    def made(
        self, fleet: FleetFile, kind: TargetKind, node: Located, *, home: Path, overrides: Located | None = None
    ) -> Draft:
        """A target with the fleet's defaults below it and its overrides above it."""
        names = INHERITED_NAMES if kind is TargetKind.AGENT else {"instances"}
        merged = merge(merge(only(fleet.defaults, names), node), overrides)
        merged = replace(merged, place=node.place, key=node.key)
        name = merged.child("name")
        is_named = name is not None and isinstance(name.value, str)
        return Draft(
            name=fleet.prefix + (str(name.value) if name is not None and is_named else "?"),
            kind=kind,
            node=merged,
            home=home,
            top=fleet.home,
            zone=fleet.zone,
            defaults=only(fleet.defaults, POLICY_NAMES),
            rules=fleet.rules,
            notify=fleet.notify,
            is_refused=not is_named or fleet.is_refused,
        )

    def is_new(self, draft: Draft, entry: Located) -> bool:
        """Two targets of one name: the second is refused, whatever kind it is."""
        written = draft.node.child("name")
        if written is None or not isinstance(written.value, str):
            return True
        first = self.seen.get(draft.name)
        if first is None:
            self.seen[draft.name] = written.place
            return True
        # A file that is listed twice has its name in one place; then the listing is what must change.
        where = entry.find(("path",)).place if first == written.place else written.place
        message = f'There is already a target "{draft.name}", at {first}.'
        self.report.error(Code.DUPLICATE_NAME, message, where, "Rename one of the two.")
        return False


def refuse_unsafe_docker(agent: Located, report: Report) -> None:
    """An agent's own file may ask for less room, never for the host's network or folders."""
    docker = agent.child("docker")
    if docker is not None and isinstance(docker.value, dict):
        AGENT_DOCKER.check(docker, report)
