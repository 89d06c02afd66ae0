"""Small fleets for tests of apply."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import CommandSpec, Origin, Target
from herdbeat.domain.trigger import Trigger
from herdbeat.errors import SourceLocation
from herdbeat.triggers import Interval

UTC = ZoneInfo("UTC")
POLICIES = Policies(zone=UTC, timeout=timedelta(hours=1), catchup=Catchup.ONCE)


def file_location(number: int) -> SourceLocation:
    return SourceLocation(file="herdbeat.yaml", line=number, column=3)


def make_schedule(
    label: str, every: str = "5m", *, origin: Origin | None = None, trigger: Trigger | None = None
) -> Schedule:
    target, _, name = label.partition("/")
    return Schedule(
        target=target,
        name=name or DEFAULT_SCHEDULE_NAME,
        trigger=trigger or Interval.parse(every),
        policies=POLICIES,
        origin=origin or file_location(1),
    )


def make_target(name: str, *, origin: Origin | None = None, command: str = "true") -> Target:
    spec = CommandSpec(command=(command,), working_directory="/")
    return Target(name=name, spec=spec, origin=origin or file_location(1))


def make_fleet(*schedules: Schedule, targets: tuple[Target, ...] | None = None) -> Fleet:
    """Return a fleet with the targets that the schedules need, unless others are given."""
    names = dict.fromkeys(each.target for each in schedules)
    found = tuple(make_target(name) for name in names) if targets is None else targets
    return Fleet(
        name="test", zone=UTC, targets=found, schedules=schedules, store="sqlite:x.db", server=ServerSettings()
    )
