"""A path -> a Reading: the fleet, every problem, every value with its origin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.drafts import FleetZone
from herdbeat.config.find import config_in
from herdbeat.config.keys.homes import HOMES
from herdbeat.config.kinds import FileKind
from herdbeat.config.places import is_folder, shown_path
from herdbeat.config.report import Report
from herdbeat.config.roots import Roots
from herdbeat.config.values import Value
from herdbeat.config.variables import with_dotenv
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Problem, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the files say. `fleet` is None if a file as a whole cannot be used.

    A schedule or target with a problem of its own is left out of the fleet; the others are there.
    `sources` has the text of each file by the name that places use; `folders` are those that were listed.
    """

    kind: FileKind
    fleet: Fleet | None
    problems: tuple[Problem, ...] = ()
    values: tuple[Value, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)


def read_fleet(path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None) -> Reading:
    """Read a fleet and everything it refers to. Never raises for what a file says.

    `system_zone` is the zone where no file names one; messages name files relative to `base`.
    """
    path = path.absolute()
    if is_folder(path):
        path = config_in(path) or path
    report = Report(homes=HOMES)
    base = base or Path.cwd()
    dotenv = path.parent / ".env"
    roots = Roots.make(
        base=base,
        environ=with_dotenv(environ, dotenv, shown_path(dotenv, base), report),
        system=FleetZone(zone=system_zone, origin="system zone"),
        report=report,
    )
    kind, fleet, values = roots.read(path)
    return Reading(
        kind=kind,
        fleet=fleet,
        problems=report.in_file_order(),
        values=tuple(values),
        sources=report.sources,
        folders=tuple(sorted(report.folders)),
    )


def load_fleet(path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None) -> Fleet:
    """The same, but an error in any file is raised as ConfigError with all of them."""
    reading = read_fleet(path, environ=environ, system_zone=system_zone, base=base)
    if reading.errors or reading.fleet is None:
        raise ConfigError(reading.errors)
    return reading.fleet
