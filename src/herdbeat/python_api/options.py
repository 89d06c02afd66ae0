"""Options of Python programs, validated: agents, durations, times, and the keys of a file as keyword arguments."""

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import LEDGER_FILE_NAME, load_agents, load_config
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Jitter
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import MAX_DURATION, parse_duration
from herdbeat.errors import ConfigError, Problem, TimeParseError, UsageError
from herdbeat.python_api.herdctl_types import AgentsInput, DurationLike
from herdbeat.timestamps import parse_timestamp

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import LoadResult

DEFAULT_STATE_DIR = ".herdbeat"


def build_fleet(agents: AgentsInput, state_dir: Path) -> Fleet:
    """Return the fleet of these agents. Raises ConfigError with all their problems, UsageError for what is no agent."""
    if isinstance(agents, Fleet):
        return set_state_dir(agents, state_dir)
    if isinstance(agents, str | Path):
        fleet = require_loaded_fleet(load_config(str(agents), os.environ, Path.cwd()))
        return set_state_dir(fleet, state_dir)
    if isinstance(agents, Mapping):
        raise UsageError("agents must be a list, not a mapping.", hint="Put the mapping into a list: [{…}].")
    return set_state_dir(_build_fleet_from_list(list(agents)), state_dir)


def set_state_dir(fleet: Fleet, state_dir: Path) -> Fleet:
    """Return the fleet with its ledger in that folder."""
    return replace(fleet, store=f"sqlite:{(state_dir / LEDGER_FILE_NAME).absolute()}")


def apply_jitter_percent(fleet: Fleet, percent: float) -> Fleet:
    """Return the fleet with up to that jitter for each interval that has none of its own.

    The automatic spread of a file's agents is none of their own: a program that wants none gets none.
    """
    if not 0 <= percent <= 100:
        raise UsageError(f"jitter_percent must be 0 to 100, got {percent}", hint="For example, 10 adds up to 10%.")
    jitter = Jitter(share=percent / 100) if percent else None
    schedules = list(fleet.schedules)
    for index, schedule in enumerate(schedules):
        written = schedule.policies.jitter
        if schedule.trigger.kind is TriggerKind.INTERVAL and (written is None or written.is_automatic):
            schedules[index] = replace(schedule, policies=replace(schedule.policies, jitter=jitter))
    return replace(fleet, schedules=tuple(schedules))


def require_loaded_fleet(load_result: "LoadResult") -> Fleet:
    """Return the fleet. Raises ConfigError with all errors and their paths: a traceback shows no line of a file."""
    if load_result.errors or load_result.fleet is None:
        raise build_config_error([_prefix_location(problem) for problem in load_result.errors])
    return load_result.fleet


def build_config_error(problems: Sequence[Problem]) -> ConfigError:
    """Return the error. A traceback shows only the first problem, so its hint and the others are notes below it."""
    error = ConfigError(problems)
    error.add_note(f"{problems[0].hint} ({problems[0].where})")
    for each in problems[1:]:
        error.add_note(f"{each.message} {each.hint} ({each.where})")
    return error


def parse_duration_option(value: DurationLike, name: str) -> timedelta:
    """Return a duration. A number means seconds, as everywhere in Python; herdctl's milliseconds are "1s" here."""
    if isinstance(value, str):
        return parse_duration(value)
    try:
        length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise UsageError(
            f"{name} is not a duration: {value}.", hint='Pass seconds, a timedelta, or a string such as "30s".'
        ) from error
    if length < timedelta(0):
        raise UsageError(f"{name} is negative: {value}.", hint='Pass seconds, a timedelta, or a string such as "30s".')
    if length > MAX_DURATION:
        raise UsageError(f"{name} is longer than 100 years: {value}.", hint="Pass a shorter duration.")
    return length


def parse_interval_option(value: DurationLike, name: str) -> timedelta:
    """Return a duration above zero: what repeats without a pause would leave no time for anything else."""
    length = parse_duration_option(value, name)
    if not length:
        raise UsageError(f"{name} is zero.", hint='Pass seconds, a timedelta, or a string such as "1s".')
    return length


def require_positive(number: int, name: str) -> int:
    """Return how many may run. Raises UsageError for none: everything would wait without a visible reason."""
    if number < 1:
        raise UsageError(f"{name} cannot be {number}.", hint="Pass 1 or more.")
    return number


def _prefix_location(problem: Problem) -> Problem:
    where = problem.where
    return problem if where is None else replace(problem, message=f"{where.path or where}: {problem.message}")


def _build_fleet_from_list(agents: Sequence[Any]) -> Fleet:
    mappings = [each for each in agents if isinstance(each, Mapping)]
    targets = [each for each in agents if isinstance(each, Target)]
    schedules = [each for each in agents if isinstance(each, Schedule)]
    for agent in agents:
        if not isinstance(agent, Mapping | Target | Schedule):
            hint = 'Pass a mapping such as {"name": …, "schedules": {…}}, or a Target.'
            raise UsageError(f"{agent!r:.60} is not an agent.", hint=hint)
    fleet = require_loaded_fleet(load_agents(mappings))
    known = {target.name for target in (*fleet.targets, *targets)}
    for schedule in schedules:
        if schedule.target not in known:
            message = f'The schedule "{schedule.id}" belongs to none of the agents passed.'
            raise UsageError(message, hint="Pass its Target, too.")
    return replace(fleet, targets=(*fleet.targets, *targets), schedules=(*fleet.schedules, *schedules))


def require_aware(moment: datetime) -> datetime:
    """Return the same instant in UTC. Raises TimeParseError for a naive datetime, which may mean any instant."""
    if moment.tzinfo is None:
        hint = "Pass an aware datetime, for example datetime(2026, 4, 1, 9, 0, tzinfo=UTC)."
        raise TimeParseError(f"{moment.isoformat()} has no time zone.", moment.isoformat(), hint=hint)
    return moment.astimezone(UTC)


DurationOption = str | timedelta
TimeOption = str | datetime


def parse_moment(moment: TimeOption) -> datetime:
    """Return an instant that a program gives, in UTC. Raises TimeParseError."""
    return parse_timestamp(moment) if isinstance(moment, str) else require_aware(moment)


class ScheduleOptions(TypedDict, total=False):
    """`name` is `target` or `target/schedule`, the function's own name by default.

    `args` and `kwargs` are what it is called with; the rest is checked as in a file.
    """

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    description: str
    max_concurrent: int
    prompt: str
    enabled: bool
    timezone: str | ZoneInfo
    catchup: Literal["skip", "once", "all"]
    catchup_max: int
    grace: DurationOption
    max_late: DurationOption
    overlap: Literal["skip", "queue", "queue_all", "cancel", "allow"]
    jitter: str | timedelta
    min_interval: DurationOption
    max_interval: DurationOption
    backoff: Mapping[str, int]
    retry: Mapping[str, int | DurationOption]
    timeout: DurationOption
    late_after: DurationOption
    pause_after_failures: int
    max_runs: int
    starts_at: TimeOption
    ends_at: TimeOption
    active_hours: str
    budget: Mapping[str, float]
    precheck: Sequence[str]
    priority: int
    tags: Sequence[str]
    group: str
    runs_on: str
    dedup: str
    when: str
    max_queued: int
    wakes_per_day: int
    first_run: Literal["now", "after_interval"]
    on_interrupt: Literal["skip", "retry"]
    adapt: Sequence[Mapping[str, Any]]


PROGRAM_ACTOR = "program"
"""The actor of a program that triggers by itself: a machine, so what a person has paused or disabled stays so."""


def get_current_actor() -> str:
    """Return `human:you` for the user of the process, by number if a container does not know the name."""
    try:
        return f"human:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"human:{os.getuid()}"
