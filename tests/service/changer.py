"""Changing a herd as `service/changing` does, and reading what it left in the record."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from herdbeat.domain.change import Change, What
from herdbeat.domain.policies import Limits
from herdbeat.service.acts import Act
from herdbeat.service.changing import Changed, change
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import Herd

YOU, AGENT, RULE = "human:you", "agent:triage", "rule:surge"
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def do(herd: Herd, act: Act, *labels: str) -> list[Changed]:
    ids = [herd.standing(label).id for label in labels]
    return herd.store.write_now(lambda tx: change(tx, herd.now, act, ids))


def do_one(herd: Herd, act: Act, label: str = "queue") -> Changed:
    (done,) = do(herd, act, label)
    return done


@contextmanager
def reading(herd: Herd) -> Iterator[SqliteReader]:
    reader = SqliteReader(herd.store.path)
    try:
        yield reader
    finally:
        reader.close()


def changes(herd: Herd, **wanted: object) -> list[Change]:
    with reading(herd) as reader:
        found = reader.changes(Filter(**wanted))  # type: ignore[arg-type]
    return [each for each in found if each.what is not What.ADD]


def limits(at_least: int | None, at_most: int | None) -> Limits:
    low, high = (None if each is None else timedelta(seconds=each) for each in (at_least, at_most))
    return Limits(at_least=low, at_most=high)
