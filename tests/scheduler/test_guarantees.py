"""What the engine must hold, promise by promise; each ends with the oracle."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.policies import Catchup, OnInterrupt, Overlap
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def consult_the_oracle(herd: SimulatedHerd, *promises: CronExpectation) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        for promise in promises:
            check_cron(reader, promise)
            check_reasons(reader, promise.schedule)
        check_runs(reader)
    finally:
        reader.close()


async def test_a_long_run_of_one_agent_leaves_the_lateness_of_another_unchanged(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        slow, quick = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("slow", cron="0 10 * * *", runner=slow)
        herd.schedule("quick", cron="* * * * *", runner=quick)

        await herd.advance(11 * MINUTE)

        assert [claim.due_at for claim in quick.runs] == [TEN + minute * MINUTE for minute in range(11)]
        consult_the_oracle(herd, CronExpectation("quick", "* * * * *", TEN - MINUTE, herd.now))


async def test_max_concurrent_three_really_runs_three(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runners = [ScriptedRunner(holds=True) for _ in range(5)]
        for number, runner in enumerate(runners):
            herd.schedule(f"worker/{number}", cron="0 10 * * *", runner=runner, max_concurrent=3)

        await herd.advance(2 * MINUTE)

        assert sum(len(runner.runs) for runner in runners) == 3
        for runner in runners[:3]:
            runner.let_go()
        await herd.tick()
        assert sum(len(runner.runs) for runner in runners) == 5


async def test_the_highest_priority_and_then_the_longest_wait_starts_first(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        busy = ScriptedRunner(holds=True)
        early, late, urgent = ScriptedRunner(holds=True), ScriptedRunner(holds=True), ScriptedRunner(holds=True)
        herd.schedule("worker/busy", cron="0 10 * * *", runner=busy)
        herd.schedule("worker/early", cron="1 10 * * *", runner=early)
        herd.schedule("worker/late", cron="2 10 * * *", runner=late)
        herd.schedule("worker/urgent", cron="3 10 * * *", runner=urgent, priority=5)
        await herd.advance(5 * MINUTE)

        order = []
        for runner in (busy, urgent, early):
            runner.let_go()
            await herd.tick()
            order.append([name for name, each in (("early", early), ("late", late), ("urgent", urgent)) if each.runs])

        assert order == [["urgent"], ["early", "urgent"], ["early", "late", "urgent"]]


async def test_a_failed_run_shows_its_error_on_the_schedule(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m", runner=ScriptedRunner(fails=1))
        await herd.tick()
        reader = SqliteReader(herd.store.path)

        from herdbeat.store.reader import Filter

        (record,) = reader.schedules(Filter(target="api"))

        assert (record.last_status, record.last_error, record.failures) == ("failed", "it was told to fail", 1)
        await herd.advance(10 * MINUTE)
        (record,) = reader.schedules(Filter(target="api"))
        assert (record.last_status, record.last_error, record.failures) == ("succeeded", None, 0)
        reader.close()


async def test_a_run_whose_node_died_is_interrupted_and_neither_a_failure_nor_repeated(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("api", every="5m", runner=runner)
        await herd.tick()

        herd.store.write_now(
            lambda tx: register_node(tx, herd.now + MINUTE, NodeInfo(host="other", pid=2, version="test"))
        )

        standing = herd.snapshot("api")
        assert (standing.running, standing.failures) == (0, 0)
        assert standing.next_run_at == TEN + 6 * MINUTE  # an interrupted interval counts from the sweep
        assert herd.outcomes("api") == [("ran", "", 1)]


async def test_an_interrupted_beat_is_retried_with_on_interrupt_retry(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("api", every="5m", runner=runner, on_interrupt=OnInterrupt.RETRY)
        await herd.tick()
        herd.store.write_now(lambda tx: register_node(tx, herd.now, NodeInfo(host="other", pid=2, version="test")))

        await herd.tick()

        assert [claim.attempt for claim in runner.runs] == [1, 2]
        assert len({claim.beat_id for claim in runner.runs}) == 1


@pytest.mark.parametrize(
    ("night", "expected"),
    [
        ("2026-03-28", ["01:30", "01:00", "00:30"]),  # UTC: 02:30 CET, 03:00 CEST after the gap, 02:30 CEST
        ("2026-10-24", ["00:30", "00:30", "01:30"]),  # 02:30 CEST, the first 02:30 of two, 02:30 CET
    ],
)
async def test_the_nights_when_clocks_change_have_one_beat_each(
    tmp_path: Path, night: str, expected: list[str]
) -> None:
    start = datetime.fromisoformat(f"{night}T00:00:00+00:00")
    async with open_herd(tmp_path, start) as herd:
        runner = ScriptedRunner()
        herd.schedule("backup", cron="30 2 * * *", zone="Europe/Berlin", runner=runner)

        await herd.advance(timedelta(days=3))

        assert [f"{claim.due_at:%H:%M}" for claim in runner.runs] == expected


async def test_an_edit_never_fires_the_past(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 12 * * *", runner=runner)
        await herd.advance(30 * MINUTE)

        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(HOUR)

        assert [claim.due_at.hour for claim in runner.runs] == [11]


async def test_an_edit_while_it_runs_takes_effect_after_the_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("api", every="5m", runner=runner)
        await herd.tick()
        herd.schedule("api", every="1h", runner=runner)
        await herd.tick()
        assert len(runner.runs) == 1

        runner.let_go()
        await herd.tick()

        assert herd.next_run("api") == herd.now + HOUR


async def test_cancel_stops_the_earlier_run_and_takes_its_place(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner, overlap=Overlap.CANCEL)
        await herd.advance(2 * MINUTE)

        await herd.advance(HOUR)

        assert [claim.due_at.hour for claim in runner.runs] == [10, 11]
        assert herd.snapshot("report").running == 1
        consult_the_oracle(herd, CronExpectation("report", "0 * * * *", TEN - MINUTE, herd.now))


async def test_all_of_a_hundred_thousand_missed_instants_are_capped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="* * * * *", runner=runner, catchup=Catchup.ALL, catchup_max=3)
        await herd.tick()
        herd.clock.suspend(timedelta(days=70))

        await herd.advance(MINUTE)

        caught_up = [claim for claim in runner.runs if claim.source == "catch-up"]
        assert len(caught_up) <= 3
        consult_the_oracle(herd, CronExpectation("report", "* * * * *", TEN, herd.now))


async def test_a_listener_that_fails_does_not_stop_the_fleet(tmp_path: Path) -> None:
    def broken(event: object) -> None:
        raise BrokenPipeError

    async with open_herd(tmp_path, TEN, listener=broken) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="5m", runner=runner)

        await herd.advance(20 * MINUTE)

        assert len(runner.runs) == 5
