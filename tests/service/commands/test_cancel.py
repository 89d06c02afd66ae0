"""Stopping what runs and what waits, in an order that nothing slips through."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.command_bus import YOU, herd_dispatcher, ledger_path, make_handle
from tests.support.schedule_requests import list_runs

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.policies import Overlap
from herdbeat.events import BeatSettled, Event
from herdbeat.service.commands.base import CancelRuns, CancelSchedules
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def recorded(herd: SimulatedHerd) -> list[tuple[str, str, object]]:
    reader = SqliteReader(herd.store.path)
    try:
        found = reader.changes(Filter(limit=100))
        return [(each.who, each.subject, each.after) for each in found if each.what is ChangeKind.CANCEL]
    finally:
        reader.close()


async def test_what_waits_for_a_run_does_not_take_its_place_when_both_are_cancelled(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="*/10 * * * *", runner=runner, overlap=Overlap.QUEUE_ALL)
        await herd.advance(25 * MINUTE)
        number = herd.snapshot("report").id

        command = CancelSchedules(schedules=(number,), reason="enough")
        (item,) = (await herd_dispatcher(herd).run(YOU, command)).items
        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert (item.schedule, item.runs, item.called_off) == ("report", ("0001",), 2)
        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "by_request", 1), ("skipped", "by_request", 1)]
        assert list_runs(herd, "report") == [(1, "cancelled", "baseline-cron")]
        assert recorded(herd) == [(YOU.name, "report", {"runs": ["0001"], "called_off": 2, "reason": "enough"})]


async def test_cancelling_pending_beats_publishes_an_event(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        herd.schedule("report", cron="*/10 * * * *", runner=ScriptedRunner(holds=True), overlap=Overlap.QUEUE_ALL)
        herd.schedule("quiet", cron="0 9 * * *")
        await herd.advance(25 * MINUTE)
        numbers = tuple(herd.snapshot(label).id for label in ("report", "quiet"))
        told: list[Event] = []

        await herd_dispatcher(herd, told.append).run(YOU, CancelSchedules(schedules=numbers))

        first, last = TEN + 10 * MINUTE, TEN + 20 * MINUTE
        assert told == [BeatSettled(herd.now, "report", BeatOutcome.SKIPPED, "by_request", first, last, 2)]


async def test_a_cancel_that_stops_nothing_writes_no_change(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 9 * * *")
        number = herd.snapshot("report").id

        (item,) = (await herd_dispatcher(herd).run(YOU, CancelSchedules(schedules=(number,)))).items

        assert (item.runs, item.called_off) == ((), 0)
        assert recorded(herd) == []


async def test_cancelling_one_run_keeps_the_pending_beats(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="*/10 * * * *", runner=runner, overlap=Overlap.QUEUE)
        await herd.advance(12 * MINUTE)

        item, gone = (await herd_dispatcher(herd).run(YOU, CancelRuns(runs=(1, 99)))).items
        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert (item.schedule, item.runs, gone.runs) == ("report", ("0001",), ())
        assert [status for _, status, _ in list_runs(herd, "report")] == ["cancelled", "succeeded"]


async def test_without_a_node_a_cancel_settles_only_pending_beats(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        herd.schedule("worker/busy", cron="0 10 * * *", runner=ScriptedRunner(holds=True))
        herd.schedule("worker/waits", cron="5 10 * * *")
        await herd.advance(10 * MINUTE)
        numbers = tuple(herd.snapshot(label).id for label in ("worker/busy", "worker/waits"))

    handle = make_handle(ledger_path(tmp_path), TEN + 20 * MINUTE)
    items = handle.dispatcher.run(YOU, CancelSchedules(schedules=numbers)).items

    assert [(each.schedule, each.called_off) for each in items] == [("worker/busy", 0), ("worker/waits", 1)]
