"""From a fleet to the ledger: what an edit may touch while the schedule is at work."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.policies import Budget, Overlap, Retry
from herdbeat.testing.herd import ScriptedRunner, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def test_an_edit_while_an_interval_runs_leaves_its_next_time_to_the_completion(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("pace", every="5m", runner=runner)
        await herd.tick()

        herd.schedule("pace", every="20m", overlap=Overlap.QUEUE, runner=runner)
        await herd.tick()
        during = herd.next_run("pace"), herd.snapshot("pace").waiting
        runner.let_go()
        await herd.settle()

        assert during == (None, 0)
        assert herd.next_run("pace") == TEN + 20 * MINUTE
        assert herd.outcomes("pace") == [("ran", "", 1)]


async def test_an_edit_from_interval_to_cron_while_it_runs_has_a_next_time_at_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("pace", every="5m", runner=runner)
        await herd.tick()

        herd.schedule("pace", cron="30 * * * *", runner=runner)

        assert herd.next_run("pace") == TEN + 30 * MINUTE


async def test_a_retry_that_finds_no_room_is_not_counted_as_waiting(tmp_path: Path) -> None:
    """Seen once: the counter fell below zero, because a retry lost its reason when it had to wait for a slot."""
    async with open_herd(tmp_path, TEN) as herd:
        blocker = ScriptedRunner(holds=True)
        herd.schedule(
            "busy/fails", every="1h", retry=Retry(attempts=2, wait=2 * MINUTE), runner=ScriptedRunner(fails=1)
        )
        herd.schedule("busy/blocks", cron="1 * * * *", runner=blocker)
        await herd.advance(5 * MINUTE)
        assert herd.outcomes("busy/fails") == [("pending", "at_capacity", 1)]

        blocker.let_go()
        await herd.settle()
        await herd.tick()

        assert herd.outcomes("busy/fails") == [("ran", "", 1)]
        assert herd.snapshot("busy/fails").waiting == 0


async def test_a_target_that_comes_back_does_not_find_its_old_budget(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m")
        herd.share(Budget(runs_per_day=1), "api")
        snapshot = herd.snapshot("api")
        target_id = snapshot.target_id
        herd.store.write_now(lambda tx: tx.remove_schedules([snapshot.id], TEN))
        herd.store.write_now(lambda tx: tx.remove_targets([target_id], TEN))

        herd.share(None, "api")
        herd.snapshot("api")

        assert herd.store.write_now(lambda tx: tx.budgets([target_id])) == {}


async def test_failures_of_the_old_configuration_do_not_delay_the_new_one(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("api", every="10m", runner=runner)
        await herd.tick()
        assert (herd.snapshot("api").failures, herd.next_run("api")) == (1, TEN + 20 * MINUTE)

        herd.schedule("api", every="15m", runner=runner)
        await herd.tick()

        assert (herd.snapshot("api").failures, herd.next_run("api")) == (0, TEN + 15 * MINUTE)


async def test_a_corrected_configuration_does_not_wait_for_the_retry_of_the_old_one(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("api", every="6h", retry=Retry(attempts=2, wait=2 * timedelta(hours=1)), runner=runner)
        await herd.tick()
        assert herd.outcomes("api") == [("pending", "retry", 1)]

        herd.schedule("api", every="5h", retry=Retry(attempts=2, wait=2 * timedelta(hours=1)), runner=runner)
        await herd.tick()

        assert herd.outcomes("api") == [("ran", "", 1)]
