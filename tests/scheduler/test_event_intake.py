"""Events from outside: one beat per delivery, written before its sender is answered, held while its schedule is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap
from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent
from herdbeat.errors import UsageError
from herdbeat.governor import Pause
from herdbeat.scheduler.control import disable, enable, pause, resume
from herdbeat.scheduler.event_intake import REPLAY_WINDOW, enqueue_events
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Webhook

MINUTE = timedelta(minutes=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def receive(herd: SimulatedHerd, *ids: str, digest: str = "", is_filtered: bool = False) -> list[EventAnswer]:
    schedule = herd.snapshot("deploy").id
    events = [
        IncomingEvent(schedule=schedule, event_id=each, data="{}", digest=digest, is_filtered=is_filtered)
        for each in ids
    ]
    return herd.store.write_now(lambda tx: enqueue_events(tx, herd.now, events))


async def add_hook(herd: SimulatedHerd, **options: int) -> ScriptedRunner:
    runner = ScriptedRunner()
    policies: dict[str, Any] = {"overlap": Overlap.QUEUE_ALL, **options}
    herd.schedule("deploy", trigger=Webhook(), runner=runner, **policies)
    await herd.tick()
    return runner


async def test_a_delivery_runs_once_however_often_it_is_sent(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)

        answers = [*receive(herd, "a", "a"), *receive(herd, "a")]
        await herd.tick()

        assert answers == [EventAnswer.ACCEPTED, EventAnswer.DUPLICATE, EventAnswer.DUPLICATE]
        assert [each.dedup_id for each in runner.runs] == ["webhook:a"]
        beat = herd.beats("deploy")[-1]
        assert (beat.source, beat.due_at) == (Source.WEBHOOK, TEN)


async def test_the_clock_never_fires_a_webhook_schedule(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)

        await herd.advance(timedelta(days=30))

        assert runner.runs == []
        assert herd.next_run("deploy") is None


async def test_every_event_gets_a_run_of_its_own_one_after_the_other(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)

        receive(herd, "a", "b", "c")
        await herd.advance(MINUTE)

        assert [each.dedup_id for each in runner.runs] == ["webhook:a", "webhook:b", "webhook:c"]


async def test_the_same_signed_content_under_another_id_is_a_replay_for_a_day(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)

        first, again = receive(herd, "a", digest="d"), receive(herd, "b", digest="d")
        await herd.advance(REPLAY_WINDOW + MINUTE)
        later = receive(herd, "c", digest="d")
        await herd.tick()

        assert (first, again, later) == ([EventAnswer.ACCEPTED], [EventAnswer.REPLAYED], [EventAnswer.ACCEPTED])
        assert len(runner.runs) == 2


async def test_filtered_events_in_a_row_are_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        await add_hook(herd)

        receive(herd, "a", "b", is_filtered=True)
        receive(herd, "c", is_filtered=True)
        receive(herd, "d")
        await herd.tick()
        receive(herd, "e", is_filtered=True)

        assert herd.outcomes("deploy") == [("skipped", "filtered", 3), ("ran", "", 1), ("skipped", "filtered", 1)]


async def test_more_events_than_max_queued_are_refused_and_repetitions_are_not(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        await add_hook(herd, max_queued=2)

        answers = receive(herd, "a", "b", "c", "a")
        await herd.advance(MINUTE)

        assert answers == [EventAnswer.ACCEPTED, EventAnswer.ACCEPTED, EventAnswer.FULL, EventAnswer.DUPLICATE]
        assert receive(herd, "c") == [EventAnswer.ACCEPTED]


async def test_a_paused_schedule_keeps_its_events_until_it_is_resumed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)
        schedule = herd.snapshot("deploy").id
        herd.store.write_now(lambda tx: pause(tx, herd.now, schedule, Pause(by="human:you")))

        answers = receive(herd, "a")
        await herd.advance(10 * MINUTE)
        held = list(runner.runs)
        herd.store.write_now(lambda tx: resume(tx, herd.now, schedule))
        await herd.tick()

        assert (answers, held) == ([EventAnswer.ACCEPTED], [])
        assert [each.dedup_id for each in runner.runs] == ["webhook:a"]


async def test_an_event_during_a_planned_pause_waits_for_its_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)
        herd.plan_pause("deploy", start=TEN + MINUTE, until=TEN + 30 * MINUTE)
        await herd.advance(10 * MINUTE)

        answers = receive(herd, "a")
        await herd.advance(19 * MINUTE)
        held = list(runner.runs)
        await herd.advance(MINUTE)

        assert (answers, held) == ([EventAnswer.ACCEPTED], [])
        assert [each.dedup_id for each in runner.runs] == ["webhook:a"]


async def test_a_disabled_schedule_takes_no_events_and_keeps_those_it_has(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = await add_hook(herd)
        schedule = herd.snapshot("deploy").id
        receive(herd, "before")
        herd.store.write_now(lambda tx: disable(tx, herd.now, schedule, "human:you"))

        refused = receive(herd, "after")
        await herd.advance(MINUTE)
        held = list(runner.runs)
        herd.store.write_now(lambda tx: enable(tx, herd.now, schedule))
        await herd.tick()

        assert (refused, held) == ([EventAnswer.DISABLED], [])
        assert [each.dedup_id for each in runner.runs] == ["webhook:before"]


async def test_a_schedule_that_is_gone_or_of_another_kind_takes_no_events(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("deploy", every="5m")
        await herd.tick()
        gone = IncomingEvent(schedule=999, event_id="a")

        assert receive(herd, "a") == [EventAnswer.UNKNOWN]
        assert herd.store.write_now(lambda tx: enqueue_events(tx, herd.now, [gone])) == [EventAnswer.UNKNOWN]


@pytest.mark.parametrize("event_id", ["", "x" * 200, "a\nb"])
async def test_an_id_that_no_ledger_should_hold_is_refused(tmp_path: Path, event_id: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        await add_hook(herd)

        with pytest.raises(UsageError, match="id of an event"):
            receive(herd, event_id)
