"""Taking over what another scheduler remembers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.scheduler.control import ImportedState, ImportOutcome, import_state
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def take(herd: SimulatedHerd, label: str, memory: ImportedState) -> ImportOutcome:
    number = herd.snapshot(label).id
    return herd.store.write_now(lambda tx: import_state(tx, herd.now, number, memory, "human:you"))


async def test_an_interval_counts_from_the_last_run_in_the_other_scheduler(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="1h")

        fate = take(herd, "pace", ImportedState(last_run_at=TEN - HOUR / 4))

        assert fate is ImportOutcome.TAKEN
        assert herd.next_run("pace") == TEN + HOUR * 3 / 4


async def test_an_interval_that_is_overdue_runs_once_and_now(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="1h")
        take(herd, "pace", ImportedState(last_run_at=TEN - 30 * HOUR))

        await herd.tick()

        assert herd.outcomes("pace") == [("ran", "", 1)]
        assert herd.next_run("pace") == TEN + HOUR


async def test_a_cron_schedule_runs_nothing_that_was_due_before_the_import(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("standup", cron="0 9 * * *")
        take(herd, "standup", ImportedState(last_run_at=TEN - 100 * HOUR, last_error="it broke"))

        await herd.tick()

        assert herd.outcomes("standup") == []
        assert herd.next_run("standup") == TEN + 23 * HOUR


async def test_what_was_disabled_there_is_disabled_here(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="1h")

        take(herd, "pace", ImportedState(disabled=True))
        await herd.tick()

        assert herd.snapshot("pace").disabled_by == "human:you"
        assert [fate for fate, _, _ in herd.outcomes("pace")] in ([], ["skipped"])


async def test_a_one_shot_that_has_fired_there_does_not_fire_here(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("launch", at="2026-03-01T09:00:00Z")
        take(herd, "launch", ImportedState(last_run_at=TEN - HOUR))

        await herd.advance(HOUR)

        assert herd.outcomes("launch") == []


async def test_a_schedule_with_a_history_keeps_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="1h")
        await herd.tick()

        fate = take(herd, "pace", ImportedState(last_run_at=TEN - 5 * HOUR))

        assert fate is ImportOutcome.KEPT
        assert herd.next_run("pace") == TEN + HOUR


async def test_an_empty_imported_state_changes_nothing(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="1h")

        assert take(herd, "pace", ImportedState()) is ImportOutcome.EMPTY
        assert herd.next_run("pace") == TEN


async def test_a_last_run_in_the_future_counts_as_now(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("pace", every="1h")

        take(herd, "pace", ImportedState(last_run_at=TEN + 50 * HOUR))

        assert herd.next_run("pace") == TEN + HOUR
