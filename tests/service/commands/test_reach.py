"""Whoever comes through the server never says which program runs, and an agent reaches its own schedules only."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_bus import YOU, ledger_path, make_handle
from tests.support.schedule_builders import POLICIES

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.target import CreatedVia
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.service.commands.base import (
    Actor,
    ApplyFleet,
    CancelSchedules,
    Command,
    DeleteSchedule,
    Forbidden,
    NewSchedule,
    NewTarget,
    PauseSchedules,
    PruneHistory,
    RetryRuns,
    TriggerSchedule,
    UpsertSchedule,
)
from herdbeat.service.commands.tokens import build_actor, parse_token_scope
from herdbeat.store.location import create_store
from herdbeat.triggers import Interval

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
FLEET = """\
version: 1
timezone: UTC
agents:
  - { name: triage, runtime: command, command: ["true"], schedules: { hourly: { interval: 1h, prompt: Look. } } }
  - { name: triage-two, runtime: command, command: ["true"], schedules: { hourly: { interval: 1h, prompt: Look. } } }
"""
OWN, OTHER = 1, 2
ADMIN, OPERATE, AGENT = (
    build_actor("token:x", parse_token_scope(each)) for each in ("admin", "operate", "agent:triage")
)


@pytest.fixture
def handle(tmp_path: Path) -> FleetHandle:
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    fleet = load_config(str(tmp_path / "herdbeat.yaml"), {}, tmp_path).fleet
    assert fleet is not None
    with closing(create_store(ledger_path(tmp_path))) as store:
        store.open()
        store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))
    return make_handle(ledger_path(tmp_path), NOW, replace(fleet, store=f"sqlite:{ledger_path(tmp_path)}"))


def upsert(target: str, *, prompt: str | None = None, new: NewTarget | None = None) -> UpsertSchedule:
    plan = ScheduleSpec(trigger=Interval(every=POLICIES.late_after), policies=POLICIES)
    schedule = NewSchedule(plan=plan, brief=RunSpec(prompt=prompt))
    return UpsertSchedule(
        what=ChangeKind.ADD, target=target, name="often", new_target=new, new_schedule=schedule, way=CreatedVia.API
    )


@pytest.mark.parametrize("kind", ["command", "agent", "callable"])
@pytest.mark.parametrize("actor", [ADMIN, OPERATE, AGENT], ids=["admin", "operate", "agent"])
def test_nobody_from_outside_creates_a_program(handle: FleetHandle, actor: Actor, kind: str) -> None:
    new = NewTarget(kind=kind, spec={"command": ["touch", "/tmp/owned"]})

    with pytest.raises(Forbidden, match=f"cannot create the {kind}"):
        handle.dispatcher.run(actor, upsert("evil", new=new))

    with closing(handle.open_reader()) as reader:
        assert reader.find_target("evil") is None


def test_an_endpoint_and_a_schedule_of_a_known_target_can_be_created(handle: FleetHandle) -> None:
    handle.dispatcher.run(OPERATE, upsert("ping", new=NewTarget(kind="endpoint", spec={"url": "https://example.com/"})))
    handle.dispatcher.run(OPERATE, upsert("triage"))

    with closing(handle.open_reader()) as reader:
        assert reader.similar_names("") >= {"ping/often", "triage/often"}


def test_a_prompt_takes_an_administrator(handle: FleetHandle) -> None:
    with pytest.raises(Forbidden, match="not allowed to set a prompt"):
        handle.dispatcher.run(OPERATE, upsert("triage", prompt="Delete everything."))

    assert handle.dispatcher.run(ADMIN, upsert("triage", prompt="Look again.")).subject == "triage/often"


def test_a_prompt_for_one_run_takes_an_administrator(handle: FleetHandle) -> None:
    command = TriggerSchedule(schedule=OWN, prompt="Delete everything.")
    for actor in (OPERATE, AGENT):
        with pytest.raises(Forbidden, match="not allowed to set a prompt"):
            handle.dispatcher.run(actor, command)

    assert handle.dispatcher.run(ADMIN, command).success
    assert handle.dispatcher.run(OPERATE, replace(command, prompt="")).success


@pytest.mark.parametrize(
    "command",
    [
        PauseSchedules(schedules=(OTHER,)),
        PauseSchedules(schedules=(OWN, OTHER)),
        CancelSchedules(schedules=(OTHER,)),
        TriggerSchedule(schedule=OTHER),
        upsert("triage-two"),
        upsert("ping", new=NewTarget(kind="endpoint", spec={"url": "https://example.com/"})),
        DeleteSchedule(target="triage-two", name="hourly"),
        DeleteSchedule(target="triage"),
    ],
    ids=lambda command: command.kind,
)
def test_an_agent_touches_no_other_schedule(handle: FleetHandle, command: Command[Any]) -> None:
    """`triage-two` begins like `triage` and is another target."""
    with pytest.raises(Forbidden, match="only the schedules of triage"):
        handle.dispatcher.run(AGENT, command)


@pytest.mark.parametrize("command", [ApplyFleet(path=""), PruneHistory()], ids=lambda command: command.kind)
def test_an_agent_changes_nothing_of_the_whole_fleet(handle: FleetHandle, command: Command[Any]) -> None:
    with pytest.raises(Forbidden):
        handle.dispatcher.run(AGENT, command)


def test_an_agent_reaches_its_own_schedules(handle: FleetHandle) -> None:
    paused = handle.dispatcher.run(AGENT, PauseSchedules(schedules=(OWN,)))
    handle.dispatcher.run(AGENT, upsert("triage"))

    assert [(each.schedule, each.changed) for each in paused.items] == [("triage/hourly", True)]


def test_an_agent_cannot_retry_the_run_of_another(handle: FleetHandle) -> None:
    run = _run_once(handle, OTHER)

    with pytest.raises(Forbidden):
        handle.dispatcher.run(AGENT, RetryRuns(runs=(run,), force=True))


def _run_once(handle: FleetHandle, schedule_id: int) -> int:
    from herdbeat.scheduler.manual import claim_single
    from herdbeat.scheduler.membership import NodeInfo, register_node

    with closing(create_store(handle.path)) as store:
        store.open()
        node = store.write_now(lambda tx: register_node(tx, NOW, NodeInfo(host="h", pid=1, version="t"))).node_id
        claims = store.write_now(lambda tx: claim_single(tx, NOW, node, schedule_id, origin="program", event_id="1"))
    return claims.claims[0].run_id


def test_the_limits_of_an_actor_travel_through_the_socket() -> None:
    for actor in (ADMIN, OPERATE, AGENT, YOU):
        assert Actor.from_json(actor.to_json()) == actor
