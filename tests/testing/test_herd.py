"""A program's herd on a fake clock: fifteen minutes pass without waiting."""

from datetime import timedelta
from pathlib import Path

from herdbeat import Herd, RunContext
from herdbeat.testing import open_herd


async def test_the_functions_of_a_herd_run_on_a_fake_clock(tmp_path: Path) -> None:
    herd = Herd()
    runs: list[str] = []

    @herd.every("5m")
    def poll() -> None:
        runs.append("poll")

    @herd.cron("10 3 * * *")
    async def report(run: RunContext) -> None:
        runs.append(f"report {run.due_at:%H:%M}")

    async with open_herd(tmp_path, of=herd) as driven:
        await driven.advance(timedelta(minutes=15))

        assert (runs.count("poll"), runs.count("report 03:10")) == (4, 1)
        assert [outcome for outcome, _, _ in driven.outcomes("poll")] == ["ran"] * 4


async def test_a_function_that_raises_backs_off_as_in_production(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.every("5m", name="bad")(lambda: 1 / 0)

        await herd.tick()

        assert herd.next_run("bad") == herd.now + timedelta(minutes=10)
        assert herd.beats("bad")[0].last_status == "failed"


async def test_driving_a_herd_does_not_change_it(tmp_path: Path) -> None:
    herd = Herd()
    herd.every("5m", name="poll")(lambda: None)

    async with open_herd(tmp_path, of=herd) as driven:
        driven.every("5m", name="more")(lambda: None)
        await driven.tick()

    assert herd.labels == ["poll"]
    assert len(herd.functions) == 1
