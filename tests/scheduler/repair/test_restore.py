"""A ledger out of a backup: what was open is closed, and nothing of the past fires."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.policies import Retry
from herdbeat.notify.episodes import build_notification
from herdbeat.scheduler.repair.restore import end_deliveries, interrupt_open_runs, reschedule_all, settle_pending
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def restore(herd: SimulatedHerd, now: datetime) -> None:
    while herd.store.write_now(lambda tx: interrupt_open_runs(tx, now)):
        pass
    while herd.store.write_now(lambda tx: settle_pending(tx, now)):
        pass
    assert herd.store.write_now(lambda tx: reschedule_all(tx, now, 0)) is None


async def test_what_was_due_is_missed_and_the_next_time_lies_ahead(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.snapshot("report")

        restore(herd, TEN + 3 * HOUR)

        assert herd.outcomes("report") == [("missed", "restored", 3)]
        assert herd.next_run("report") == TEN + 4 * HOUR


async def test_a_waiting_beat_is_missed_and_one_that_has_run_before_ran(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("scan/first", every="1d", runner=busy)
        herd.schedule("scan/second", every="1d")
        again = Retry(attempts=2, wait=HOUR)
        herd.schedule("flaky", every="1d", retry=again, runner=ScriptedRunner(fails=1))
        await herd.tick()

        herd.store.write_now(lambda tx: settle_pending(tx, TEN + MINUTE))

        assert herd.outcomes("scan/second") == [("missed", "restored", 1)]
        assert herd.outcomes("flaky") == [("ran", "", 1)]
        assert herd.snapshot("scan/second").waiting == 0


async def test_a_schedule_that_cannot_be_decided_is_quarantined_and_the_others_go_on(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("broken", cron="0 * * * *")
        herd.schedule("sound", cron="0 * * * *")
        number = herd.snapshot("broken").id
        with sqlite3.connect(herd.store.path) as connection:
            connection.execute("INSERT INTO plan (text) VALUES ('no json')")
            connection.execute("UPDATE schedule SET plan_id = (SELECT max(id) FROM plan) WHERE id = ?", (number,))
        connection.close()

        restore(herd, TEN + HOUR)

        assert herd.outcomes("broken") == [("skipped", "config_error", 1)]
        assert herd.outcomes("sound") == [("missed", "restored", 1)]
        assert "cannot be read" in (herd.snapshot("broken").quarantine or "")


async def test_what_is_off_stays_as_it_is(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.disable("report")

        restore(herd, TEN + HOUR)

        assert herd.next_run("report") is None
        assert herd.outcomes("report") == []


async def test_a_message_of_the_backup_is_not_sent_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        message = build_notification("ops", "failing:1", {"text": "it fails"}, name="failing")
        herd.store.write_now(lambda tx: tx.outbox_add([message], TEN))

        ended = herd.store.write_now(lambda tx: end_deliveries(tx, TEN + HOUR))

        taken = herd.store.write_now(
            lambda tx: tx.outbox_take(TEN + 2 * HOUR, TEN + 3 * HOUR, fence=1, host="", limit=9, is_alone=True)
        )
        assert (ended, taken) == (1, [])
