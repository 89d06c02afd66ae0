"""Finding a fleet and picking from it, for every command that looks at one."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from herdbeat.app import read_configuration
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.errors import ConfigError, NotFound
from herdbeat.faces.cli.world import World
from herdbeat.service.selecting import not_found

if TYPE_CHECKING:
    from herdbeat.config import Reading


def read(path: str | None, world: World) -> "tuple[Reading, Fleet]":
    """What the files say, and the fleet in it. Raises ConfigError if there is none to look at.

    A broken schedule does not hide the others: they are shown, with a remark that something is wrong.
    """
    reading = read_configuration(path, world.environ, world.folder)
    if reading.fleet is None:
        raise ConfigError(reading.errors)
    if reading.errors:
        count = "1 problem" if len(reading.errors) == 1 else f"{len(reading.errors)} problems"
        world.terminal.remark(f"{count}; what is broken is left out. See: herdbeat validate")
    return reading, reading.fleet


def select_schedules(fleet: Fleet, selector: str | None) -> list[Schedule]:
    """The schedules that a selector means: all, a target's, or one `target/schedule`. Raises NotFound."""
    if selector is None:
        return list(fleet.schedules)
    chosen = [each for each in fleet.schedules if fits(each.id, selector)]
    if not chosen and fleet.target(selector) is None:
        raise unknown_in(fleet, selector, (each.label for each in fleet.schedules))
    return chosen


def fits(schedule: str, selector: str) -> bool:
    """Whether `target/schedule` is what a selector means."""
    if "*" in selector:
        return fnmatchcase(schedule, selector)
    return selector in (schedule, schedule.rpartition("/")[0])


def unknown_in(fleet: Fleet, selector: str, labels: Iterable[str]) -> NotFound:
    """It guesses among the targets of the fleet and these labels."""
    return not_found(selector, {each.name for each in fleet.targets} | set(labels))
