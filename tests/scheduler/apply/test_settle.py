"""A plan gives way to another, or to none: every instant up to then is accounted for by the plan it was due under."""

import asyncio
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.policies import Catchup
from herdbeat.scheduler import quarantine
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.evaluate import change_from_evaluation
from herdbeat.store.base import Transaction
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
CRONS = ["*/10 * * * *", "7 * * * *", "*/3 * * * *", "0 9-11 * * *"]


def put_away(herd: SimulatedHerd, label: str) -> None:
    """Into quarantine, as if its decision had raised."""
    standing = herd.snapshot(label)
    verdict = quarantine.quarantine_evaluation(herd.now, standing, "ValueError: no such zone")
    herd.store.write_now(lambda tx: tx.change_schedules([change_from_evaluation(verdict)]))


def account_for(herd: SimulatedHerd, *promises: CronExpectation) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        for promise in promises:
            check_cron(reader, promise)
            check_reasons(reader, promise.schedule)
        check_runs(reader)
    finally:
        reader.close()


async def test_an_edit_after_an_outage_counts_the_old_instants_by_the_old_calendar(tmp_path: Path) -> None:
    """Seen once: twelve instants of every ten minutes became three of every hour, and nine were in no row."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.advance(5 * MINUTE)

    async with open_herd(tmp_path, TEN + 125 * MINUTE) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.advance(HOUR)

        assert herd.outcomes("report") == [("missed", "scheduler_down", 12), ("ran", "", 1)]


async def test_an_apply_before_a_node_starts_finds_the_outage_too(tmp_path: Path) -> None:
    """`up` applies its files first, when the gap that ends with it is not yet in the ledger."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.advance(5 * MINUTE)
        herd.schedule("report", cron="0 * * * *")
        edited = herd.fleet("")

    apply_offline(tmp_path, lambda tx: apply_fleet(tx, edited, TEN + 125 * MINUTE))

    async with open_herd(tmp_path, TEN + 126 * MINUTE) as herd:
        assert [(beat.outcome, beat.reason, beat.count) for beat in herd.beats("report")] == [
            ("missed", "scheduler_down", 12)
        ]


async def test_an_edit_of_what_is_due_at_that_very_instant_runs_it_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.tick()
        herd.clock.advance(10 * MINUTE)

        herd.schedule("report", cron="*/5 * * * *")
        await herd.advance(5 * MINUTE)

        assert [(beat.due_at, beat.outcome) for beat in herd.beats("report")] == [
            (TEN + 10 * MINUTE, "ran"),
            (TEN + 15 * MINUTE, "ran"),
        ]


async def test_a_calendar_that_becomes_an_interval_runs_what_was_due_and_counts_from_there(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.tick()
        herd.clock.advance(10 * MINUTE)

        herd.schedule("report", every="20m")
        await herd.tick()

        assert herd.outcomes("report") == [("ran", "", 1)]
        assert herd.next_run("report") == TEN + 30 * MINUTE


async def test_an_edit_accounts_for_the_time_in_quarantine(tmp_path: Path) -> None:
    """Once only `reset` did so: after an edit, nothing said what had become of those instants."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.advance(5 * MINUTE)
        put_away(herd, "report")
        await herd.advance(HOUR)

        herd.schedule("report", cron="*/10 * * * *", priority=1)
        await herd.advance(10 * MINUTE)

        assert herd.outcomes("report") == [("skipped", "config_error", 6), ("ran", "", 1)]


async def test_a_pause_before_a_removal_is_in_the_history(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        herd.schedule("other", cron="*/10 * * * *")
        await herd.tick()
        herd.pause("report")
        await herd.advance(65 * MINUTE)

        herd.remove("report")
        await herd.tick()

        assert herd.outcomes("report") == [("skipped", "paused", 6)]


async def test_what_was_due_when_it_was_removed_is_expired_and_what_was_missed_before_is_missed(
    tmp_path: Path,
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        herd.schedule("other", cron="*/10 * * * *")
        await herd.advance(5 * MINUTE)

    async with open_herd(tmp_path, TEN + 60 * MINUTE) as herd:
        herd.schedule("other", cron="*/10 * * * *")
        await herd.tick()

        assert herd.outcomes("report") == [("missed", "scheduler_down", 5), ("skipped", "expired", 1)]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    old=st.sampled_from(CRONS),
    new=st.sampled_from(CRONS),
    catchup=st.sampled_from(Catchup),
    served=st.integers(0, 40),
    outage=st.integers(0, 300),
)
def test_no_instant_of_either_calendar_is_lost_or_doubled_over_an_edit(
    old: str, new: str, catchup: Catchup, served: int, outage: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_edited_over_an_outage(Path(folder), old, new, catchup, served, outage))


async def _edited_over_an_outage(folder: Path, old: str, new: str, catchup: Catchup, served: int, outage: int) -> None:
    async with open_herd(folder, TEN) as herd:
        herd.schedule("report", cron=old, catchup=catchup)
        await herd.advance(served * MINUTE)
    edited_at = TEN + (served + outage) * MINUTE

    async with open_herd(folder, edited_at) as herd:
        herd.schedule("report", cron=new, catchup=catchup)
        await herd.advance(HOUR)

        before, after = (
            CronExpectation("report", old, TEN, edited_at),
            CronExpectation("report", new, edited_at, herd.now),
        )
        account_for(herd, before, after)


def apply_offline(folder: Path, change: Callable[[Transaction], object]) -> None:
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    try:
        store.write_now(change)
    finally:
        store.close()


@pytest.mark.parametrize("catchup", list(Catchup))
async def test_an_interval_that_was_overdue_when_it_became_a_calendar_follows_its_catchup(
    tmp_path: Path, catchup: Catchup
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="10m", catchup=catchup)
        await herd.advance(5 * MINUTE)

    async with open_herd(tmp_path, TEN + HOUR + MINUTE) as herd:
        herd.schedule("pace", cron="0 * * * *", catchup=catchup)
        await herd.advance(MINUTE)

        fate = ("missed", "scheduler_down", 1) if catchup is Catchup.SKIP else ("ran", "", 1)
        assert herd.outcomes("pace") == [("ran", "", 1), fate]
        assert herd.next_run("pace") == TEN + 2 * HOUR
