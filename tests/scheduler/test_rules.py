"""Rules in the real scheduler: results become hints, pauses and beats of other schedules, within the limits."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Limits, Overlap
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.events import Event, RuleEffectKind, RuleFired
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Manual

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
SURGE = {"name": "surge", "when": "response.depth > 100", "until": "response.depth < 50", "every": "30s", "for": "15m"}


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path) as opened:
        yield opened


def responses(*depths: Any) -> ScriptedRunner:
    return ScriptedRunner(outcomes=[Outcome(status=RunStatus.SUCCEEDED, response={"depth": depth}) for depth in depths])


async def test_a_rule_makes_a_schedule_faster_until_its_condition_ends(herd: SimulatedHerd) -> None:
    runner = responses(10, 150, 70, 40, 10)
    herd.schedule("queue", every="5m", runner=runner, adapt=(SURGE,))

    starts = []
    for _ in range(5):
        await herd.tick()
        starts.append(herd.now - MONDAY)
        next_run = herd.next_run("queue")
        assert next_run is not None
        herd.clock.advance(next_run - herd.now)

    assert starts == [timedelta(0), 5 * MINUTE, 5 * MINUTE + 30 * SECOND, 6 * MINUTE, 11 * MINUTE]


async def test_what_a_rule_changes_is_told_once_and_renewals_are_silent(tmp_path: Path) -> None:
    events: list[Event] = []
    depth = "response.depth = 300"
    again = {"name": "again", "when": "response.depth > 200", "run_in": "10s"}
    drain = {"name": "drain", "when": "response.depth > 200", "trigger": "workers"}
    async with open_herd(tmp_path, listener=events.append) as herd:
        herd.schedule("queue", every="5m", runner=responses(10, 150, 160, 40, 10), adapt=(SURGE,))
        herd.schedule("jobs", every="7d", runner=responses(300), adapt=(again, drain))
        herd.schedule("workers", every="7d", runner=ScriptedRunner(), first_run="after_interval")

        await herd.advance(11 * MINUTE)

    fired_at = MONDAY + 5 * MINUTE
    assert [each for each in events if isinstance(each, RuleFired)] == [
        RuleFired(MONDAY, "jobs/default", "again", RuleEffectKind.RUN_IN, depth, until=MONDAY + 10 * SECOND),
        RuleFired(MONDAY, "jobs/default", "drain", RuleEffectKind.TRIGGER, depth, triggers="workers/default"),
        RuleFired(
            fired_at,
            "queue/default",
            "surge",
            RuleEffectKind.EVERY,
            "response.depth = 150",
            every=30 * SECOND,
            until=fired_at + 15 * MINUTE,
        ),
        RuleFired(fired_at + MINUTE, "queue/default", "surge", RuleEffectKind.END, ""),
    ]


async def test_the_decision_names_the_rule_that_asked_for_it(herd: SimulatedHerd) -> None:
    herd.schedule("queue", every="5m", runner=responses(150), adapt=(SURGE,))

    await herd.tick()

    snapshot = herd.snapshot("queue")
    assert herd.why("queue") is Source.AI_INTERVAL
    assert [(hint.origin, hint.reason) for hint in snapshot.hints] == [("rule:surge", "response.depth = 150")]


async def test_a_rule_never_exceeds_the_limits(herd: SimulatedHerd) -> None:
    herd.schedule("queue", every="5m", runner=responses(150), adapt=(SURGE,), limits=Limits(at_least=2 * MINUTE))

    await herd.tick()

    assert herd.next_run("queue") == herd.now + 2 * MINUTE
    assert herd.why("queue") is Source.CLAMPED_MIN


async def test_a_hint_by_a_person_outranks_a_rule(herd: SimulatedHerd) -> None:
    herd.schedule("queue", every="5m", runner=responses(10, 150), adapt=(SURGE,))
    await herd.tick()
    herd.hint("queue", Hint(origin="human:you", every=MINUTE, expires_at=herd.now + timedelta(hours=1)))

    await herd.advance(MINUTE)

    assert herd.next_run("queue") == herd.now + MINUTE


async def test_a_renewed_hint_is_one_row(herd: SimulatedHerd) -> None:
    herd.schedule("queue", every="5m", runner=responses(150, 160, 170, 180), adapt=(SURGE,))

    await herd.advance(95 * SECOND)

    assert len(herd.beats("queue")) == 4
    assert len(herd.snapshot("queue").hints) == 1


async def test_an_idle_schedule_backs_off_and_comes_back_at_the_first_work(herd: SimulatedHerd) -> None:
    idle = {"name": "idle", "when": "response.depth == 0", "every": "2x"}
    runner = responses(0, 0, 0, 3)
    herd.schedule("inbox", every="5m", runner=runner, adapt=(idle,), limits=Limits(at_most=15 * MINUTE))

    distances = []
    for _ in range(4):
        await herd.tick()
        next_run = herd.next_run("inbox")
        assert next_run is not None
        distances.append(next_run - herd.now)
        herd.clock.advance(next_run - herd.now)

    assert distances == [10 * MINUTE, 15 * MINUTE, 15 * MINUTE, 5 * MINUTE]


async def test_an_idle_schedule_keeps_its_slow_pace_between_when_and_until(herd: SimulatedHerd) -> None:
    idle = {"name": "idle", "when": "response.depth == 0", "until": "response.depth > 10", "every": "2x"}
    herd.schedule("inbox", every="5m", runner=responses(0, 5, 5, 5, 5, 5, 0, 11), adapt=(idle,))

    distances = []
    for _ in range(8):
        await herd.tick()
        next_run = herd.next_run("inbox")
        assert next_run is not None
        distances.append(next_run - herd.now)
        herd.clock.advance(next_run - herd.now)

    assert distances == [*[10 * MINUTE] * 6, 20 * MINUTE, 5 * MINUTE]


async def test_a_rule_pauses_and_the_schedule_goes_on_by_itself(herd: SimulatedHerd) -> None:
    stop = {"name": "stop", "when": "response.depth > 100", "pause": "30m"}
    herd.schedule("queue", every="5m", runner=responses(150, 10), adapt=(stop,))
    await herd.tick()

    pause = herd.snapshot("queue").pause
    assert pause is not None
    assert (pause.by, pause.until) == ("rule:stop", herd.now + 30 * MINUTE)

    await herd.advance(31 * MINUTE)
    assert len(herd.beats("queue")) >= 2


async def test_a_rule_never_shortens_the_pause_of_a_person(herd: SimulatedHerd) -> None:
    stop = {"name": "stop", "when": "response.depth > 100", "pause": "1m"}
    runner = responses(150)
    runner.holds = True
    held = ScriptedRunner(holds=True, outcomes=runner.outcomes)
    herd.schedule("queue", every="5m", runner=held, adapt=(stop,))
    await herd.tick()
    herd.pause("queue", until=herd.now + timedelta(hours=2))

    held.let_go()
    await herd.settle()

    pause = herd.snapshot("queue").pause
    assert pause is not None
    assert (pause.by, pause.until) == ("human:you", MONDAY + timedelta(hours=2))


async def test_a_rule_starts_another_schedule_once_per_run(herd: SimulatedHerd) -> None:
    drain = {"name": "drain", "when": "response.depth > 100", "trigger": "workers"}
    workers = ScriptedRunner()
    herd.schedule("queue", every="5m", runner=responses(150, 10, 150), adapt=(drain,))
    herd.schedule("workers", every="7d", runner=workers, first_run="after_interval")

    await herd.advance(11 * MINUTE)

    started = [(claim.source, claim.dedup_id) for claim in workers.runs if claim.source is Source.RULE_TRIGGER]
    assert len(started) == 2
    assert all(dedup_id.startswith("rule:drain:") for _, dedup_id in started)


@pytest.mark.parametrize(("hold", "reason"), [("pause", "paused"), ("disable", "disabled")])
async def test_a_rule_does_not_start_what_a_person_has_paused_and_its_trigger_is_recorded(
    herd: SimulatedHerd, hold: str, reason: str
) -> None:
    drain = {"name": "drain", "when": "response.depth > 100", "trigger": "workers"}
    workers = ScriptedRunner()
    herd.schedule("queue", every="5m", runner=responses(150, 10), adapt=(drain,))
    herd.schedule("workers", every="7d", runner=workers, first_run="after_interval")
    getattr(herd, hold)("workers")

    await herd.tick()

    assert workers.runs == []
    assert [(beat.outcome, beat.reason, beat.source) for beat in herd.beats("workers")] == [
        ("skipped", reason, Source.RULE_TRIGGER)
    ]


async def test_a_chain_of_triggers_ends(herd: SimulatedHerd) -> None:
    always = {"name": "again", "when": "true", "trigger": "second"}
    back = {"name": "back", "when": "true", "trigger": "first"}
    first, second = ScriptedRunner(), ScriptedRunner()
    herd.schedule("first", every="7d", runner=first, adapt=(always,))
    herd.schedule("second", every="7d", runner=second, adapt=(back,), first_run="after_interval")

    await herd.tick()

    assert (len(first.runs), len(second.runs)) == (2, 2)


async def test_missing_data_changes_nothing_and_is_remembered(herd: SimulatedHerd) -> None:
    runner = ScriptedRunner(outcomes=[Outcome(status=RunStatus.SUCCEEDED, response={"other": 1})])
    herd.schedule("queue", every="5m", runner=runner, adapt=(SURGE,))

    await herd.tick()

    step = herd.rule_steps("queue")["surge"]
    assert (step.outcome, step.error) == ("undecidable", "response.depth is missing")
    assert herd.next_run("queue") == herd.now + 5 * MINUTE


async def test_a_response_that_was_too_large_is_undecidable(herd: SimulatedHerd) -> None:
    runner = ScriptedRunner(outcomes=[Outcome(status=RunStatus.SUCCEEDED, is_response_too_large=True)])
    herd.schedule("queue", every="5m", runner=runner, adapt=({"name": "any", "when": "run.ok", "every": "30s"},))

    await herd.tick()

    assert herd.rule_steps("queue")["any"].error == "too_large"


async def test_rules_read_the_runs_before(herd: SimulatedHerd) -> None:
    growing = {"name": "growing", "when": "response.depth > previous.response.depth * 1.5", "run_in": "1m"}
    herd.schedule("queue", every="5m", runner=responses(10, 30, 31), adapt=(growing,))

    await herd.tick()
    assert herd.rule_steps("queue")["growing"].outcome == "undecidable"
    await herd.advance(5 * MINUTE)

    assert herd.next_run("queue") == herd.now + MINUTE
    assert herd.rule_steps("queue")["growing"].reads == {
        "response.depth": 30,
        "previous.response.depth": 10,
    }


async def test_a_rule_reads_its_siblings_in_the_same_group_only(herd: SimulatedHerd) -> None:
    when = 'siblings["workers"].ok == false'
    slow = {"name": "slow", "when": when, "every": "1h"}
    herd.schedule("workers", every="1m", runner=ScriptedRunner(fails=9), group="checkout")
    herd.schedule("queue", every="5m", group="checkout", adapt=(slow,))
    herd.schedule("stranger", every="5m", group="other", adapt=(slow,))

    await herd.advance(6 * MINUTE)

    assert herd.rule_steps("queue")["slow"].outcome == "fired"
    assert herd.rule_steps("stranger")["slow"].outcome == "undecidable"


async def test_edited_rules_begin_anew_with_the_next_run(herd: SimulatedHerd) -> None:
    held = ScriptedRunner(holds=True, outcomes=responses(150).outcomes)
    herd.schedule("queue", every="5m", runner=held, adapt=(SURGE,))
    await herd.tick()
    herd.schedule("queue", every="5m", runner=held, adapt=(SURGE, {"name": "more", "when": "true", "every": "1m"}))
    herd.snapshot("queue")

    held.let_go()
    await herd.settle()

    assert herd.rule_steps("queue") == {}


async def test_a_rule_that_replaced_another_does_not_act_on_what_the_other_one_found(herd: SimulatedHerd) -> None:
    held = ScriptedRunner(holds=True, outcomes=responses(150).outcomes)
    herd.schedule("queue", every="5m", runner=held, adapt=(SURGE,))
    await herd.tick()
    stop = {"name": "stop", "when": "response.depth < 5", "pause": "1h"}
    herd.schedule("queue", every="5m", runner=held, adapt=(stop,))
    herd.snapshot("queue")

    held.let_go()
    await herd.settle()

    assert herd.snapshot("queue").pause is None
    assert herd.rule_steps("queue") == {}


async def test_an_edit_of_the_action_keeps_what_the_conditions_have_found(herd: SimulatedHerd) -> None:
    held = ScriptedRunner(holds=True, outcomes=responses(150).outcomes)
    herd.schedule("queue", every="5m", runner=held, adapt=(SURGE,))
    await herd.tick()
    herd.schedule("queue", every="5m", runner=held, adapt=({**SURGE, "every": "20s"},))
    herd.snapshot("queue")

    held.let_go()
    await herd.settle()

    assert herd.next_run("queue") == herd.now + 20 * SECOND


async def test_the_hint_of_a_rule_ends_when_the_rule_is_removed(herd: SimulatedHerd) -> None:
    calm = {"name": "calm", "when": "response.depth < 5", "every": "1h"}
    herd.schedule("queue", every="5m", runner=responses(150), adapt=({**SURGE, "for": "10h"}, calm))
    await herd.tick()
    before = herd.next_run("queue")

    herd.schedule("queue", every="5m", runner=responses(150), adapt=(calm,))

    assert (before, herd.next_run("queue")) == (herd.now + 30 * SECOND, herd.now + 5 * MINUTE)
    assert herd.snapshot("queue").hints == ()


async def test_a_back_off_begins_at_the_pace_that_the_limits_allow(herd: SimulatedHerd) -> None:
    idle = {"name": "idle", "when": "response.depth == 0", "every": "2x"}
    limits = Limits(at_least=2 * MINUTE, at_most=5 * MINUTE)
    herd.schedule("queue", every="10s", runner=responses(0, 0), adapt=(idle,), limits=limits)

    await herd.tick()
    first = herd.next_run("queue")
    await herd.advance(4 * MINUTE)

    assert first == MONDAY + 4 * MINUTE
    assert herd.next_run("queue") == MONDAY + 9 * MINUTE


async def test_a_rule_fills_no_queue_beyond_max_queued(herd: SimulatedHerd) -> None:
    drain = {"name": "drain", "when": "response.depth > 100", "trigger": "workers"}
    workers = ScriptedRunner(holds=True)
    herd.schedule("queue", every="1m", runner=responses(*[150] * 9), adapt=(drain,))
    herd.schedule("workers", trigger=Manual(), runner=workers, max_queued=2, overlap=Overlap.QUEUE_ALL)

    await herd.advance(8 * MINUTE)

    assert [each.outcome for each in herd.beats("workers")] == ["running", "pending", "pending"]


async def test_a_run_that_was_declined_by_its_precheck_is_not_evaluated(herd: SimulatedHerd) -> None:
    failing = {"name": "failing", "when": "!run.ok", "pause": "1h"}
    declined = Outcome(status=RunStatus.SKIPPED, skip=SkipReason.PRECHECK)
    herd.schedule("queue", every="5m", runner=ScriptedRunner(outcomes=[declined]), adapt=(failing,))

    await herd.tick()

    assert herd.snapshot("queue").pause is None
    assert herd.rule_steps("queue") == {}


async def test_runs_that_end_together_advance_the_rules_one_after_the_other(herd: SimulatedHerd) -> None:
    held = ScriptedRunner(holds=True, outcomes=responses(0, 0, 0).outcomes)
    idle = {"name": "idle", "when": "response.depth == 0", "every": "2x"}
    third = {"name": "third", "when": "response.depth == 0", "for_runs": 3, "trigger": "other"}
    other = ScriptedRunner()
    herd.schedule(
        "inbox", every="5m", fixed_rate=True, runner=held, overlap=Overlap.ALLOW, max_concurrent=3, adapt=(idle, third)
    )
    herd.schedule("other", trigger=Manual(), runner=other)
    await herd.advance(10 * MINUTE)

    held.let_go()
    await herd.settle()

    assert len(held.runs) == 3
    assert [hint.every for hint in herd.snapshot("inbox").hints] == [40 * MINUTE]
    await herd.tick()
    assert len(other.runs) == 1
