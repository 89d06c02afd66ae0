"""Fleet files -> drafts: references followed, defaults and overrides laid over each other."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.drafts import FleetFile, TargetSource
from herdbeat.config.files import FileReader
from herdbeat.config.foreign import warn_changed_docker
from herdbeat.config.keys.agent import AGENT_DOCKER, INHERITABLE_KEY_NAMES
from herdbeat.config.keys.fleet import AGENT_REFERENCE
from herdbeat.config.keys.policies import POLICY_KEY_NAMES
from herdbeat.config.merge import merge_nodes, select_keys
from herdbeat.config.places import resolve_relative_path
from herdbeat.config.renames import normalize_keys
from herdbeat.config.report import Diagnostics
from herdbeat.config.wording import wrong_type_error
from herdbeat.domain.target import TargetKind
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode

_ENTRY_DESCRIPTIONS = {"agents": "a mapping such as { path: ./agents/triage.yaml }", "fleets": "a mapping with a path"}


@dataclass(slots=True)
class TargetCollector:
    """Follows a fleet file into its agents and sub-fleets. Names are unique across all of it."""

    files: FileReader
    diagnostics: Diagnostics
    location_by_name: dict[str, SourceLocation] = field(default_factory=dict)

    def target_sources(self, fleet: FleetFile) -> Iterator[TargetSource]:
        """The targets of one fleet file, in file order."""
        for kind in TargetKind:
            for entry in self.iter_entries(fleet.tree, kind.section):
                target_source = self._build_source(fleet, kind, entry)
                if target_source is not None and self.register_name(target_source, entry):
                    yield target_source

    def iter_entries(self, tree: ConfigNode, section: str) -> Iterator[ConfigNode]:
        """The entries of a section that are mappings; anything else is reported."""
        found = tree.child(section)
        if found is None or found.value is None:
            return
        if not isinstance(found.value, list):
            self.diagnostics.add(wrong_type_error(found, "a list (each entry starts with -)"), found)
            return
        for entry in found.value:
            if isinstance(entry.value, dict):
                yield entry
            else:
                self.diagnostics.add(
                    wrong_type_error(entry, _ENTRY_DESCRIPTIONS.get(section, "a mapping of keys")), entry
                )

    def _build_source(self, fleet: FleetFile, kind: TargetKind, entry: ConfigNode) -> TargetSource | None:
        if kind is TargetKind.AGENT and entry.child("path") is not None:
            return self._load_referenced(fleet, entry)
        node = normalize_keys(entry, self.diagnostics)
        return self.build_target_source(fleet, kind, node, home=fleet.path.parent)

    def _load_referenced(self, fleet: FleetFile, entry: ConfigNode) -> TargetSource | None:
        errors_before = self.diagnostics.error_count
        AGENT_REFERENCE.validate(entry, self.diagnostics)
        path = entry.child("path")
        if self.diagnostics.error_count > errors_before or path is None:
            return None
        file = resolve_relative_path(fleet.path, str(path.value))
        tree = self.files.tree(file, path.location, is_foreign=True)
        if tree is None:
            return None
        if not isinstance(tree.value, dict):
            self.diagnostics.add(wrong_type_error(tree, "a mapping of keys"), tree)
            return None
        node = normalize_keys(tree, self.diagnostics)
        check_docker_safety(node, self.diagnostics)
        warn_changed_docker(node, fleet.defaults, self.diagnostics)
        overrides = entry.child("overrides")
        normalized_overrides = normalize_keys(overrides, self.diagnostics) if overrides is not None else None
        target_source = self.build_target_source(
            fleet, TargetKind.AGENT, node, home=file.parent, overrides=normalized_overrides
        )
        is_valid = self.diagnostics.error_count == errors_before and not self.files.is_broken(file)
        return target_source if is_valid else replace(target_source, is_invalid=True)

    def build_target_source(
        self, fleet: FleetFile, kind: TargetKind, node: ConfigNode, *, home: Path, overrides: ConfigNode | None = None
    ) -> TargetSource:
        """A target with the fleet's defaults below it and its overrides above it."""
        names = INHERITABLE_KEY_NAMES if kind is TargetKind.AGENT else {"instances"}
        merged = merge_nodes(merge_nodes(select_keys(fleet.defaults, names), node), overrides)
        merged = replace(merged, location=node.location, key=node.key)
        name = merged.child("name")
        is_named = name is not None and isinstance(name.value, str)
        return TargetSource(
            name=fleet.prefix + (str(name.value) if name is not None and is_named else "?"),
            kind=kind,
            node=merged,
            home=home,
            root_folder=fleet.home,
            zone=fleet.zone,
            defaults=select_keys(fleet.defaults, POLICY_KEY_NAMES),
            rules=fleet.rules,
            notify=fleet.notify,
            is_invalid=not is_named or fleet.is_invalid,
        )

    def register_name(self, target_source: TargetSource, entry: ConfigNode) -> bool:
        """Two targets of one name: the second is refused, whatever kind it is."""
        written = target_source.node.child("name")
        if written is None or not isinstance(written.value, str):
            return True
        first = self.location_by_name.get(target_source.name)
        if first is None:
            self.location_by_name[target_source.name] = written.location
            return True
        # A file that is listed twice has its name in one place; then the listing is what must change.
        where = entry.find(("path",)).location if first == written.location else written.location
        message = f'There is already a target "{target_source.name}", at {first}.'
        self.diagnostics.error(Code.DUPLICATE_NAME, message, where, "Rename one of the two.")
        return False


def check_docker_safety(agent: ConfigNode, diagnostics: Diagnostics) -> None:
    """An agent's own file may ask for less room, never for the host's network or folders."""
    docker = agent.child("docker")
    if docker is not None and isinstance(docker.value, dict):
        AGENT_DOCKER.validate(docker, diagnostics)
