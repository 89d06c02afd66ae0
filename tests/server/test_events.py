"""Live events: what a listener is told, in which order, and what happens to one that was away or stops reading."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from tests.server.conftest import NOW, ServedFleet

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.server import ledger_tail, sse
from herdbeat.server.ledger_tail import IdMark, LedgerTail, LiveEvent
from herdbeat.server.sse import EventFilter, EventHub, EventStream
from herdbeat.service.commands.base import Actor, HintSchedules, PauseSchedules
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.location import StoreLocation, create_store

YOU = Actor(name="human:you")


def write(location: StoreLocation, work: Callable[[Transaction], Any]) -> Any:
    store = create_store(location)
    store.open()
    try:
        return store.write_now(work)
    finally:
        store.close()


def claim_run(served: ServedFleet, schedule_id: int, event_id: str) -> int:
    def claim(tx: Transaction) -> int:
        node = register_node(tx, NOW, NodeInfo(host="there", pid=2, version="test")).node_id
        return claim_single(tx, NOW, node, schedule_id, origin="program", event_id=event_id).claims[0].run_id

    run: int = write(served.gateway.handle.path, claim)
    return run


def end_run(served: ServedFleet, run_id: int) -> None:
    finished = FinishedRun(run_id, NOW, Outcome(status=RunStatus.SUCCEEDED))
    write(served.gateway.handle.path, lambda tx: complete_runs(tx, NOW, [finished]))


@pytest.fixture
def tail(served: ServedFleet) -> Any:
    reader = served.gateway.open_own_reader()
    yield LedgerTail(reader, NOW)
    reader.close()


def names(events: list[LiveEvent]) -> list[str]:
    return [each.name for each in events]


def test_a_run_is_told_when_it_starts_and_when_it_ends(served: ServedFleet, tail: LedgerTail) -> None:
    run = claim_run(served, 2, "one")
    started = tail.poll(NOW)
    end_run(served, run)
    ended = tail.poll(NOW)

    assert "run.started" in names(started)
    assert "beat.ran" not in names(started)
    finished = next(each for each in ended if each.name == "run.finished")
    assert (finished.data["schedule"], finished.data["status"]) == ("triage/standup", "succeeded")
    assert "beat.ran" in names(ended)
    assert tail.poll(NOW) == []


def test_a_run_that_starts_and_ends_between_two_looks_is_told_twice(served: ServedFleet, tail: LedgerTail) -> None:
    end_run(served, claim_run(served, 2, "one"))

    events = names(tail.poll(NOW))

    assert events.index("run.started") < events.index("run.finished")


def test_changes_and_hints_are_told_with_who_made_them(served: ServedFleet, tail: LedgerTail) -> None:
    served.gateway.deliver(YOU, PauseSchedules(schedules=(1,), reason="deploy"))
    served.gateway.deliver(YOU, HintSchedules(schedules=(2,), every=60, lasts=600, reason="watch"))

    events = tail.poll(NOW)
    ended = tail.poll(NOW)
    write(served.gateway.handle.path, lambda tx: tx.end_hints(2, NOW, "human:you"))
    cleared = tail.poll(NOW + timedelta(seconds=1))

    changed = [
        (each.subject, each.data["what"], each.data["who"]) for each in events if each.name == "schedule.changed"
    ]
    assert changed == [("triage/issues", "pause", "human:you"), ("triage/standup", "hint", "human:you")]
    assert [each.data["every"] for each in events if each.name == "hint.set"] == ["1m"]
    assert ended == []
    assert names(cleared) == ["hint.ended"]


def test_a_burst_becomes_one_event_that_names_the_targets(
    served: ServedFleet, tail: LedgerTail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_tail, "MAX_EVENTS_PER_TICK", 2)
    for reason in ("one", "two", "three"):
        served.gateway.deliver(YOU, PauseSchedules(schedules=(1, 3), reason=reason))

    (event,) = tail.poll(NOW)

    assert event.name == "changed"
    assert event.data == {"targets": ["queue-depth", "triage"], "counts": {"schedule.changed": 6, "beat.skipped": 1}}


def test_a_row_that_commits_late_is_not_skipped() -> None:
    """On PostgreSQL the transaction of id 7 may commit after that of id 8 was seen."""
    mark = IdMark(5)
    first = mark.take_new([6, 8])
    mark.advance(8, oldest_open=100, next_transaction=103, now=NOW)  # transaction 101 has id 7 and is open
    late = mark.take_new([6, 7, 8])
    mark.advance(8, oldest_open=103, next_transaction=104, now=NOW)

    assert (first, late) == ([6, 8], [7])
    assert mark.mark == 8
    assert mark.take_new([6, 7, 8]) == []


def test_a_transaction_that_stays_open_is_noticed() -> None:
    mark = IdMark(5)
    mark.advance(8, oldest_open=100, next_transaction=103, now=NOW)

    assert (mark.is_stuck(NOW), mark.is_stuck(NOW + timedelta(seconds=61))) == (False, True)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EventFilter(), {"a", "b", "c"}),
        (EventFilter(types=("run.*",)), {"a", "b"}),
        (EventFilter(target="triage"), {"a", "c"}),
        (EventFilter(types=("run.started",), target="triage"), {"a"}),
        (EventFilter(schedule="queue/default"), {"b", "c"}),
        (EventFilter(target="triage", is_limited=True), {"a"}),
    ],
)
def test_a_listener_gets_what_it_asked_for(wanted: EventFilter, expected: set[str]) -> None:
    events = {
        "a": LiveEvent("run.started", "triage/issues", {}),
        "b": LiveEvent("run.finished", "queue", {}),
        "c": LiveEvent("node.joined", "", {}),
    }

    assert {name for name, event in events.items() if wanted.matches(event)} == expected


def parse(text: str) -> list[dict[str, str]]:
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


async def take(stream: AsyncIterator[str], event: str) -> dict[str, str]:
    async with asyncio.timeout(30):
        async for text in stream:
            for each in parse(text):
                if each.get("event") == event:
                    return each
    raise AssertionError(f"the stream ended without {event}")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "TICK_S", 0.01)


@pytest.mark.usefixtures("_quick")
async def test_a_listener_that_was_away_goes_on_where_it_stopped(served: ServedFleet) -> None:
    hub = EventHub(served.gateway)
    async with aclosing(hub.listen(EventFilter(), "", lambda: True)) as stream:
        await take(stream, "ready")
        served.gateway.deliver(YOU, PauseSchedules(schedules=(1,), reason="one"))
        seen = await take(stream, "schedule.changed")
    served.gateway.deliver(YOU, PauseSchedules(schedules=(2,), reason="two"))

    async with aclosing(hub.listen(EventFilter(), seen["id"], lambda: True)) as again:
        resumed = await take(again, "ready")
        missed = await take(again, "schedule.changed")

    assert resumed["id"] == seen["id"]
    assert json.loads(missed["data"])["subject"] == "triage/standup"
    await end(hub)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("last_event_id", ["0123-7", "nonsense", "-", "0123-99999999999999999999"])
async def test_an_unknown_id_means_to_read_everything_again(served: ServedFleet, last_event_id: str) -> None:
    hub = EventHub(served.gateway)
    async with aclosing(hub.listen(EventFilter(), last_event_id, lambda: True)) as stream:
        assert (await take(stream, "resync"))["id"]
    await end(hub)


@pytest.mark.usefixtures("_quick")
async def test_a_listener_that_fell_out_of_the_ring_reads_everything_again(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "RING_EVENTS", 2)
    hub = EventHub(served.gateway)
    async with aclosing(hub.listen(EventFilter(), "", lambda: True)) as slow:
        await take(slow, "ready")
        async with aclosing(hub.listen(EventFilter(), "", lambda: True)) as quick:
            await take(quick, "ready")
            for number in range(5):
                served.gateway.deliver(YOU, PauseSchedules(schedules=(1,), reason=f"{number}"))
                await take(quick, "schedule.changed")

        assert await take(slow, "resync")
    await end(hub)


@pytest.mark.usefixtures("_quick")
async def test_a_stream_ends_when_its_token_is_no_longer_valid(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "RECHECK_S", 0.0)
    hub = EventHub(served.gateway)

    async with asyncio.timeout(30):
        texts = [text async for text in hub.listen(EventFilter(), "", lambda: False)]

    assert len(texts) == 1
    await end(hub)


async def test_a_reader_that_stops_reading_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.05)

    async def texts() -> AsyncIterator[str]:
        while True:
            yield "event: x\n\n"

    async def send(message: Any) -> None:
        if message.get("more_body"):
            await asyncio.sleep(3600)  # its buffer is full, and stays full

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async with asyncio.timeout(30):
        await EventStream(texts())({"type": "http"}, receive, send)


async def end(hub: EventHub) -> None:
    assert hub._task is not None
    hub._task.cancel()
    await asyncio.gather(hub._task, return_exceptions=True)
