"""What is too old or too much goes; what is open, young or needed stays; and nothing that went fires again."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.fleet import Retention
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.policies import Budget
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.service.commands.base import PruneResult
from herdbeat.service.maintenance.retention import count_prunable, prune_history
from herdbeat.store.audit import SqliteAudit
from herdbeat.store.base import Transaction
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MONTH = Retention(age=30 * DAY, beats=10_000)


def spent(number: int, day: str, tx: Transaction) -> int:
    """Runs of a schedule that the ledger has counted on a day."""
    account = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, number), day)
    return tx.budget_get_usage([account])[account].runs


async def pruned(herd: SimulatedHerd, retention: Retention) -> PruneResult:
    audit = SqliteAudit(herd.store.path)
    foreseen = count_prunable(audit, retention, herd.now)
    done = await prune_history(herd.store, audit, retention, herd.now)
    assert replace(done, logs=0) == foreseen  # the dry run says what really happens
    return done


async def test_beats_older_than_the_age_go_with_their_runs_and_nothing_old_fires_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.schedule("pace", every="6h")
        herd.schedule("once", at="2026-03-02T11:30:00Z")
        await herd.advance(40 * DAY)
        before = {label: len(herd.beats(label)) for label in ("report", "pace", "once")}

        done = await pruned(herd, MONTH)
        after = {label: len(herd.beats(label)) for label in before}
        await herd.tick()

        assert done.beats == done.runs == sum(before.values()) - sum(after.values()) > 240
        assert after["once"] == 0
        assert min(beat.due_at for beat in herd.beats("report")) >= herd.now - 30 * DAY
        assert {label: len(herd.beats(label)) for label in before} == after  # nothing came back

    async with open_herd(tmp_path, TEN + 40 * DAY + HOUR / 2) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.schedule("pace", every="6h")
        herd.schedule("once", at="2026-03-02T11:30:00Z")
        await herd.tick()

        assert {label: len(herd.beats(label)) for label in before} == after  # also not for a new node


async def test_each_schedule_keeps_its_newest_beats(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("often", cron="*/5 * * * *")
        herd.schedule("seldom", cron="0 * * * *")
        await herd.advance(10 * HOUR)

        await pruned(herd, Retention(age=30 * DAY, beats=50))

        assert len(herd.beats("often")) == 50
        assert herd.beats("often")[-1].due_at == herd.now
        assert len(herd.beats("seldom")) == 10


async def test_pending_and_running_beats_stay_however_old(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("busy/first", every="5m", runner=ScriptedRunner(holds=True))
        herd.schedule("busy/second", every="5m")
        await herd.tick()
        herd.clock.advance(100 * DAY)

        done = await pruned(herd, Retention(age=DAY, beats=1))

        assert done.beats == 0
        assert herd.outcomes("busy/first") == [("running", "", 1)]
        assert herd.outcomes("busy/second") == [("pending", "at_capacity", 1)]


async def test_events_and_delays_stay_a_week_whatever_the_count(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("agent", every="1d")
        herd.schedule("once", at="2026-03-02T10:00:00Z")
        number = herd.snapshot("agent").id
        for event in "abc":
            herd.store.write_now(
                lambda tx, event=event: enqueue_manual(
                    tx, herd.now, number, origin="cli:ada", event_id=event, queue=True
                )  # type: ignore[misc]
            )
        await herd.advance(6 * DAY)

        await pruned(herd, Retention(age=HOUR, beats=1))
        young = [beat.source for beat in herd.beats("agent")].count(Source.MANUAL), len(herd.beats("once"))
        await herd.advance(2 * DAY)
        await pruned(herd, Retention(age=HOUR, beats=1))
        old = [beat.source for beat in herd.beats("agent")].count(Source.MANUAL), len(herd.beats("once"))

        assert young == (3, 1)
        assert old == (0, 0)


async def test_a_row_that_could_still_grow_begins_anew_when_it_is_gone(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *", runner=ScriptedRunner(holds=True))
        await herd.advance(3 * HOUR)
        connection = sqlite3.connect(herd.store.path, isolation_level=None)
        connection.execute("UPDATE schedule SET next_run_at = NULL, wake_at = NULL")  # quiet for a long time
        connection.close()
        herd.schedule("other", every="1d")
        herd.clock.advance(60 * DAY)
        await herd.tick()
        assert herd.snapshot("report").tail_id is not None

        await pruned(herd, MONTH)

        assert herd.snapshot("report").tail_id is None


async def test_ids_go_on_counting_after_everything_is_gone(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.advance(10 * HOUR)
        newest = herd.beats("report")[-1]
        herd.clock.advance(100 * DAY)
        await pruned(herd, MONTH)

    async with open_herd(tmp_path, TEN + 101 * DAY) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.advance(HOUR)

        assert all(beat.id > newest.id for beat in herd.beats("report") if beat.due_at > newest.due_at)
        assert max(herd.beats("report")[-1].runs) > max(newest.runs)


async def test_plans_that_no_schedule_has_and_hints_that_have_ended_go_too(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        for minute in range(5):
            herd.schedule("report", cron=f"{minute} * * * *")
            await herd.tick()
        connection = sqlite3.connect(herd.store.path, isolation_level=None)
        connection.execute(
            "INSERT INTO hint (schedule_id, origin, expires_at, created_at, ended_at) VALUES (1,'x',1,1,1)"
        )
        connection.close()

        done = await pruned(herd, MONTH)

        assert done.plans == 4
        assert done.hints == 1


async def test_logs_go_with_their_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.advance(3 * HOUR)
        folder = tmp_path / "logs" / "2026-03-02"
        folder.mkdir(parents=True)
        for run_id in (1, 2, 3, 4_711):
            (folder / f"{format_short_id(run_id)}.jsonl").write_text("{}")

        surplus = await pruned(herd, Retention(age=30 * DAY, beats=2))
        left = len(list(folder.iterdir()))
        herd.clock.advance(60 * DAY)
        await pruned(herd, MONTH)

        assert surplus.logs == 1
        assert left == 3
        assert not folder.exists()


async def test_the_record_of_changes_goes_when_it_is_too_old(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("queue", every="1h")
        await herd.tick()
        herd.clock.advance(40 * DAY)
        fresh = Change(at=herd.now, who="human:you", what=ChangeKind.PAUSE, subject="queue/default")
        herd.store.write_now(lambda tx: tx.add_changes([fresh] * 3))

        done = await pruned(herd, MONTH)

        reader = SqliteReader(herd.store.path)
        left = reader.changes(Filter())
        reader.close()
        assert done.changes == 2  # the target and its schedule, which were added then
        assert [each.at for each in left] == [herd.now] * 3


async def test_spend_of_old_days_is_deleted(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe", every="6h", budget=Budget(runs_per_day=9))
        await herd.advance(40 * DAY)
        number = herd.snapshot("scribe").id
        days = [(herd.now - age).date().isoformat() for age in (31 * DAY, 29 * DAY)]

        await pruned(herd, MONTH)

        old, young = (herd.store.write_now(partial(spent, number, day)) for day in days)
        assert (old, young) == (0, 4)


async def test_a_node_is_forgotten_when_it_is_gone_and_no_run_speaks_of_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.advance(HOUR)
    async with open_herd(tmp_path, TEN + 2 * HOUR) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.advance(40 * DAY)
        before = await herd.store.write(lambda tx: tx.join_node("here", 1, "test", herd.now))

        await pruned(herd, MONTH)

        reader = SqliteReader(herd.store.path)
        kept = [each.id for each in reader.nodes(10)]
        reader.close()
        assert kept == [before, before - 1]  # the newest, and the one whose runs are still there
