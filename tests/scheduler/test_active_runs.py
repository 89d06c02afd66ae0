"""Runs that are going, and whom they keep waiting."""

from datetime import timedelta
from pathlib import Path

from herdbeat.events import BeatSettled, Event, RunStarted
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)


async def test_the_event_of_a_waiting_beat_names_the_run_that_has_its_slot(tmp_path: Path) -> None:
    told: list[Event] = []
    async with open_herd(tmp_path, listener=told.append) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("scan/long", cron="2 3 * * *", runner=busy)
        herd.schedule("scan/short", cron="12 3 * * *")
        herd.schedule("own", cron="5,15 * * * *", runner=busy)

        await herd.advance(16 * MINUTE)

    begun = {each.schedule.partition("/")[0]: each for each in told if isinstance(each, RunStarted)}
    settled = {each.schedule.partition("/")[0]: each for each in told if isinstance(each, BeatSettled)}
    assert [(each.reason, each.held_by, each.held_since) for each in settled.values()] == [
        ("at_capacity", begun["scan"].run_id, begun["scan"].at),
        ("already_running", begun["own"].run_id, begun["own"].at),
    ]
