"""One schedule, once: the beat that is due if there is one, else a beat by hand, and never another schedule's."""

from datetime import timedelta
from pathlib import Path

from herdbeat.domain.decision import Source
from herdbeat.scheduler.manual import SingleClaim, claim_single
from herdbeat.testing import ScriptedRunner, SimulatedHerd, open_herd


def start(herd: SimulatedHerd, label: str) -> SingleClaim:
    number = herd.snapshot(label).id
    return herd.store.write_now(
        lambda tx: claim_single(tx, herd.now, 1, number, origin="program", event_id=f"{herd.now:%H%M%S}")
    )


async def test_a_due_schedule_starts_the_beat_that_is_due(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")

        single = start(herd, "scan")

        assert [(each.source, each.due_at) for each in single.claims] == [(Source.FIRST_RUN, herd.now)]
        assert herd.snapshot("scan").running == 1


async def test_before_its_time_a_beat_by_hand_is_started_beside_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")
        await herd.tick()
        planned = herd.next_run("scan")
        herd.clock.advance(timedelta(minutes=1))

        single = start(herd, "scan")

        assert [each.source for each in single.claims] == [Source.MANUAL]
        assert herd.next_run("scan") == planned


async def test_other_schedules_that_are_due_stay_due(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("scan", every="5m")
        herd.schedule("other", every="5m")

        start(herd, "scan")

        assert (herd.snapshot("other").running, herd.next_run("other")) == (0, herd.now)


async def test_a_held_schedule_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("off", every="5m")
        herd.disable("off")
        herd.schedule("full/a", every="5m", runner=ScriptedRunner(holds=True))
        herd.schedule("full/b", cron="0 0 1 1 *")
        await herd.tick()

        assert start(herd, "off").skip_reason == "disabled"
        assert start(herd, "full/b").skip_reason == "at_capacity"
