"""A path -> a Reading: the fleet, every problem, every value with its origin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config.drafts import DefaultZone
from herdbeat.config.find import find_config_in_folder
from herdbeat.config.keys.homes import KEY_LOCATIONS
from herdbeat.config.kinds import FileKind
from herdbeat.config.places import display_path, is_folder
from herdbeat.config.report import Diagnostics
from herdbeat.config.roots import ConfigLoader
from herdbeat.config.values import ResolvedValue
from herdbeat.config.variables import merge_dotenv
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import ConfigError, Problem, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What the files say. `fleet` is None if a file as a whole cannot be used.

    A schedule or target with a problem of its own is left out of the fleet; the others are there.
    `sources` has the text of each file by the name that places use; `folders` are those that were listed.
    """

    kind: FileKind
    fleet: Fleet | None
    problems: tuple[Problem, ...] = ()
    values: tuple[ResolvedValue, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)


def try_load_fleet(
    path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None
) -> LoadResult:
    """Read a fleet and everything it refers to. Never raises for what a file says.

    `system_zone` is the zone where no file names one; messages name files relative to `base`.
    """
    path = path.absolute()
    if is_folder(path):
        path = find_config_in_folder(path) or path
    diagnostics = Diagnostics(key_locations=KEY_LOCATIONS)
    base = base or Path.cwd()
    dotenv = path.parent / ".env"
    loader = ConfigLoader.create(
        base=base,
        environ=merge_dotenv(environ, dotenv, display_path(dotenv, base), diagnostics),
        default_zone=DefaultZone(zone=system_zone, origin="system zone"),
        diagnostics=diagnostics,
    )
    kind, fleet, values = loader.read(path)
    return LoadResult(
        kind=kind,
        fleet=fleet,
        problems=diagnostics.sorted_problems(),
        values=tuple(values),
        sources=diagnostics.sources,
        folders=tuple(sorted(diagnostics.folders)),
    )


def load_fleet(path: Path, *, environ: Mapping[str, str], system_zone: ZoneInfo, base: Path | None = None) -> Fleet:
    """The same, but an error in any file is raised as ConfigError with all of them."""
    result = try_load_fleet(path, environ=environ, system_zone=system_zone, base=base)
    if result.errors or result.fleet is None:
        raise ConfigError(result.errors)
    return result.fleet
