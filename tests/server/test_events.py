"""Live events: what a listener is told, in which order, and what happens to one that was away or stops reading."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing
from datetime import timedelta
from typing import Any

import pytest
from tests.server.conftest import NOW, ServedFleet

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.server import ledger_tail, sse
from herdbeat.server.ledger_tail import IdMark, LedgerTail, LiveEvent
from herdbeat.server.sse import EventFilter, EventHub, LiveStream, StreamLimit
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


def claim_runs(served: ServedFleet, *schedule_ids: int) -> dict[int, int]:
    """Start runs of several schedules on one node; return the run of each."""

    def claim(tx: Transaction) -> dict[int, int]:
        node = register_node(tx, NOW, NodeInfo(host="there", pid=2, version="test")).node_id
        claims = {
            number: claim_single(tx, NOW, node, number, origin="program", event_id=f"{number}").claims
            for number in schedule_ids
        }
        return {number: found[0].run_id for number, found in claims.items()}

    runs: dict[int, int] = write(served.gateway.handle.path, claim)
    return runs


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
    write(served.gateway.handle.path, lambda tx: tx.hint_end_by_rank(2, ["human"], NOW, "human:you"))
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


def test_more_open_rows_than_are_compared_are_counted_by_target(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of thousands has ended is not told; that one of a target has is."""
    monkeypatch.setattr(ledger_tail, "MAX_ROWS", 1)
    runs = claim_runs(served, 2, 3)
    with closing(served.gateway.open_own_reader()) as reader:
        crowded = LedgerTail(reader, NOW)
        end_run(served, runs[3])
        at_once = crowded.poll(NOW)
        later = crowded.poll(NOW + ledger_tail.QUIET_INTERVAL)

        end_run(served, runs[2])
        alone = crowded.poll(NOW + 2 * ledger_tail.QUIET_INTERVAL)

    changed = [each.data for each in later if each.name == "changed"]
    assert (names(at_once), changed) == ([], [{"targets": ["queue-depth"], "counts": {"open": 1}}])
    assert "run.finished" in names(alone)


def test_hints_that_end_and_nodes_that_die_are_told_although_nobody_writes(served: ServedFleet) -> None:
    node = write(
        served.gateway.handle.path, lambda tx: register_node(tx, NOW, NodeInfo(host="here", pid=77, version="test"))
    )
    served.gateway.deliver(YOU, HintSchedules(schedules=(2,), every=60, lasts=600, reason="watch"))
    with closing(served.gateway.open_own_reader()) as reader:
        tail = LedgerTail(reader, NOW, holder_pid=77)

        quiet = tail.poll(NOW + timedelta(minutes=1), holder_pid=77)
        died = tail.poll(NOW + timedelta(minutes=11), holder_pid=None)

    assert quiet == []
    assert {each.name for each in died} == {"hint.ended", "node.lost"}
    assert [each.data["node"] for each in died if each.name == "node.lost"] == [format_short_id(node.node_id)]


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
        (EventFilter(schedule="queue"), {"b", "c"}),  # as the lists name a default schedule, and as they select
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


async def take(stream: AsyncGenerator[bytes, None], event: str) -> dict[str, str]:
    async with asyncio.timeout(30):
        async for text in stream:
            for each in parse(text.decode()):
                if each.get("event") == event:
                    return each
    raise AssertionError(f"the stream ended without {event}")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MIN_TICK_S", 0.01)


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
    monkeypatch.setattr(sse, "MAX_RING_EVENTS", 2)
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
async def test_listeners_who_want_the_same_share_one_text(served: ServedFleet) -> None:
    """A thousand readers of one fleet: what they are told is written once, not a thousand times."""
    hub = EventHub(served.gateway)
    async with aclosing(hub.listen(EventFilter(), "")) as one, aclosing(hub.listen(EventFilter(), "")) as other:
        await take(one, "ready")
        await take(other, "ready")
        served.gateway.deliver(YOU, PauseSchedules(schedules=(1,), reason="one"))

        async with asyncio.timeout(30):
            first, second = await asyncio.gather(anext(one), anext(other))

    assert b"schedule.changed" in first
    assert first is second
    await end(hub)


@pytest.mark.usefixtures("_quick")
async def test_listeners_who_come_together_miss_nothing_that_happens_after_their_ready(served: ServedFleet) -> None:
    hub = EventHub(served.gateway)
    async with aclosing(hub.listen(EventFilter(), "")) as one, aclosing(hub.listen(EventFilter(), "")) as other:
        # The second one comes while the tail of the first is still being opened.
        await asyncio.gather(take(one, "ready"), take(other, "ready"))
        served.gateway.deliver(YOU, PauseSchedules(schedules=(1,), reason="one"))

        changed = await asyncio.gather(take(one, "schedule.changed"), take(other, "schedule.changed"))

    assert changed[0] == changed[1]
    await end(hub)


@pytest.mark.parametrize(("listeners", "seconds"), [(0, 0.25), (1, 0.25), (250, 0.25), (1_000, 1.0), (4_000, 2.0)])
def test_a_crowd_is_told_less_often(listeners: int, seconds: float) -> None:
    assert sse.compute_tick_s(listeners) == pytest.approx(seconds)


def test_a_stream_ends_within_thirty_seconds_of_its_token() -> None:
    """It took up to 35: a quiet listener is woken only every few seconds."""
    assert sse.RECHECK_INTERVAL_S + sse.WAKE_INTERVAL_S <= 30


@pytest.mark.usefixtures("_quick")
async def test_a_stream_ends_when_its_token_is_no_longer_valid(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "RECHECK_INTERVAL_S", 0.0)
    hub = EventHub(served.gateway)

    async with asyncio.timeout(30):
        texts = [text async for text in hub.listen(EventFilter(), "", lambda: False)]

    assert len(texts) == 1
    await end(hub)


async def test_a_reader_that_stops_reading_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.05)

    async def texts() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"event: x\n\n"

    async def send(message: Any) -> None:
        if message.get("more_body"):
            await asyncio.sleep(3600)  # its buffer is full, and stays full

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async with asyncio.timeout(30):
        await LiveStream(texts(), StreamLimit(1))({"type": "http"}, receive, send)


async def test_a_reader_that_takes_not_even_the_end_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last message of its stream waited for it without end, with the connection and a task."""
    monkeypatch.setattr(sse, "SEND_TIMEOUT_S", 0.05)
    monkeypatch.setattr(sse, "CLOSE_TIMEOUT_S", 0.05)
    limit = StreamLimit(1)

    async def texts() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"event: x\n\n"

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(3600)

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async with asyncio.timeout(30):
        await LiveStream(texts(), limit)({"type": "http"}, receive, send)

    assert not limit.is_reached


def test_more_streams_than_the_server_takes_are_refused(served: ServedFleet) -> None:
    """Each log that is followed has a connection to the ledger: a hundred of them kept the nodes out of a database."""
    client = served.client()
    limits = {"events": served.app.state.event_streams, "logs?follow=1": served.app.state.log_streams}
    for limit in limits.values():
        limit.maximum = 0

    answers = [client.get(f"/api/v1/{path}") for path in limits]

    assert [(each.status, each.json()["code"]) for each in answers] == [(429, "too_many_requests")] * 2
    assert {each.headers["retry-after"] for each in answers} == {"30"}
    assert client.get("/api/v1/logs").status == 200


async def test_a_stream_whose_reader_leaves_is_closed_before_the_request_ends() -> None:
    """It has a connection to the ledger, which goes back to the others only when nobody reads from it."""
    closed = asyncio.Event()

    async def texts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"one line\n"
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def send(message: Any) -> None:
        await asyncio.sleep(0)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async with asyncio.timeout(30):
        await LiveStream(texts(), StreamLimit(1), "text/plain")({"type": "http"}, receive, send)

    assert closed.is_set()


async def end(hub: EventHub) -> None:
    assert hub._task is not None
    hub._task.cancel()
    await asyncio.gather(hub._task, return_exceptions=True)
