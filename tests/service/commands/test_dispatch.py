"""The same command by every way: in process, through the control socket, offline, and directly into a database.

Each case prepares the same ledger, runs its commands by one way, and compares typed results and change log with those
of the offline way.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_bus import YOU, ledger_path, make_handle
from tests.support.postgres_nodes import set_clock
from tests.support.schedule_builders import POLICIES

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, control_socket, running_fleet
from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.webhook_call import IncomingEvent
from herdbeat.errors import Conflict, NotFound
from herdbeat.events import ConfigApplied, Event, NodeReady, SchedulesChanged
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.service.commands.base import (
    COMMAND_TYPES,
    AckRuns,
    Actor,
    ApplyFleet,
    BackfillSchedule,
    CancelAgentHint,
    CancelPause,
    CancelRuns,
    CancelSchedules,
    ChangeEpisodes,
    ClearHints,
    Command,
    CreateOwnSchedule,
    CreateToken,
    DeleteOwnSchedule,
    DeleteSchedule,
    DisableSchedules,
    EnableSchedules,
    Forbidden,
    HintSchedules,
    ImportState,
    MessageQueued,
    NewSchedule,
    NewTarget,
    PaceAgent,
    PauseSchedules,
    PlanPause,
    PruneHistory,
    ReceiveChat,
    ReceiveEvents,
    RecordState,
    ReleaseAccount,
    ReleaseWork,
    ReportRemoteRun,
    ReportRun,
    ResetSchedules,
    RestoreHints,
    ResumeSchedules,
    RetryRuns,
    RevokeToken,
    Scope,
    SendTestMessage,
    SkipBeats,
    StateEntry,
    TakeRemoteRun,
    TriggerSchedule,
    UpsertSchedule,
    WakeAgent,
)
from herdbeat.service.commands.dispatch import Environment, NotRunning, execute
from herdbeat.service.commands.fleet import load_applied_fleet
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.location import PostgresLocation, StoreLocation, create_store, open_reader
from herdbeat.store.reader import Filter
from herdbeat.store.state_lock import StateLock
from herdbeat.testing.clock import FakeClock
from herdbeat.triggers import Interval

NOW = datetime(2026, 3, 2, 8, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
FLEET = """\
version: 1
timezone: UTC
fleet: { name: ways }
commands:
  - { name: hourly, command: ["true"], cron: "0 * * * *", runs_on: elsewhere }
  - { name: often, command: ["true"], every: 5m }
"""
EDITED = f"""{FLEET.replace("5m", "7m")}\
  - {{ name: more, command: ["true"], cron: "0 9 * * *" }}
"""
HOURLY, OFTEN, RUN = 1, 2, 1
"""The schedules, and the one run that the ledger knows: it has failed."""

BOTH = (HOURLY, OFTEN)
SHELL = NewTarget(kind="command", spec={"command": ["ls"], "working_directory": "/"})
SCHEDULE = NewSchedule(
    plan=ScheduleSpec(trigger=Interval.parse("1h"), policies=replace(POLICIES, runs_on="elsewhere")),
    brief=RunSpec(prompt="Do it."),
)
ADDED = UpsertSchedule(
    what=ChangeKind.ADD, target="tidy", name="default", new_target=SHELL, new_schedule=SCHEDULE, reason="disk"
)
IMPORTED = (StateEntry(agent="hourly", name="default", last_run_at=NOW - HOUR), StateEntry(agent="x", name="y"))

CASES: list[Sequence[Command[Any]]] = [
    [PauseSchedules(schedules=BOTH, until=NOW + HOUR, reason="db")],
    [PauseSchedules(schedules=BOTH, cancel_running=True), ResumeSchedules(schedules=(HOURLY, 99))],
    [DisableSchedules(schedules=BOTH, reason="broken"), EnableSchedules(schedules=BOTH)],
    [HintSchedules(schedules=(OFTEN,), every=60, lasts=600, reason="watch"), ClearHints(schedules=BOTH)],
    [HintSchedules(schedules=(OFTEN,), every=60, lasts=600), RestoreHints(schedules=BOTH, changed_at=NOW)],
    [ResetSchedules(schedules=BOTH, reason="fixed")],
    [RecordState(schedules=BOTH, last_error="the disk is full")],
    [SkipBeats(schedules=(HOURLY,), count=2, reason="holiday")],
    [TriggerSchedule(schedule=HOURLY, queue=True), CancelSchedules(schedules=BOTH, reason="no")],
    [CancelRuns(runs=(RUN, 77), force=True)],
    [RetryRuns(runs=(RUN, 77), reason="again")],
    [BackfillSchedule(schedule=HOURLY, start=NOW - 4 * HOUR, end=NOW + HOUR, reason="outage")],
    [ADDED, DeleteSchedule(target="tidy", reason="enough")],
    [ApplyFleet(path="edited.yaml", reason="deploy")],
    [ImportState(states=IMPORTED)],
    [PruneHistory()],
    [CreateToken(name="ci", grants="operate", digest="0f" * 32, reason="builds"), RevokeToken(name="ci")],
    [ReleaseAccount(account="team"), AckRuns(runs=(RUN,)), ReleaseWork(claims=(7,))],
    [
        ReceiveEvents(
            events=(IncomingEvent(schedule=OFTEN, event_id="d-1"), IncomingEvent(schedule=999, event_id="d-1"))
        )
    ],
    [
        CreateOwnSchedule(schedule=OFTEN, name="watch", prompt="Look.", every="10m", reason="release day"),
        DeleteOwnSchedule(schedule=OFTEN, name="watch", reason="done"),
        WakeAgent(schedule=OFTEN, after=1200.0, note="look again", reason="waiting"),
        PaceAgent(schedule=OFTEN, every=60.0, reason="many"),
        CancelAgentHint(schedule=OFTEN, reason="calm"),
        ReportRun(schedule=OFTEN, run=RUN, metrics={"open": 3}),
    ],
    [ChangeEpisodes(subjects=("often",), reason="known"), SendTestMessage(channel="ops")],
    [
        PlanPause(from_at=NOW + HOUR, until=NOW + 2 * HOUR, names=("hourly",), tags=("x",), reason="db"),
        CancelPause(pause=1, reason="not today"),
    ],
    [ReceiveChat(platform="slack", target="often", channel="C1", thread="1", message="1", user="U1", text="status")],
    [
        TakeRemoteRun(run=RUN, nonce="ab" * 16, executor="ray"),
        ReportRemoteRun(run=RUN, nonce="ab" * 16, sequence=1, log="{}"),
    ],
]

RunCommand = Callable[[Command[Any]], Awaitable[Any]]
Rows = list[tuple[object, ...]]


def read_fleet(folder: Path) -> Fleet:
    (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (folder / "edited.yaml").write_text(EDITED, encoding="utf-8")
    loaded = load_config(str(folder / "herdbeat.yaml"), {}, folder)
    assert loaded.fleet is not None
    return replace(loaded.fleet, store=f"sqlite:{ledger_path(folder)}")


def open_handle(folder: Path, location: StoreLocation, fleet: Fleet) -> FleetHandle:
    def load_applied(path: str) -> Any:
        return load_applied_fleet(fleet, load_config(path, {}, folder), location)

    return replace(make_handle(location, NOW, fleet), load_applied=load_applied)


def prepare(location: StoreLocation, fleet: Fleet) -> None:
    """The fleet, and one run of `often` that has failed."""

    def fail_once(tx: Transaction) -> None:
        apply_fleet(tx, fleet, NOW)
        node = register_node(tx, NOW, NodeInfo(host="here", pid=1, version="test")).node_id
        (claim,) = claim_single(tx, NOW, node, OFTEN, origin="program", event_id="1").claims
        assert claim.run_id == RUN
        complete_runs(tx, NOW, [FinishedRun(RUN, NOW, Outcome(status=RunStatus.FAILED, error="it broke"))])
        tx.leave_node(node, NOW)

    with closing(create_store(location)) as store:
        store.open()
        store.write_now(fail_once)


def read_changes(location: StoreLocation) -> Rows:
    with closing(open_reader(location)) as reader:
        found = reader.changes(Filter(limit=1_000))
    return [(each.at, each.who, each.what, each.subject, each.before, each.after) for each in found]


@asynccontextmanager
async def opened(folder: Path, events: list[Event] | None = None) -> AsyncIterator[RunningFleet]:
    """A node without the label that what it is given to run needs: only the commands write."""
    fleet = read_fleet(folder)
    prepare(ledger_path(folder), fleet)
    ready = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, NodeReady):
            ready.set()
        elif events is not None:
            events.append(event)

    async with running_fleet(fleet, environ={}, folder=folder, listener=listen, timer=FakeClock(NOW)) as running:
        async with asyncio.timeout(10):
            await ready.wait()
        yield running
        running.node.stop(timedelta(seconds=10))
        await running.wait_stopped()


@asynccontextmanager
async def in_process(folder: Path, _: PostgresLocation) -> AsyncIterator[tuple[RunCommand, StoreLocation]]:
    async with opened(folder) as running:
        yield lambda command: running.dispatcher.run(YOU, command), running.store.location


@asynccontextmanager
async def by_socket(folder: Path, _: PostgresLocation) -> AsyncIterator[tuple[RunCommand, StoreLocation]]:
    async with opened(folder) as running, control_socket(running):
        dispatcher = open_handle(folder, running.store.location, running.fleet).dispatcher

        async def run(command: Command[Any]) -> Any:
            delivery = await asyncio.to_thread(dispatcher.deliver, YOU, command)
            assert (delivery.has_live_node, delivery.pid) == (True, os.getpid())
            return delivery.result

        yield run, running.store.location


@asynccontextmanager
async def without_node(folder: Path, location: StoreLocation) -> AsyncIterator[tuple[RunCommand, StoreLocation]]:
    fleet = read_fleet(folder)
    prepare(location, fleet)
    dispatcher = open_handle(folder, location, fleet).dispatcher

    async def run(command: Command[Any]) -> Any:
        delivery = await asyncio.to_thread(dispatcher.deliver, YOU, command)
        assert (delivery.has_live_node, delivery.pid) == (False, None)
        return delivery.result

    yield run, location


async def outcome_of(ways: Any, commands: Sequence[Command[Any]]) -> tuple[list[Any], Rows]:
    async with ways as (run, location):
        results = [await run(command) for command in commands]
        # Each message has an id of its own.
        known = [replace(each, message_id="") if isinstance(each, MessageQueued) else each for each in results]
        return known, read_changes(location)


@pytest.mark.parametrize("commands", CASES, ids=lambda commands: commands[-1].kind)
@pytest.mark.parametrize("way", [in_process, by_socket, without_node], ids=["in process", "socket", "direct"])
async def test_every_transport_gives_the_same_result_and_change_log(
    way: Any, commands: Sequence[Command[Any]], tmp_path: Path, database: PostgresLocation
) -> None:
    set_clock(database, NOW)
    offline_folder, folder = tmp_path / "offline", tmp_path / "way"
    offline_folder.mkdir()
    folder.mkdir()

    expected = await outcome_of(without_node(offline_folder, ledger_path(offline_folder)), commands)
    found = await outcome_of(way(folder, replace(database, state_dir=folder)), commands)

    assert found == expected


def test_every_command_type_is_among_the_dispatch_cases() -> None:
    assert {type(each) for commands in CASES for each in commands} == set(COMMAND_TYPES.values())


async def test_events_are_published_once_the_change_is_durable(tmp_path: Path) -> None:
    events: list[Event] = []
    async with opened(tmp_path, events) as running:
        read_fleet(tmp_path)
        await running.dispatcher.run(YOU, PauseSchedules(schedules=BOTH, reason="db"))
        await running.dispatcher.run(YOU, PauseSchedules(schedules=BOTH, reason="db"))
        await running.dispatcher.run(YOU, ApplyFleet(path=str(tmp_path / "edited.yaml")))

    changed = [each for each in events if isinstance(each, SchedulesChanged)]
    applied = [each for each in events if isinstance(each, ConfigApplied)]
    assert changed == [SchedulesChanged(NOW, ChangeKind.PAUSE, "human:you", "db", ("hourly", "often"))]
    assert [(each.added, each.changed) for each in applied] == [(("more",), ("often",))]


def test_a_transaction_that_is_begun_again_leaves_its_events_and_its_beat_once(tmp_path: Path) -> None:
    """A database begins again after a deadlock: what the first attempt has left would be published twice."""
    fleet, environment = read_fleet(tmp_path), Environment()
    prepare(ledger_path(tmp_path), fleet)
    pause = PauseSchedules(schedules=BOTH, cancel_running=True)
    with closing(create_store(ledger_path(tmp_path))) as store:
        store.open()
        with pytest.raises(ZeroDivisionError):
            store.write_now(lambda tx: (execute(tx, NOW, YOU, pause, environment), 1 // 0))
        store.write_now(lambda tx: execute(tx, NOW, YOU, pause, environment))
        left = (len(environment.events), len(environment.stop_orders))
        first, again = (
            store.write_now(lambda tx: execute(tx, NOW, YOU, TriggerSchedule(schedule=HOURLY), environment))
            for _ in range(2)
        )

    assert left == (1, 1)
    assert (first.success, again.success) == (True, False)  # it is the same beat, which is there already


@pytest.mark.parametrize("way", [in_process, by_socket, without_node], ids=["in process", "socket", "direct"])
async def test_a_refusal_is_the_same_error_by_every_way_and_is_not_tried_again(
    way: Any, tmp_path: Path, database: PostgresLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen once: the Conflict of a command was taken for a held lock, and tried again for five seconds."""
    waits: list[float] = []
    monkeypatch.setattr("herdbeat.service.commands.dispatch.time.sleep", waits.append)
    async with way(tmp_path, database) as (run, location):
        before = read_changes(location)
        with pytest.raises(Conflict, match="is defined in"):
            await run(DeleteSchedule(target="hourly", name="default"))
        with pytest.raises(NotFound, match="no longer exists"):
            await run(TriggerSchedule(schedule=99))
        after = read_changes(location)

    assert (after, waits) == (before, [])


async def test_an_actor_without_the_scope_changes_nothing_by_any_way(tmp_path: Path) -> None:
    reader = Actor(name="token:ci", scopes=frozenset({Scope.READ}))
    async with opened(tmp_path) as running:
        before = read_changes(running.store.location)
        with pytest.raises(Forbidden, match="token:ci is not allowed to use the command pause"):
            await running.dispatcher.run(reader, PauseSchedules(schedules=BOTH))
        with pytest.raises(Forbidden):
            open_handle(tmp_path, running.store.location, running.fleet).dispatcher.run(reader, PruneHistory())

        assert read_changes(running.store.location) == before


@pytest.mark.parametrize("way", [by_socket, without_node], ids=["socket", "direct"])
async def test_a_command_that_is_sent_again_is_answered_and_not_repeated(
    way: Any, tmp_path: Path, database: PostgresLocation
) -> None:
    """A client that gives up after 5 s does not know that the commit succeeded: its second try must not fire twice."""
    handle = open_handle(tmp_path, database, read_fleet(tmp_path))
    command = TriggerSchedule(schedule=HOURLY, queue=True)
    async with way(tmp_path, database) as (_, location):
        deliver = partial(replace(handle, path=location).dispatcher.deliver, YOU, command)

        first = await asyncio.to_thread(lambda: deliver(request_id="one"))
        again = await asyncio.to_thread(lambda: deliver(request_id="one"))
        other = await asyncio.to_thread(lambda: deliver(request_id="two"))

    assert first.result.success
    assert again.result == first.result
    assert other.result.beat != first.result.beat


def test_a_beat_with_the_senders_own_id_is_written_once(tmp_path: Path) -> None:
    fleet = read_fleet(tmp_path)
    prepare(ledger_path(tmp_path), fleet)
    dispatcher = open_handle(tmp_path, ledger_path(tmp_path), fleet).dispatcher

    first = dispatcher.run(YOU, TriggerSchedule(schedule=HOURLY, dedup_id="deploy-7"))
    again = dispatcher.run(YOU, TriggerSchedule(schedule=HOURLY, dedup_id="deploy-7"))
    elsewhere = dispatcher.run(YOU, TriggerSchedule(schedule=OFTEN, dedup_id="deploy-7", queue=True))

    assert (first.deduplicated, again.deduplicated, elsewhere.deduplicated) == (False, True, False)
    assert again.beat == first.beat


def test_a_bulk_change_goes_in_bounded_transactions_and_reports_its_progress(tmp_path: Path) -> None:
    fleet, progress = read_fleet(tmp_path), list[tuple[int, int]]()
    prepare(ledger_path(tmp_path), fleet)
    command = PauseSchedules(schedules=(HOURLY, OFTEN, *range(1_000, 1_150)))

    delivery = open_handle(tmp_path, ledger_path(tmp_path), fleet).dispatcher.deliver(
        YOU, command, lambda done, total: progress.append((done, total))
    )

    assert [each.schedule for each in delivery.result.items] == ["hourly", "often"]
    assert progress == [(100, 152), (152, 152)]


def test_a_command_waits_for_another_one_that_is_writing(tmp_path: Path) -> None:
    fleet = read_fleet(tmp_path)
    prepare(ledger_path(tmp_path), fleet)
    lock = StateLock(tmp_path)
    lock.acquire()
    releasing = threading.Timer(0.3, lock.release)
    releasing.start()

    done = open_handle(tmp_path, ledger_path(tmp_path), fleet).dispatcher.run(YOU, PauseSchedules(schedules=(1,)))

    releasing.join()
    assert done.items[0].changed


def test_a_command_that_needs_a_node_is_not_written_without_one(tmp_path: Path) -> None:
    fleet = read_fleet(tmp_path)
    prepare(ledger_path(tmp_path), fleet)
    before = read_changes(ledger_path(tmp_path))

    with pytest.raises(NotRunning):
        open_handle(tmp_path, ledger_path(tmp_path), fleet).dispatcher.deliver_to_node(
            YOU, PauseSchedules(schedules=(1,))
        )

    assert read_changes(ledger_path(tmp_path)) == before
