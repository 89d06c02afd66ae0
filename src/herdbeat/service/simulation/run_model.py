"""How long simulated runs take, how often they fail, what they cost: recorded, given, or assumed by kind of target."""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import TargetKind
from herdbeat.errors import UsageError
from herdbeat.store.reader import Filter, Reader

V = TypeVar("V")

MAX_RECORDED_RUNS = 200
"""Runs of a schedule that are drawn from, the newest ones."""

ASSUMED_SPREAD = 0.5
"""The sigma of the log-normal distribution of assumed durations: one in twenty takes more than twice the median."""


class ProfileSource(StrEnum):
    """Where durations, failures and costs of a schedule come from."""

    RECORDED = "recorded"
    GIVEN = "given"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """One run as it happened, or as it is drawn."""

    duration: timedelta
    has_failed: bool
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProfile:
    """What runs of one schedule are drawn from. Recorded runs are drawn whole: slow ones are often the expensive ones.

    `duration` is exact if `is_exact`, else a median. A cost of None is not known, which is not 0.
    """

    duration: timedelta
    failure_rate: float
    usd: float | None
    source: ProfileSource = ProfileSource.ASSUMED
    is_exact: bool = False
    recorded: tuple[SimulatedRun, ...] = ()

    def draw(self, rng: random.Random) -> SimulatedRun:
        if self.recorded:
            return rng.choice(self.recorded)
        factor = 1.0 if self.is_exact else rng.lognormvariate(0.0, ASSUMED_SPREAD)
        return SimulatedRun(self.duration * factor, rng.random() < self.failure_rate, self.usd)


ASSUMED_PROFILES: Mapping[TargetKind, RunProfile] = {
    TargetKind.AGENT: RunProfile(duration=timedelta(minutes=3), failure_rate=0.02, usd=None),
    TargetKind.COMMAND: RunProfile(duration=timedelta(seconds=10), failure_rate=0.01, usd=0.0),
    TargetKind.ENDPOINT: RunProfile(duration=timedelta(seconds=1), failure_rate=0.01, usd=0.0),
    TargetKind.CALLABLE: RunProfile(duration=timedelta(seconds=1), failure_rate=0.01, usd=0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenValues:
    """What the user gives, by pattern of TARGET or TARGET/SCHEDULE; the last pattern that matches counts."""

    durations: Mapping[str, timedelta] = field(default_factory=dict)
    failure_rates: Mapping[str, float] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)

    def require_matches(self, labels: Iterable[str]) -> None:
        """Raises UsageError if a pattern names no schedule of the fleet."""
        known = list(labels)
        for pattern in (*self.durations, *self.failure_rates, *self.costs):
            if not any(_is_match(pattern, label) for label in known):
                message = f'"{pattern[:80]}" names no schedule of the fleet.'
                raise UsageError(
                    message, hint="Write TARGET, TARGET/SCHEDULE or a pattern such as web-*. See: herdbeat list"
                )

    def override(self, label: str, profile: RunProfile) -> RunProfile:
        duration = _find_last_match(self.durations, label)
        failure_rate = _find_last_match(self.failure_rates, label)
        usd = _find_last_match(self.costs, label)
        if duration is None and failure_rate is None and usd is None:
            return profile
        profile = _summarize(profile)
        return replace(
            profile,
            duration=profile.duration if duration is None else duration,
            is_exact=profile.is_exact if duration is None else True,
            failure_rate=profile.failure_rate if failure_rate is None else failure_rate,
            usd=profile.usd if usd is None else usd,
            source=ProfileSource.GIVEN,
        )


def build_profiles(fleet: Fleet, reader: Reader | None, given: GivenValues) -> dict[str, RunProfile]:
    """Return the profile of each schedule, by its id (`target/name`). `reader` reads the ledger with the history."""
    given.require_matches(schedule.id for schedule in fleet.schedules)
    kinds = {target.name: target.spec.kind for target in fleet.targets}
    profiles: dict[str, RunProfile] = {}
    for schedule in fleet.schedules:
        assumed = ASSUMED_PROFILES[kinds[schedule.target]]
        recorded = () if reader is None else _read_runs(reader, schedule.target, schedule.name)
        profile = replace(assumed, recorded=recorded, source=ProfileSource.RECORDED) if recorded else assumed
        profiles[schedule.id] = given.override(schedule.id, profile)
    return profiles


def _read_runs(reader: Reader, target: str, name: str) -> tuple[SimulatedRun, ...]:
    ended = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.TIMED_OUT)
    runs = reader.runs(Filter(target=target, name=name, limit=MAX_RECORDED_RUNS))
    return tuple(
        SimulatedRun(run.finished_at - run.started_at, run.status.is_failure, _read_usd(run.usage))
        for run in runs
        if run.status in ended and run.started_at is not None and run.finished_at is not None
    )


def _read_usd(usage: Mapping[str, object]) -> float | None:
    usd = usage.get("usd")
    return float(usd) if isinstance(usd, int | float) else None


def _summarize(profile: RunProfile) -> RunProfile:
    """Return the profile without its recorded runs, and with their typical values: some of them are replaced."""
    runs = profile.recorded
    if not runs:
        return profile
    costs = [run.usd for run in runs if run.usd is not None]
    seconds = [max(run.duration.total_seconds(), 1e-6) for run in runs]
    median = math.exp(sum(map(math.log, seconds)) / len(seconds))
    return replace(
        profile,
        recorded=(),
        duration=timedelta(seconds=median),
        failure_rate=sum(run.has_failed for run in runs) / len(runs),
        usd=sum(costs) / len(costs) if costs else profile.usd,
    )


def _is_match(pattern: str, schedule: str) -> bool:
    target = schedule.partition("/")[0]
    return fnmatchcase(schedule, pattern) or fnmatchcase(target, pattern)


def _find_last_match(values: Mapping[str, V], schedule: str) -> V | None:
    found = [value for pattern, value in values.items() if _is_match(pattern, schedule)]
    return found[-1] if found else None
