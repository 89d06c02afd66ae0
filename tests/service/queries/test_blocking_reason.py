"""Would it start now? The documented reasons, in the documented order."""

from datetime import timedelta
from pathlib import Path

from herdbeat.domain.beat import SkipReason
from herdbeat.service.queries.schedule_state import find_blocking_reason
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.reader import SqliteReader
from herdbeat.testing import ScriptedRunner, SimulatedHerd, open_herd


def asked(herd: SimulatedHerd, label: str) -> SkipReason | None:
    herd.snapshot(label)
    reader = SqliteReader(herd.store.path)
    try:
        return find_blocking_reason(find_schedule(reader, label), herd.now)
    finally:
        reader.close()


async def test_a_schedule_that_is_due_would_start(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")

        assert asked(herd, "scan") is None


async def test_a_schedule_before_its_next_run_is_not_due(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")
        await herd.tick()
        after_the_run = asked(herd, "scan")
        herd.clock.advance(timedelta(minutes=5))

        assert (after_the_run, asked(herd, "scan")) == (SkipReason.NOT_DUE, None)


async def test_an_event_trigger_is_never_due_by_the_clock(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.by_hand(name="scan")(lambda: None)

        assert asked(herd, "scan") is SkipReason.UNSUPPORTED_TYPE


async def test_disabled_comes_before_paused(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")
        herd.pause("scan")
        paused = asked(herd, "scan")
        herd.disable("scan")

        assert (paused, asked(herd, "scan")) == (SkipReason.PAUSED, SkipReason.DISABLED)


async def test_a_pause_that_is_over_holds_nothing_back(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")
        herd.pause("scan", until=herd.now + timedelta(hours=1))
        herd.clock.advance(timedelta(hours=1))

        assert asked(herd, "scan") is not SkipReason.PAUSED


async def test_its_own_run_comes_before_a_full_target(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan/a", every="5m", runner=ScriptedRunner(holds=True))
        herd.schedule("scan/b", cron="* * * * *")
        await herd.tick()

        assert asked(herd, "scan/a") is SkipReason.ALREADY_RUNNING
        assert asked(herd, "scan/b") is SkipReason.AT_CAPACITY
