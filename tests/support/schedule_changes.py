"""Changes a herd as the commands in `service/commands` do, and reads what they left in the change log."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.policies import Limits
from herdbeat.service.commands.base import Actor, ScheduleChange, ScheduleCommand
from herdbeat.service.commands.dispatch import execute
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import SimulatedHerd

YOU, AGENT, RULE = "human:you", "agent:triage", "rule:surge"
ACTOR = Actor(name=YOU)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def apply_command(
    herd: SimulatedHerd, command: ScheduleCommand, *labels: str, who: str = YOU
) -> tuple[ScheduleChange, ...]:
    command = replace(command, schedules=tuple(herd.snapshot(label).id for label in labels))
    return herd.store.write_now(lambda tx: execute(tx, herd.now, Actor(name=who), command)).items


def apply_single_command(
    herd: SimulatedHerd, command: ScheduleCommand, label: str = "queue", *, who: str = YOU
) -> ScheduleChange:
    (done,) = apply_command(herd, command, label, who=who)
    return done


@contextmanager
def open_reader(herd: SimulatedHerd) -> Iterator[SqliteReader]:
    reader = SqliteReader(herd.store.path)
    try:
        yield reader
    finally:
        reader.close()


def list_changes(herd: SimulatedHerd, **wanted: object) -> list[Change]:
    with open_reader(herd) as reader:
        found = reader.changes(Filter(**wanted))  # type: ignore[arg-type]
    return [each for each in found if each.what is not ChangeKind.ADD]


def make_limits(at_least: int | None, at_most: int | None) -> Limits:
    low, high = (None if each is None else timedelta(seconds=each) for each in (at_least, at_most))
    return Limits(at_least=low, at_most=high)
