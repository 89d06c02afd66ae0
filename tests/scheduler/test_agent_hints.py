"""What agents ask for about their own schedule: wakes, paces, and that neither can be abused."""

import math
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.schedule_changes import HOUR, MINUTE, TEN, YOU, list_changes, make_limits, open_reader

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Limits
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.webhook_call import IncomingEvent
from herdbeat.durations import parse_duration
from herdbeat.governor import Pause
from herdbeat.scheduler import control
from herdbeat.scheduler.event_intake import enqueue_events
from herdbeat.service.commands.base import (
    Actor,
    CancelAgentHint,
    ClearHints,
    PaceAgent,
    ReportRun,
    Scope,
    SelfChange,
    SelfCommand,
    WakeAgent,
)
from herdbeat.service.commands.dispatch import execute
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Webhook

AGENT = Actor(name="agent:triage", scopes=frozenset({Scope.SELF}), target="triage")


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path, TEN) as opened:
        opened.schedule("triage", every="6h")
        await opened.tick()
        yield opened


def ask(herd: SimulatedHerd, command: type[SelfCommand], label: str = "triage", **fields: Any) -> SelfChange:
    number = herd.snapshot(label).id
    given = command(schedule=number, **{"reason": "waiting for the deploy", **fields})
    return herd.store.write_now(lambda tx: execute(tx, herd.now, AGENT, given))


def pending(herd: SimulatedHerd, label: str = "triage") -> list[datetime | None]:
    return [hint.at for hint in herd.snapshot(label).hints if hint.is_active(herd.now)]


async def test_the_next_beat_comes_when_the_agent_asked(herd: SimulatedHerd) -> None:
    answer = ask(herd, WakeAgent, after=1200.0, note="look at the deploy")

    await herd.advance(21 * MINUTE)

    assert (answer.changed, answer.at, answer.next_run_at) == (True, TEN + 20 * MINUTE, TEN + 20 * MINUTE)
    assert [(beat.due_at, beat.source) for beat in herd.beats("triage")][1:] == [(TEN + 20 * MINUTE, "ai-oneshot")]
    assert herd.next_run("triage") == TEN + 20 * MINUTE + 6 * HOUR


async def test_the_same_wake_twice_acts_once(herd: SimulatedHerd) -> None:
    first = ask(herd, WakeAgent, after=1200.0, note="x")
    herd.clock.advance(timedelta(seconds=5))

    second = ask(herd, WakeAgent, after=1200.0, note="x")

    assert (first.changed, second.changed) == (True, False)
    assert (second.id, second.at, second.wakes_left) == (first.id, first.at, 47)
    assert len(list_changes(herd)) == 1


async def test_a_new_wake_replaces_the_pending_one_and_leaves_those_of_people(herd: SimulatedHerd) -> None:
    herd.hint("triage", Hint(origin=YOU, at=TEN + 3 * HOUR, expires_at=TEN + 4 * HOUR, created_at=TEN))
    ask(herd, WakeAgent, after=1200.0)

    ask(herd, WakeAgent, at=TEN + HOUR)

    assert sorted(filter(None, pending(herd))) == [TEN + HOUR, TEN + 3 * HOUR]
    assert herd.next_run("triage") == TEN + HOUR


async def test_a_cancelled_wake_does_not_come_and_cancelling_twice_changes_nothing(herd: SimulatedHerd) -> None:
    ask(herd, WakeAgent, after=1200.0)

    first, second = ask(herd, CancelAgentHint), ask(herd, CancelAgentHint)
    await herd.advance(HOUR)

    assert (first.changed, second.changed) == (True, False)
    assert len(herd.beats("triage")) == 1
    assert second.notes == ("nothing to cancel: no such wake or pace of yours is in force",)


async def test_a_person_cancels_one_wake_by_its_id_and_leaves_the_rest(herd: SimulatedHerd) -> None:
    wake = ask(herd, WakeAgent, after=1200.0)
    pace = ask(herd, PaceAgent, every=3600.0)
    number = herd.snapshot("triage").id
    command = ClearHints(schedules=(number,), hint=wake.id)

    first, second = (
        herd.store.write_now(lambda tx: execute(tx, herd.now, Actor(name=YOU), command)).items[0] for _ in range(2)
    )

    assert (first.changed, second.changed) == (True, False)
    assert [hint.every for hint in herd.snapshot("triage").hints] == [HOUR]
    assert pace.id != wake.id
    assert second.notes == (f"no hint {wake.id} is in force",)


async def test_an_agent_cannot_end_the_hint_of_a_person_by_its_id(herd: SimulatedHerd) -> None:
    herd.hint("triage", Hint(origin=YOU, at=TEN + 3 * HOUR, expires_at=TEN + 4 * HOUR, created_at=TEN))
    number = herd.snapshot("triage").id
    machine = Actor(name="agent:other", scopes=frozenset({Scope.CONTROL}))

    answer = herd.store.write_now(
        lambda tx: execute(tx, herd.now, machine, ClearHints(schedules=(number,), hint=1))
    ).items[0]

    assert not answer.changed
    assert len(herd.snapshot("triage").hints) == 1


async def test_cancelling_reaches_no_hint_of_a_person(herd: SimulatedHerd) -> None:
    herd.hint("triage", Hint(origin=YOU, at=TEN + HOUR, expires_at=TEN + 2 * HOUR, created_at=TEN))
    with open_reader(herd) as reader:
        (theirs,) = reader.hints(None)

    answer = ask(herd, CancelAgentHint, hint=theirs.id)

    assert not answer.changed
    assert pending(herd) == [TEN + HOUR]


@pytest.mark.parametrize(
    ("fields", "code", "accepted"),
    [
        ({"after": 59.0}, "too_soon", {"after": "1m"}),
        ({"after": 1e-9}, "too_soon", {"after": "1m"}),
        ({"after": -5.0}, "too_soon", {"after": "1m"}),
        ({"after": -1e300}, "too_soon", {"after": "1m"}),
        ({"at": TEN - HOUR}, "too_soon", {"after": "1m"}),
        ({"after": 100 * 365 * 86_400.0}, "too_late", {"after": "30d"}),
        ({"after": 1e300}, "too_late", {"after": "30d"}),
        ({"after": math.nan}, "bad_duration", {}),
        ({"after": math.inf}, "bad_duration", {}),
        ({"at": TEN.replace(tzinfo=None)}, "no_offset", {}),
        ({}, "one_time", {}),
        ({"after": 1200.0, "at": TEN + HOUR}, "one_time", {}),
        ({"after": 1200.0, "reason": " "}, "no_reason", {}),
    ],
)
async def test_a_wake_that_cannot_be_is_refused_with_what_can(
    herd: SimulatedHerd, fields: dict[str, Any], code: str, accepted: dict[str, str]
) -> None:
    answer = ask(herd, WakeAgent, **fields)

    assert (answer.refused, dict(answer.accepted), answer.changed) == (code, accepted, False)
    assert answer.detail
    assert answer.hint
    assert pending(herd) == []


@pytest.mark.parametrize(
    ("fields", "code", "accepted"),
    [
        ({"every": 5.0}, "below_min_interval", {"every": "15s"}),
        ({"every": math.nan}, "bad_duration", {"every": "1s"}),
        ({"every": -1.0}, "bad_duration", {"every": "1s"}),
        ({"every": 1e-9}, "bad_duration", {"every": "1s"}),
        ({"every": 100 * 365 * 86_400.0}, "too_long", {"every": "30d"}),
        ({"every": 20.0, "lasts": 90_000.0}, "too_long", {"for": "1d"}),
        ({"every": 20.0, "lasts": math.inf}, "bad_duration", {"for": "1s"}),
    ],
)
async def test_a_pace_that_cannot_be_is_refused_with_what_can(
    tmp_path: Path, fields: dict[str, Any], code: str, accepted: dict[str, str]
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="1h", limits=make_limits(15, 900))
        await herd.tick()

        answer = ask(herd, PaceAgent, **fields)

        assert (answer.refused, dict(answer.accepted)) == (code, accepted)
        assert herd.snapshot("triage").hints == ()


async def test_a_pace_says_what_is_effective_and_repeats_without_effect(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="1h", limits=make_limits(15, 900))
        await herd.tick()

        slow, again = ask(herd, PaceAgent, every=1800.0), ask(herd, PaceAgent, every=1800.0)
        fast = ask(herd, PaceAgent, every=20.0, lasts=600.0)

        assert (slow.every_s, slow.effective_every_s, slow.changed, again.changed) == (1800, 900, True, False)
        assert slow.notes == ("requested 30m, will run every 15m: max_interval 15m (clamped-max)",)
        assert (fast.next_run_at, fast.until) == (TEN + timedelta(seconds=20), TEN + timedelta(seconds=600))
        assert len([each for each in herd.snapshot("triage").hints if each.is_active(herd.now)]) == 1


@pytest.mark.parametrize(
    ("own", "least", "every", "accepted"),
    [("6h", None, 1.0, "1m"), ("6h", None, 59.9, "1m"), ("6h", 5, 4.0, "5s"), ("20s", None, 19.0, "20s")],
)
async def test_an_agent_without_min_interval_cannot_run_itself_every_second(
    tmp_path: Path, own: str, least: int | None, every: float, accepted: str
) -> None:
    """A pace would pass the cap of wakes: 1 s for a day were 86,400 runs that somebody pays."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every=own, limits=make_limits(least, 86_400) if least else Limits())
        answer = ask(herd, PaceAgent, every=every)

        assert (answer.refused, answer.accepted) == ("below_min_interval", {"every": accepted})
        assert ask(herd, PaceAgent, every=parse_duration(accepted).total_seconds()).changed


async def test_a_pace_below_a_persons_says_that_it_is_shadowed(herd: SimulatedHerd) -> None:
    herd.hint("triage", Hint(origin=YOU, every=HOUR, expires_at=TEN + 4 * HOUR, created_at=TEN))

    answer = ask(herd, PaceAgent, every=60.0)

    assert answer.notes == ("shadowed by human:you (every 1h), which ranks higher",)
    assert answer.next_run_at == TEN + HOUR


async def test_wakes_are_counted_per_day_also_those_that_were_replaced(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="6h", wakes_per_day=3)
        await herd.tick()
        for number in range(3):
            assert ask(herd, WakeAgent, after=3600.0 + number).wakes_left == 2 - number

        refused = ask(herd, WakeAgent, after=4000.0)
        herd.clock.advance(15 * HOUR)
        tomorrow = ask(herd, WakeAgent, after=4000.0)

        assert (refused.refused, tomorrow.changed) == ("too_many_wakes", True)
        assert "2026-03-03T00:00:00Z" in refused.hint


async def test_ten_thousand_requests_leave_one_wake_and_one_pace(herd: SimulatedHerd) -> None:
    number = herd.snapshot("triage").id
    wakes = [WakeAgent(schedule=number, after=3600.0 + place, reason="flood") for place in range(5_000)]
    paces = [PaceAgent(schedule=number, every=60.0 + place, reason="flood") for place in range(5_000)]

    answers = herd.store.write_now(lambda tx: [execute(tx, herd.now, AGENT, each) for each in (*wakes, *paces)])

    assert sum(each.changed for each in answers) == 30
    assert {each.refused for each in answers} == {"", "too_many_hints", "too_many_wakes"} - {"too_many_wakes"}
    assert len(pending(herd)) == 1


async def test_a_persons_pause_holds_a_wake_and_no_request_lifts_it(herd: SimulatedHerd) -> None:
    herd.pause("triage")

    answer = ask(herd, WakeAgent, after=1200.0)
    ask(herd, PaceAgent, every=60.0)
    await herd.advance(2 * HOUR)

    assert answer.notes == ("the schedule is paused; the hint takes effect when it is resumed",)
    assert len(herd.beats("triage")) == 1
    assert herd.snapshot("triage").pause is not None


async def test_an_agent_reaches_no_other_schedule_and_no_other_command(herd: SimulatedHerd) -> None:
    from herdbeat.service.commands.base import Forbidden, PauseSchedules

    herd.schedule("victim", every="1h")
    await herd.tick()
    victim = herd.snapshot("victim").id

    def refuse(command: Any) -> None:
        with pytest.raises(Forbidden):
            herd.store.write_now(lambda tx: execute(tx, herd.now, AGENT, command))

    for command in (
        WakeAgent(schedule=victim, after=1200.0, reason="x"),
        PaceAgent(schedule=victim, every=60.0, reason="x"),
        CancelAgentHint(schedule=victim, reason="x"),
        ReportRun(schedule=victim),
        PauseSchedules(schedules=(victim,)),
        ClearHints(schedules=(herd.snapshot("triage").id,)),
    ):
        refuse(command)

    assert herd.snapshot("victim").hints == ()


async def test_only_an_active_run_of_the_schedule_can_ask(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="6h", runner=runner)
        herd.schedule("other", every="6h")
        await herd.tick()
        run = runner.runs[0].run_id
        other = next(each for each in range(1, 9) if each != run)

        during = ask(herd, ReportRun, run=run, metrics={"open": 3}, quiet=True)
        repeated = ask(herd, ReportRun, run=run, metrics={"open": 3}, quiet=True)
        foreign = ask(herd, ReportRun, run=other)
        runner.let_go()
        await herd.tick()
        after = ask(herd, WakeAgent, run=run, after=1200.0)

        assert (during.changed, repeated.changed) == (True, False)
        assert (foreign.refused, after.refused) == ("run_ended", "run_ended")
        assert ask(herd, ReportRun).refused == "no_run"


@pytest.mark.parametrize(
    "metrics",
    [
        {"a": math.nan},
        {"a": [1]},
        {"a": {"b": 1}},
        {"a": None},
        {"": 1},
        {"a": "x" * 201},
        {"a": 10**400},
        {"n" * 65: 1},
    ],
)
async def test_metrics_that_no_rule_could_read_are_refused(tmp_path: Path, metrics: dict[str, Any]) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="6h", runner=runner)
        await herd.tick()

        assert ask(herd, ReportRun, run=runner.runs[0].run_id, metrics=metrics).refused == "bad_metric"


async def test_the_wake_of_an_event_schedule_makes_one_beat(herd: SimulatedHerd) -> None:
    make_webhook(herd, "triage/hook")

    answer = ask(herd, WakeAgent, "triage/hook", after=1200.0, note="and then?")
    await herd.advance(2 * HOUR)

    assert (answer.next_run_at, answer.notes) == (TEN + 20 * MINUTE, ())
    assert [(beat.due_at, beat.source, beat.outcome) for beat in herd.beats("triage/hook")] == [
        (TEN + 20 * MINUTE, Source.AI_ONESHOT, "ran")
    ]
    assert herd.next_run("triage/hook") is None


async def test_a_pause_settles_the_wake_of_an_event_schedule(herd: SimulatedHerd) -> None:
    make_webhook(herd, "triage/hook")
    ask(herd, WakeAgent, "triage/hook", after=1200.0)
    number = herd.snapshot("triage/hook").id

    hold = Pause(until=TEN + HOUR, by=YOU, reason="")
    herd.store.write_now(lambda tx: control.pause(tx, herd.now, number, hold))
    await herd.advance(30 * MINUTE)

    assert herd.beats("triage/hook") == []


async def test_an_event_schedule_has_no_pace_and_a_persons_hint_does_not_fire_it(herd: SimulatedHerd) -> None:
    make_webhook(herd, "triage/hook")

    answer = ask(herd, PaceAgent, "triage/hook", every=60.0)
    herd.hint("triage/hook", Hint(origin=YOU, at=TEN + HOUR, expires_at=TEN + 2 * HOUR, created_at=TEN))
    await herd.advance(3 * HOUR)

    assert answer.refused == "no_pace"
    assert herd.beats("triage/hook") == []


async def test_the_note_of_a_wake_belongs_to_the_run_that_it_caused(herd: SimulatedHerd) -> None:
    ask(herd, WakeAgent, after=1200.0, note="look at the deploy")

    await herd.advance(7 * HOUR)

    with open_reader(herd) as reader:
        notes = [reader.wake_note(run) for run in (1, 2, 3)]
    assert notes == ["", "look at the deploy", ""]


async def test_a_wake_out_of_an_event_brings_its_payload_again_also_from_wake_to_wake(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        make_webhook(herd, "triage/hook", runner)
        await herd.tick()
        event = IncomingEvent(schedule=herd.snapshot("triage/hook").id, event_id="d1", data='{"payload": {"pr": 7}}')
        herd.store.write_now(lambda tx: enqueue_events(tx, herd.now, [event]))

        for run in range(2):
            await herd.tick()
            ask(herd, WakeAgent, "triage/hook", run=runner.runs[run].run_id, after=1200.0)
            runner.let_go()
            await herd.settle()
            runner.hold()
            herd.clock.advance(21 * MINUTE)
        await herd.tick()

        with open_reader(herd) as reader:
            data = [reader.wake_data(each.run_id) for each in runner.runs]
        assert data == [None, '{"payload": {"pr": 7}}', '{"payload": {"pr": 7}}']


def make_webhook(herd: SimulatedHerd, label: str, runner: ScriptedRunner | None = None) -> None:
    """A schedule that only an event fires."""
    herd.schedule(label, every="1d", runner=runner)
    known: Schedule = herd.own(label)
    from dataclasses import replace

    herd._schedules[known.id] = replace(known, trigger=Webhook())
