"""The life of a schedule in the engine: nothing before `starts_at`, nothing past `ends_at`, no more than `max_runs`."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.scheduler.test_active_hours import OFFICE
from tests.support.oracle import CronExpectation, check_cron, check_reasons

from herdbeat.domain.policies import Bounds, Catchup, Jitter, Overlap
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def state(herd: SimulatedHerd, label: str) -> DisplayState:
    reader = SqliteReader(herd.store.path)
    try:
        (record,) = reader.schedules(Filter(target=label))
        return resolve_condition(record, herd.now).state
    finally:
        reader.close()


async def test_nothing_is_due_before_the_start_and_the_start_itself_is(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - 2 * HOUR) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", bounds=Bounds(starts_at=TEN), runner=runner)

        await herd.advance(3 * HOUR)

        assert [claim.due_at for claim in runner.runs] == [TEN, TEN + HOUR]
        assert herd.outcomes("report") == [("ran", "", 1), ("ran", "", 1)]


async def test_the_instant_of_the_end_runs_and_the_next_one_does_not_exist(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", bounds=Bounds(ends_at=TEN + HOUR), runner=runner)

        await herd.advance(5 * HOUR)

        assert [claim.due_at for claim in runner.runs] == [TEN, TEN + HOUR]
        assert herd.next_run("report") is None
        assert state(herd, "report") is DisplayState.DONE


async def test_a_beat_that_waits_for_room_at_the_end_is_expired(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        busy, late = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", cron="0 10 * * *", runner=busy)
        herd.schedule("worker/late", cron="30 10 * * *", bounds=Bounds(ends_at=TEN + HOUR), runner=late)

        await herd.advance(62 * MINUTE)

        assert herd.outcomes("worker/late") == [("skipped", "expired", 1)]
        assert herd.beats("worker/late")[0].settled_at == TEN + HOUR + timedelta(microseconds=1)
        busy.let_go()
        await herd.tick()
        assert late.runs == []


async def test_instants_past_the_end_of_an_outage_are_not_missed(tmp_path: Path) -> None:
    bounds = Bounds(ends_at=TEN + 2 * HOUR)
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        herd.schedule("report", cron="0 * * * *", bounds=bounds)
        await herd.tick()

    async with open_herd(tmp_path, TEN + 5 * HOUR + MINUTE) as herd:
        herd.schedule("report", cron="0 * * * *", bounds=bounds)
        await herd.tick()

        assert herd.outcomes("report") == [("missed", "scheduler_down", 3)]  # 10:00, 11:00 and 12:00
        assert herd.next_run("report") is None


async def test_a_catch_up_past_the_end_is_expired(tmp_path: Path) -> None:
    bounds = Bounds(ends_at=TEN + 2 * HOUR)
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        herd.schedule("report", cron="0 * * * *", bounds=bounds, catchup=Catchup.ONCE)
        await herd.tick()

    async with open_herd(tmp_path, TEN + 5 * HOUR + MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", bounds=bounds, catchup=Catchup.ONCE, runner=runner)
        await herd.advance(MINUTE)

        assert runner.runs == []
        assert herd.outcomes("report") == [("merged", "once", 2), ("skipped", "expired", 1)]


async def test_jitter_does_not_lose_the_last_instant(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner()
        bounds = Bounds(ends_at=TEN + HOUR)
        herd.schedule("report", cron="0 * * * *", bounds=bounds, jitter=Jitter(span=50 * MINUTE), runner=runner)

        await herd.advance(5 * HOUR)

        assert [claim.due_at for claim in runner.runs] == [TEN, TEN + HOUR]


async def test_max_runs_are_counted_by_beats_and_not_by_attempts(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=2)
        herd.schedule("api", every="5m", bounds=Bounds(max_runs=3), runner=runner)

        await herd.advance(3 * HOUR)

        assert len(runner.runs) == 3
        assert herd.next_run("api") is None
        assert state(herd, "api") is DisplayState.DONE


async def test_a_long_run_does_not_let_more_start_than_max_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule(
            "report",
            cron="0 * * * *",
            bounds=Bounds(max_runs=2),
            overlap=Overlap.ALLOW,
            max_concurrent=9,
            runner=runner,
        )

        await herd.advance(4 * HOUR)

        assert len(runner.runs) == 2
        assert herd.outcomes("report") == [("running", "", 1), ("running", "", 1), ("skipped", "expired", 2)]
        runner.let_go()
        await herd.settle()
        assert herd.next_run("report") is None


async def test_a_run_by_hand_is_not_one_of_max_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="5m", bounds=Bounds(max_runs=1), runner=runner)
        await herd.advance(HOUR)

        number = herd.snapshot("api").id
        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))
        await herd.tick()

        assert [claim.source for claim in runner.runs] == ["first-run", "manual"]
        assert herd.next_run("api") is None


async def test_a_declined_beat_is_not_one_of_max_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(declines=1)
        herd.schedule("api", every="5m", bounds=Bounds(max_runs=1), runner=runner)

        await herd.advance(HOUR)

        assert herd.outcomes("api") == [("skipped", "precheck", 1), ("ran", "", 1)]


async def test_a_night_that_lasts_until_the_end_has_its_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        end = TEN + 17 * HOUR  # 03:00
        herd.schedule("report", cron="0 * * * *", active_hours=OFFICE, bounds=Bounds(ends_at=end))

        await herd.advance(30 * HOUR)

        assert herd.outcomes("report")[-1] == ("skipped", "inactive_hours", 6)
        reader = SqliteReader(herd.store.path)
        check_cron(reader, CronExpectation("report", "0 * * * *", TEN, end))
        check_reasons(reader, "report")
        reader.close()
