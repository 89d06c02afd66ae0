"""Finding a fleet and picking from it, for every command that looks at one."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from herdbeat.app import load_config
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.errors import ConfigError, NotFound
from herdbeat.faces.cli.world import Context
from herdbeat.service.selecting import no_such_schedule

if TYPE_CHECKING:
    from herdbeat.config import LoadResult


def load_fleet_files(path: str | None, context: Context) -> "tuple[LoadResult, Fleet]":
    """What the files say, and the fleet in it. Raises ConfigError if there is none to look at.

    A broken schedule does not hide the others: they are shown, with a remark that something is wrong.
    """
    reading = load_config(path, context.environ, context.folder)
    if reading.fleet is None:
        raise ConfigError(reading.errors)
    if reading.errors:
        count = "1 problem" if len(reading.errors) == 1 else f"{len(reading.errors)} problems"
        context.terminal.info(f"{count}; what is broken is left out. See: herdbeat validate")
    return reading, reading.fleet


def select_schedules(fleet: Fleet, selector: str | None) -> list[Schedule]:
    """The schedules that a selector means: all, a target's, or one `target/schedule`. Raises NotFound."""
    if selector is None:
        return list(fleet.schedules)
    chosen = [each for each in fleet.schedules if matches_selector(each.id, selector)]
    if not chosen and fleet.target(selector) is None:
        raise unknown_selector_error(fleet, selector, (each.label for each in fleet.schedules))
    return chosen


def matches_selector(schedule: str, selector: str) -> bool:
    """Whether `target/schedule` is what a selector means."""
    if "*" in selector:
        return fnmatchcase(schedule, selector)
    return selector in (schedule, schedule.rpartition("/")[0])


def unknown_selector_error(fleet: Fleet, selector: str, labels: Iterable[str]) -> NotFound:
    """It guesses among the targets of the fleet and these labels."""
    return no_such_schedule(selector, {each.name for each in fleet.targets} | set(labels))
