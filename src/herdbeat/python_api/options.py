"""What may be said about a function beside when it runs: the words of the files, as keyword arguments."""

import getpass
import os
from collections.abc import Iterable, Mapping, Sequence
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
from herdbeat.durations import parse_duration
from herdbeat.errors import ConfigError, Problem, TimeParseError, UsageError
from herdbeat.python_api.herdctl_types import AgentsInput, DurationLike

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import LoadResult

DEFAULT_STATE_DIR = ".herdbeat"


def build_fleet(agents: AgentsInput, state_dir: Path) -> Fleet:
    """Raises ConfigError with every problem of every agent, UsageError for what is no agent at all."""
    if isinstance(agents, Fleet):
        return set_state_dir(agents, state_dir)
    if isinstance(agents, str | Path):
        load_result = load_config(str(agents), os.environ, Path.cwd())
        return set_state_dir(require_loaded_fleet(load_result), state_dir)
    if isinstance(agents, Mapping):
        raise UsageError("The agents are one mapping.", hint="Put it into a list: [{…}].")
    return set_state_dir(_build_fleet_from_list(list(agents)), state_dir)


def set_state_dir(fleet: Fleet, state_dir: Path) -> Fleet:
    """The fleet with its ledger in that folder."""
    return replace(fleet, store=f"sqlite:{(state_dir / LEDGER_FILE_NAME).absolute()}")


def apply_jitter_percent(fleet: Fleet, percent: float) -> Fleet:
    """Up to so many percent of each interval that has no jitter of its own."""
    if not 0 <= percent <= 100:
        raise UsageError(f"jitter_percent must be 0 to 100, got {percent}", hint="10 means up to a tenth.")
    if not percent:
        return fleet
    jitter = Jitter(share=percent / 100)
    schedules = (
        replace(each, policies=replace(each.policies, jitter=jitter))
        if each.trigger.kind is TriggerKind.INTERVAL and each.policies.jitter is None
        else each
        for each in fleet.schedules
    )
    return replace(fleet, schedules=tuple(schedules))


def require_loaded_fleet(load_result: "LoadResult") -> Fleet:
    """The fleet; or every error in one, told with its place: nobody shows a Python program the line of a file."""
    if load_result.errors or load_result.fleet is None:
        raise build_config_error([_prefix_location(each) for each in load_result.errors])
    return load_result.fleet


def build_config_error(problems: Sequence[Problem]) -> ConfigError:
    """A traceback shows the first problem alone, so the mend and the others go below it, as notes."""
    error = ConfigError(problems)
    error.add_note(f"{problems[0].hint} ({problems[0].where})")
    for each in problems[1:]:
        error.add_note(f"{each.message} {each.hint} ({each.where})")
    return error


def parse_duration_option(value: DurationLike, name: str) -> timedelta:
    """A number is seconds, as everywhere in Python; herdctl's milliseconds are written "1s" here."""
    if isinstance(value, str):
        return parse_duration(value)
    try:
        length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise UsageError(f"{name} is no length of time: {value}.", hint='Write seconds, or a text: "30s".') from error
    if length < timedelta(0):
        raise UsageError(f"{name} is negative: {value}.", hint='Write seconds, a timedelta, or a text such as "30s".')
    return length


def parse_interval_option(value: DurationLike, name: str) -> timedelta:
    """The same for what is done again and again: without a pause between, nothing else would be done."""
    length = parse_duration_option(value, name)
    if not length:
        raise UsageError(f"{name} is zero.", hint='Write seconds, a timedelta, or a text such as "1s".')
    return length


def require_positive(number: int, name: str) -> int:
    """How many may run: with none, everything would wait, and nobody would know what for."""
    if number < 1:
        raise UsageError(f"{name} cannot be {number}.", hint="Write 1 or more; to run nothing, do not start it.")
    return number


def _prefix_location(problem: Problem) -> Problem:
    where = problem.where
    if where is None:
        return problem
    return replace(problem, message=f"{where.path or where}: {problem.message}")


def _build_fleet_from_list(agents: Sequence[Any]) -> Fleet:
    mappings = [each for each in agents if isinstance(each, Mapping)]
    targets = [each for each in agents if isinstance(each, Target)]
    schedules = [each for each in agents if isinstance(each, Schedule)]
    if len(mappings) + len(targets) + len(schedules) < len(agents):
        wrong = next(each for each in agents if not isinstance(each, Mapping | Target | Schedule))
        hint = 'Write a mapping such as {"name": …, "schedules": {…}}, or a Target.'
        raise UsageError(f"{wrong!r:.60} is not an agent.", hint=hint)
    fleet = require_loaded_fleet(load_agents(mappings))
    known = {each.name for each in (*fleet.targets, *targets)}
    _require_known_agents(schedules, known)
    return replace(fleet, targets=(*fleet.targets, *targets), schedules=(*fleet.schedules, *schedules))


def _require_known_agents(schedules: Iterable[Schedule], known: set[str]) -> None:
    for each in schedules:
        if each.target not in known:
            raise UsageError(
                f'The schedule "{each.id}" belongs to no agent that was given.', hint="Hand over its Target, too."
            )


# What Python callers hand us as times, made certain.


def require_aware(moment: datetime) -> datetime:
    """The same instant in UTC. A naive datetime is refused: nobody can know which instant it means."""
    if moment.tzinfo is None:
        raise TimeParseError(
            f"{moment.isoformat()} has no time zone.",
            moment.isoformat(),
            hint="Pass an aware datetime, for example datetime(2026, 4, 1, 9, 0, tzinfo=UTC).",
        )
    return moment.astimezone(UTC)


DurationOption = str | timedelta
TimeOption = str | datetime


class ScheduleOptions(TypedDict, total=False):
    """`name` is `target` or `target/schedule`, the function's own name by default; the rest is checked as in a file."""

    name: str
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
    first_run: Literal["now", "after_interval"]
    on_interrupt: Literal["skip", "retry"]
    adapt: Sequence[Mapping[str, Any]]


# Who a Python program acts for: the name that its beats, pauses and hints carry.


PROGRAM_ACTOR = "program"
"""Who triggers by itself. A machine, so what a person has paused or disabled stays so."""


def get_current_actor() -> str:
    """`human:you`: whoever runs the program. A container may not know its own user."""
    try:
        return f"human:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"human:{os.getuid()}"
