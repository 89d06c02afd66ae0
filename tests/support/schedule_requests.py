"""Requests to a herd: skip, cancel, retry, backfill. And the oracle for one cron schedule."""

from datetime import datetime

from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.scheduler.backfill import BackfillResult, BackfillWindow, enqueue_backfill, iterate_instants
from herdbeat.scheduler.control import SkipNextResult, set_skip_next
from herdbeat.scheduler.manual import RetryResult, retry_run
from herdbeat.scheduler.pending import cancel_pending
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import SimulatedHerd

YOU = "human:you"


def skip_next(herd: SimulatedHerd, label: str, count: int = 1) -> SkipNextResult:
    number = herd.snapshot(label).id
    return herd.store.write_now(lambda tx: set_skip_next(tx, number, count, by=YOU, reason="holiday"))


def cancel_pending_beats(herd: SimulatedHerd, label: str) -> int:
    number = herd.snapshot(label).id
    return len(herd.store.write_now(lambda tx: cancel_pending(tx, herd.now, [number])).get(number, ()))


def request_retry(herd: SimulatedHerd, run_id: int, *, force: bool = False) -> RetryResult:
    retried = herd.store.write_now(lambda tx: retry_run(tx, herd.now, run_id, by=YOU, force=force))
    assert retried is not None
    return retried


def backfill_range(herd: SimulatedHerd, label: str, start: datetime, end: datetime, rate: float = 10) -> BackfillResult:
    standing = herd.snapshot(label)
    instants = tuple(iterate_instants(standing.plan, BackfillWindow(start=start, end=end)))
    return herd.store.write_now(lambda tx: enqueue_backfill(tx, herd.now, standing.id, instants, origin=YOU, rate=rate))


def list_runs(herd: SimulatedHerd, label: str) -> list[tuple[int, str, str]]:
    """Return attempt, status and source of its runs, oldest first."""
    target, _, name = label.partition("/")
    reader = SqliteReader(herd.store.path)
    try:
        found = reader.runs(Filter(target=target, name=name or "default", limit=1_000))
        return [(run.attempt, run.status.value, run.source.value) for run in reversed(found)]
    finally:
        reader.close()


def check_against_oracle(herd: SimulatedHerd, label: str, expression: str, since: datetime) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronExpectation(label, expression, since, herd.now))
        check_reasons(reader, label)
        check_runs(reader)
    finally:
        reader.close()
