"""Opening fleet files: the first one, and the sub-fleets it leads to."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.collect import TargetCollector
from herdbeat.config.drafts import DefaultZone, FleetFile, TargetSource
from herdbeat.config.files import FileReader
from herdbeat.config.find import HERDCTL_FILE_NAMES, find_fleet_file
from herdbeat.config.forms import NAME
from herdbeat.config.imports import AgentdImporter
from herdbeat.config.keys.fleet import FLEET, FLEET_SETTINGS, SUB_FLEET, TIMEZONE
from herdbeat.config.merge import drop_keys, merge_nodes
from herdbeat.config.places import real_path, resolve_relative_path
from herdbeat.config.renames import normalize_deprecated_keys, normalize_keys
from herdbeat.config.report import Diagnostics
from herdbeat.config.wording import wrong_type_error
from herdbeat.domain.target import TargetKind
from herdbeat.errors import HerdbeatError, SourceLocation
from herdbeat.located import ConfigNode

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
