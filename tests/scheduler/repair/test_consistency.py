"""A ledger that was damaged: the scan finds what cannot be, puts it right, and the oracle is content."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.policies import Overlap
from herdbeat.scheduler.repair.consistency import Inconsistency, inspect, repair
from herdbeat.store.audit import SqliteAudit
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path, TEN) as herd:
        yield herd


def damage(herd: SimulatedHerd, statement: str, *values: object) -> None:
    connection = sqlite3.connect(herd.store.path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def scan(herd: SimulatedHerd) -> list[Inconsistency]:
    suspects = SqliteAudit(herd.store.path).find_inconsistencies(herd.now)
    return herd.store.write_now(lambda tx: repair(tx, herd.now, suspects))


def consult_the_oracle(herd: SimulatedHerd, schedule: str, expression: str) -> None:
    reader = SqliteReader(herd.store.path)
    check_cron(reader, CronExpectation(schedule, expression, TEN, herd.now))
    check_reasons(reader, schedule)
    check_runs(reader)
    reader.close()


async def test_a_consistent_ledger_has_no_findings(herd: SimulatedHerd) -> None:
    runner = ScriptedRunner(holds=True)
    herd.schedule("busy/first", every="5m", runner=runner)
    herd.schedule("busy/second", cron="*/5 * * * *")
    herd.schedule("wide/queue", cron="*/5 * * * *", overlap=Overlap.QUEUE, max_concurrent=2, runner=runner)
    herd.schedule("once", at="2026-03-02T10:01:00Z")
    herd.schedule("off", every="5m")
    await herd.advance(HOUR)

    found = scan(herd)

    assert found == []


async def test_a_cron_schedule_without_a_next_run_gets_it_back_and_loses_no_instant(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.advance(HOUR)
    damage(herd, "UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL")
    herd.clock.advance(HOUR)

    found = scan(herd)
    await herd.tick()

    assert found == [Inconsistency("report/default", "its next run was missing")]
    consult_the_oracle(herd, "report", "*/10 * * * *")
    assert scan(herd) == []


async def test_an_interval_without_a_next_run_runs_again(herd: SimulatedHerd) -> None:
    herd.schedule("pace", every="10m")
    await herd.tick()
    damage(herd, "UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL")
    herd.clock.advance(HOUR)

    scan(herd)
    await herd.tick()

    assert herd.outcomes("pace") == [("ran", "", 1), ("ran", "", 1)]


async def test_a_next_run_that_nothing_would_wake_is_woken(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.tick()
    damage(herd, "UPDATE schedule SET wake_at = NULL")

    found = scan(herd)
    await herd.advance(HOUR)

    assert [each.what for each in found] == ["it had no wake-up time for its next run"]
    consult_the_oracle(herd, "report", "*/10 * * * *")


async def test_counters_are_corrected_and_waiting_beats_start(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.tick()
    damage(herd, "UPDATE target SET running = 7")
    damage(herd, "UPDATE schedule SET running = 1, waiting = 3")

    found = scan(herd)
    await herd.advance(HOUR)

    assert {each.what.partition(" instead of ")[0] for each in found} == {
        "recorded 7 active runs",
        "recorded 1 active runs",
        "recorded 3 waiting beats",
    }
    assert herd.outcomes("report") == [("ran", "", 1)] * 6
    consult_the_oracle(herd, "report", "*/10 * * * *")


async def test_beats_that_wait_for_a_free_slot_are_woken(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.tick()
    damage(herd, "UPDATE target SET running = 1")
    await herd.advance(30 * MINUTE)
    assert herd.outcomes("report")[0] == ("pending", "at_capacity", 1)

    first, second = scan(herd), scan(herd)
    await herd.tick()

    assert [each.subject for each in first] == ["report"]
    assert second == [Inconsistency("report", "beats waited although capacity was free")]
    assert herd.outcomes("report")[0] == ("ran", "", 1)
    consult_the_oracle(herd, "report", "*/10 * * * *")


async def test_a_beat_that_waits_for_nothing_is_woken(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.advance(10 * MINUTE)
    damage(herd, "UPDATE beat SET outcome = 'pending', reason = '', wake_at = NULL, settled_at = NULL, attempt = 2")

    found = scan(herd)
    await herd.tick()

    assert found == [Inconsistency("report/default", "a beat waited although nothing blocked it")]
    assert herd.outcomes("report") == [("ran", "", 1)]


async def test_an_inspection_changes_nothing(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.tick()
    damage(herd, "UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL, running = 2")
    audit = SqliteAudit(herd.store.path)

    seen = audit.read_transaction(lambda tx: inspect(tx, herd.now, audit.find_inconsistencies(herd.now))).findings

    assert (
        seen == audit.read_transaction(lambda tx: inspect(tx, herd.now, audit.find_inconsistencies(herd.now))).findings
    )
    assert len(seen) == 2
    assert herd.snapshot("report").running == 2


async def test_a_plan_that_cannot_be_read_is_quarantined_before_it_is_due(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.tick()
    damage(herd, "UPDATE plan SET text = 'no json'")
    damage(herd, "UPDATE schedule SET wake_at = NULL")
    herd.store.write_now(lambda tx: tx._plan.cache_clear())  # type: ignore[attr-defined]

    found = scan(herd)

    assert "cannot be read" in found[0].what
    assert herd.snapshot("report").quarantine is not None


async def test_a_slot_that_the_woken_beat_cannot_take_goes_to_the_next(herd: SimulatedHerd) -> None:
    """Seen once: the woken beat waited for its own schedule, and the free slot stayed free until that run ended."""
    slow, other = ScriptedRunner(holds=True), ScriptedRunner(holds=True)
    herd.schedule("pair/slow", cron="0 * * * *", overlap=Overlap.QUEUE, priority=9, max_concurrent=2, runner=slow)
    herd.schedule("pair/other", cron="1 * * * *", max_concurrent=2, runner=other)
    herd.schedule("pair/third", cron="2 12 * * *", max_concurrent=2)
    await herd.advance(2 * HOUR + 3 * MINUTE)  # 11:00 runs slow, 11:01 other; 12:00 and 12:02 wait

    other.let_go()
    await herd.settle()
    await herd.tick()

    assert herd.outcomes("pair/third") == [("ran", "", 1)]
    assert herd.outcomes("pair/slow") == [("running", "", 1), ("pending", "already_running", 1)]


async def test_two_waiting_beats_of_one_schedule_that_start_together_are_both_counted(herd: SimulatedHerd) -> None:
    first, wide = ScriptedRunner(holds=True), ScriptedRunner(holds=True)
    herd.schedule("wide/first", cron="0 * * * *", priority=1, max_concurrent=2, overlap=Overlap.ALLOW, runner=first)
    herd.schedule("wide/all", cron="30 * * * *", overlap=Overlap.ALLOW, max_concurrent=2, runner=wide)
    await herd.advance(20 * MINUTE)
    damage(herd, "UPDATE target SET running = 2")
    await herd.advance(3 * HOUR)  # everything waits
    scan(herd)

    scan(herd)
    await herd.tick()

    assert scan(herd) == []
    assert sum(herd.snapshot(label).running for label in ("wide/first", "wide/all")) == 2


async def test_of_two_beats_woken_for_two_slots_the_one_that_cannot_start_leaves_its_slot_to_the_next(
    herd: SimulatedHerd,
) -> None:
    fill, first = ScriptedRunner(holds=True), ScriptedRunner(holds=True)
    herd.schedule("pair/fill", cron="1,2 10 * * *", overlap=Overlap.ALLOW, max_concurrent=2, runner=fill)
    herd.schedule(
        "pair/first", cron="5,6 10 * * *", overlap=Overlap.QUEUE_ALL, priority=9, max_concurrent=2, runner=first
    )
    herd.schedule("pair/next", cron="7 10 * * *", max_concurrent=2)
    await herd.advance(10 * MINUTE)

    fill.let_go()
    await herd.settle()
    await herd.tick()

    assert herd.outcomes("pair/first") == [("running", "", 1), ("pending", "already_running", 1)]
    assert herd.outcomes("pair/next") == [("ran", "", 1)]
