"""A target as collected from the files: everything merged, nothing judged yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.domain.target import TargetKind
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultZone:
    """The zone of schedules that name none, and who says so."""

    zone: ZoneInfo
    origin: SourceLocation | str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """A fleet file that was opened: its tree, where it lies, and what it hands down to its targets.

    A refused one has a problem of its own; its targets are still looked through for more. `top` is the folder of the
    first file, where this one is a part of another fleet.
    """

    path: Path
    tree: ConfigNode
    zone: DefaultZone
    prefix: str = ""
    defaults: ConfigNode | None = None
    rules: ConfigNode | None = None
    notify: ConfigNode | None = None
    include_chain: tuple[Path, ...] = ()
    root_folder: Path | None = None
    is_invalid: bool = False

    @property
    def home(self) -> Path:
        """The folder of the whole fleet."""
        return self.root_folder or self.path.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSchedule:
    """A schedule that another folder adds to a target, with the zone of that folder."""

    node: ConfigNode
    zone: DefaultZone
    is_invalid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSource:
    """One target. `defaults` holds the policies of its fleet, `rules` and `notify` the named
    sets and channels in reach.

    `home` is the folder from which its relative paths count, `top` that of the whole fleet. `is_refused` says that its
    own problem was reported while it was collected; it is still looked through for more.
    """

    name: str
    kind: TargetKind
    node: ConfigNode
    home: Path
    root_folder: Path
    zone: DefaultZone
    defaults: ConfigNode | None = None
    rules: ConfigNode | None = None
    notify: ConfigNode | None = None
    imported: Mapping[str, ImportedSchedule] = field(default_factory=dict)
    is_invalid: bool = False
