"""What a person asks of a herd: let pass, call off, run again, fill in. And the oracle, asked about one cron."""

from datetime import datetime

from tests.oracle import CronPromise, check_cron, check_reasons, check_runs

from herdbeat.scheduler.backfill import Filled, Window, backfill, instants_in
from herdbeat.scheduler.call_off import call_off
from herdbeat.scheduler.retry import Retried, retry
from herdbeat.scheduler.skip import Skipping, skip
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import Herd

YOU = "human:you"


def skip_next(herd: Herd, label: str, count: int = 1) -> Skipping:
    number = herd.standing(label).id
    return herd.store.write_now(lambda tx: skip(tx, number, count, by=YOU, reason="holiday"))


def call_off_waiting(herd: Herd, label: str) -> int:
    number = herd.standing(label).id
    return len(herd.store.write_now(lambda tx: call_off(tx, herd.now, [number])).get(number, ()))


def run_again(herd: Herd, run_id: int, *, force: bool = False) -> Retried:
    retried = herd.store.write_now(lambda tx: retry(tx, herd.now, run_id, by=YOU, force=force))
    assert retried is not None
    return retried


def fill_in(herd: Herd, label: str, start: datetime, end: datetime, rate: float = 10) -> Filled:
    standing = herd.standing(label)
    instants = tuple(instants_in(standing.plan, Window(start=start, end=end)))
    return herd.store.write_now(lambda tx: backfill(tx, herd.now, standing.id, instants, origin=YOU, rate=rate))


def runs_of(herd: Herd, label: str) -> list[tuple[int, str, str]]:
    """Attempt, status and source of its runs, oldest first."""
    target, _, name = label.partition("/")
    reader = SqliteReader(herd.store.path)
    try:
        found = reader.runs(Filter(target=target, name=name or "default", limit=1_000))
        return [(run.attempt, run.status.value, run.source.value) for run in reversed(found)]
    finally:
        reader.close()


def consult_the_oracle(herd: Herd, label: str, expression: str, since: datetime) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronPromise(label, expression, since, herd.now))
        check_reasons(reader, label)
        check_runs(reader)
    finally:
        reader.close()
