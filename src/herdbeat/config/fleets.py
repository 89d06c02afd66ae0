"""Opening fleet files: the first one, and the sub-fleets it leads to."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from herdbeat.codes import Code
from herdbeat.config.collect import Collector
from herdbeat.config.drafts import Draft, FleetFile, FleetZone
from herdbeat.config.files import Files
from herdbeat.config.find import HERDCTL_FILES, fleet_in
from herdbeat.config.forms import NAME
from herdbeat.config.imports import Importer
from herdbeat.config.keys.fleet import FLEET, SETTINGS, SUB_FLEET, TIMEZONE
from herdbeat.config.merge import merge, without
from herdbeat.config.places import beside, real_path
from herdbeat.config.renames import settle_deprecated, settle_names
from herdbeat.config.report import Report
from herdbeat.config.wording import wrong_type
from herdbeat.domain.target import TargetKind
from herdbeat.errors import HerdbeatError, Place
from herdbeat.located import Located

_MOST_NESTED = 20
_MOST_FLEETS = 1_000
"""Twenty levels that name the next one twice each would be a million fleets."""
_OF_THE_FIRST = {key.name for key in SETTINGS} - {
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
class FleetReader:
    """Opens one fleet file and everything below it."""

    files: Files
    report: Report
    collector: Collector
    importer: Importer
    opened: int = 0

    def open(self, path: Path, system: FleetZone) -> FleetFile | None:
        """The first file; None if it cannot be read at all."""
        tree = self.files.tree(path, is_foreign=path.name in HERDCTL_FILES)
        if tree is None or not self._is_mapping(tree):
            return None
        return self._checked(FleetFile(path=path, tree=tree, zone=system, chain=(real_path(path),)))

    def drafts(self, fleet: FleetFile) -> Iterator[Draft]:
        """Its own targets and those of its imports, then those of each sub-fleet, depth first."""
        own = list(self.collector.drafts(fleet))
        self.importer.add_all(fleet, own)
        yield from own
        names: dict[str, Place] = {}
        for entry in self.collector.entries(fleet.tree, "fleets"):
            below = self._sub_fleet(fleet, entry, names)
            if below is not None:
                yield from self.drafts(below)

    def _is_mapping(self, tree: Located) -> bool:
        if isinstance(tree.value, dict):
            return True
        self.report.misfit(wrong_type(tree, "a mapping of keys"), tree)
        return False

    def _checked(self, fleet: FleetFile, above: FleetFile | None = None) -> FleetFile:
        """The file with settled names and what it hands down. Targets are looked at one by one, later."""
        mark = self.report.errors
        tree = self._settled(fleet.tree)
        FLEET.check(without(tree, *(kind.section for kind in TargetKind), "fleets"), self.report)
        self._refuse_newer(tree)
        if above is not None:
            self._note_unused(tree)
        refused = self.report.errors > mark or self.files.is_broken(fleet.path)
        return replace(
            fleet,
            tree=tree,
            zone=fleet.zone if refused else _zone(tree, fleet.zone),
            defaults=_handed_down("defaults", tree, above.defaults if above else None),
            rules=_handed_down("rules", tree, above.rules if above else None),
            notify=_handed_down("notify", tree, above.notify if above else None),
            is_refused=refused,
        )

    def _settled(self, tree: Located) -> Located:
        """The file with settled names, those of its defaults included."""
        tree = settle_deprecated(tree, self.report)
        defaults = tree.child("defaults")
        if defaults is None or not isinstance(tree.value, dict):
            return tree
        return replace(tree, value=tree.value | {"defaults": settle_names(defaults, self.report)})

    def _refuse_newer(self, tree: Located) -> None:
        version = tree.find(("version",))
        if isinstance(version.value, int) and version.value > 1 and not self.report.is_foreign(version.place):
            message = f"This file is written for version {version.value} of the format; version 1 is known."
            self.report.error(Code.INVALID_VALUE, message, version.place, "Use a newer herdbeat, or version: 1.")

    def _note_unused(self, tree: Located) -> None:
        """A sub-fleet has no server, store or clock of its own. herdctl switches its `web` off without a word."""
        for name, child in tree.items():
            if name in _OF_THE_FIRST:
                message = f'"{name}" has no effect in a sub-fleet: the first file decides.'
                self.report.warning(Code.NOT_SERVED, message, child.label, "Remove it if it misleads.")

    def _sub_fleet(self, fleet: FleetFile, entry: Located, names: dict[str, Place]) -> FleetFile | None:
        mark = self.report.errors
        SUB_FLEET.check(entry, self.report)
        if self.report.errors > mark:
            return None
        path = entry.find(("path",))
        named = beside(fleet.path, str(path.value))
        file = fleet_in(named) or named
        if self._is_cycle(fleet, file, path.place) or self._are_too_many(path.place):
            return None
        tree = self.files.tree(file, path.place, is_foreign=file.name in HERDCTL_FILES)
        if tree is None or not self._is_mapping(tree):
            return None
        tree = merge(tree, entry.child("overrides"))
        name = self._name(entry, tree, file, names)
        if name is None:
            return None
        chain = (*fleet.chain, real_path(file))
        prefix = f"{fleet.prefix}{name}."
        below = FleetFile(path=file, tree=tree, zone=fleet.zone, prefix=prefix, chain=chain, top=fleet.home)
        return self._checked(below, fleet)

    def _is_cycle(self, fleet: FleetFile, file: Path, place: Place) -> bool:
        """Only a file that is still open is a cycle; the same one twice side by side is not."""
        if real_path(file) not in fleet.chain and len(fleet.chain) < _MOST_NESTED:
            return False
        chain = " → ".join(self.files.shown(each) for each in (*fleet.chain, real_path(file)))
        message = f"The fleet includes itself: {chain}."
        self.report.error(Code.FLEET_CYCLE, message, place, "Remove one of these references.")
        return True

    def _are_too_many(self, place: Place) -> bool:
        self.opened += 1
        if self.opened == _MOST_FLEETS + 1:
            message = f"There are more than {_MOST_FLEETS:,} sub-fleets."
            self.report.error(Code.YAML_LIMIT, message, place, "Name each fleet file once.")
        return self.opened > _MOST_FLEETS

    def _name(self, entry: Located, tree: Located, file: Path, names: dict[str, Place]) -> str | None:
        """What goes before the names of its targets: as referenced, as it says, or as its folder is called."""
        own = tree.find(("fleet", "name"))
        written = entry.child("name") or (own if isinstance(own.value, str) else None)
        node = written or Located(file.parent.name, entry.find(("path",)).place, written=file.parent.name)
        try:
            name = NAME.read(node)
        except HerdbeatError as error:
            self.report.misfit(error, node)
            return None
        if name in names:
            message = f'There is already a sub-fleet "{name}", at {names[name]}.'
            self.report.error(Code.DUPLICATE_NAME, message, entry.place, "Give one of them another name.")
            return None
        names[name] = node.place
        return name


def _zone(tree: Located, above: FleetZone) -> FleetZone:
    zone = TIMEZONE.of(tree)
    return FleetZone(zone=zone, origin=tree.find(("timezone",)).place) if zone else above


def _handed_down(name: str, tree: Located, above: Located | None) -> Located | None:
    """A block of the fleet laid over that of the fleet above: the nearest wins."""
    own = tree.child(name)
    return merge(above, own) if own is not None and isinstance(own.value, dict) else above
