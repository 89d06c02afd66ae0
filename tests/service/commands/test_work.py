"""`release`: a person offers an item again that the ledger holds or remembers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.work_herd import MINUTES_5, FakeSource, WorkHerd, open_work_herd

from herdbeat.service.commands.base import ReleasedItem, ReleaseWork
from herdbeat.service.commands.work import release_work
from herdbeat.work.base import ClaimStatus, ReleaseStatus, WorkClaimResult


def release(herd: WorkHerd) -> list[ReleasedItem]:
    """Release the newest claim, as a person."""
    command = ReleaseWork(claims=(herd.claims()[-1].id,), reason="looked at it")
    environment: Any = SimpleNamespace()
    found = herd.store.write_now(lambda tx: release_work(tx, herd.clock.now(), "human:you", command, environment))
    return list(found.items)


async def test_an_item_whose_report_cannot_be_delivered_is_offered_again_instead(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.source.failures["report"] = 1
        await herd.tick()

        (item,) = release(herd)
        await herd.settler.settle_due()

        assert (item.success, item.schedule) == (True, "worker/backlog")
        assert herd.source.log[-1] == ("release", "1")
        assert herd.states() == [("1", "released", 1)]


async def test_an_unconfirmed_claim_is_given_up_at_once(tmp_path: Path) -> None:
    source = FakeSource(release_status=ReleaseStatus.TOO_EARLY)
    source.offer("1")
    async with open_work_herd(tmp_path, source=source) as herd:
        source.failures["claim"] = 1
        await herd.tick()

        release(herd)
        await herd.advance(MINUTES_5)

        assert [item for item, _ in source.reports] == ["1"]


async def test_what_a_source_does_not_mark_can_be_done_once_more(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path, source=FakeSource(marks=False)) as herd:
        herd.source.offer("1")
        await herd.tick()

        release(herd)
        await herd.advance(MINUTES_5)

        assert [item for item, _ in herd.source.reports] == ["1", "1"]


async def test_an_item_that_a_run_works_on_is_refused_with_the_command_that_stops_it(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        await herd.start_and_hold(1)

        (item,) = release(herd)

        assert (item.success, item.refused) == (False, "run 0001 works on it; stop that first: herdbeat cancel 0001")
        await herd.let_go()


async def test_a_blocked_item_is_left_to_its_source(tmp_path: Path) -> None:
    async with open_work_herd(tmp_path) as herd:
        herd.source.offer("1")
        herd.source.answers["1"] = WorkClaimResult(status=ClaimStatus.BLOCKED, reason="mallory has no write access.")
        await herd.tick()

        (item,) = release(herd)

        assert item.refused == "it is blocked at its source: mallory has no write access."
