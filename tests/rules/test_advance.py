"""Rules over several runs: hysteresis, streaks, cooldowns, precedence, idle back-off; each line is one run."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from herdbeat.domain.rule_state import RuleState
from herdbeat.rules.advance import (
    AdvanceResult,
    EndRuleHints,
    Pace,
    RuleEffect,
    SetRuleHint,
    SetRulePause,
    StartOther,
    advance_rules,
    evaluate_rules,
    undecidable_truths,
)
from herdbeat.rules.rule import load_rules

START = datetime(2026, 11, 17, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Replay:
    """Runs a set of rules over one response a minute."""

    def __init__(self, *adapt: Mapping[str, object], pace: Pace | None = None) -> None:
        self.rules = load_rules(adapt)
        self.states: Mapping[str, RuleState] = {}
        self.now = START
        self.pace = pace or Pace()

    def run(self, **response: Any) -> AdvanceResult:
        return self._advance(evaluate_rules(self.rules, {"response": response, "run": {"ok": True}}))

    def run_unreadable(self, reason: str) -> AdvanceResult:
        return self._advance(undecidable_truths(self.rules, reason))

    def outcomes(self, *depths: int) -> list[str]:
        return [str(self.run(depth=depth).steps[0].outcome) for depth in depths]

    def _advance(self, truths: Any) -> AdvanceResult:
        advanced = advance_rules(self.rules, truths, self.states, self.pace, self.now)
        self.states = advanced.states
        self.now += MINUTE
        return advanced


def outcomes_of(advanced: AdvanceResult) -> list[str]:
    return [str(step.outcome) for step in advanced.steps]


def test_a_rule_fires_and_says_what_it_read() -> None:
    replay = Replay({"name": "surge", "when": "response.depth > 100", "every": "30s", "for": "15m"})

    advanced = replay.run(depth=150)

    hint = SetRuleHint(
        origin="rule:surge", every=timedelta(seconds=30), lasts=15 * MINUTE, reason="response.depth = 150"
    )
    assert advanced.effects == (hint,)
    assert advanced.steps[0].reads == {"response.depth": 150}


def test_between_when_and_until_the_hint_is_renewed() -> None:
    replay = Replay({"name": "surge", "when": "response.depth > 100", "until": "response.depth < 50", "every": "30s"})

    assert replay.outcomes(150, 70, 120, 60, 49, 70, 101) == [
        "fired",
        "renewed",
        "renewed",
        "renewed",
        "ended",
        "no-match",
        "fired",
    ]


def test_the_end_of_a_rule_ends_its_hints() -> None:
    replay = Replay({"name": "surge", "when": "response.depth > 100", "until": "response.depth < 50", "every": "30s"})
    replay.run(depth=150)

    assert replay.run(depth=10).effects == (EndRuleHints(origins=("rule:surge",)),)


def test_for_runs_counts_runs_in_a_row() -> None:
    replay = Replay({"name": "idle", "when": "response.depth == 0", "for_runs": 3, "every": "30m"})

    assert replay.outcomes(0, 0, 5, 0, 0, 0, 0) == [
        "waiting",
        "waiting",
        "no-match",
        "waiting",
        "waiting",
        "fired",
        "fired",
    ]


def test_missing_data_breaks_a_streak() -> None:
    replay = Replay({"name": "idle", "when": "response.depth == 0", "for_runs": 2, "every": "30m"})
    replay.run(depth=0)

    missing = replay.run(other=1)

    assert (missing.steps[0].outcome, missing.steps[0].error) == ("undecidable", "response.depth is missing")
    assert replay.outcomes(0, 0) == ["waiting", "fired"]


def test_a_rule_does_not_act_again_within_its_cooldown() -> None:
    replay = Replay({"name": "drain", "when": "response.depth > 100", "trigger": "drain", "cooldown": "2m"})

    assert replay.outcomes(150, 150, 150, 150, 150) == ["fired", "cooldown", "fired", "cooldown", "fired"]


def test_a_trigger_with_until_acts_once_until_then() -> None:
    rule = {"name": "drain", "when": "response.depth > 100", "until": "response.depth < 50", "trigger": "drain"}

    assert Replay(rule).outcomes(150, 150, 70, 40, 150) == ["fired", "active", "active", "ended", "fired"]


def test_the_first_pace_rule_that_fires_is_the_only_one_and_triggers_always_act() -> None:
    replay = Replay(
        {"name": "calm", "when": "response.depth == 0", "every": "30m"},
        {"name": "surge", "when": "response.depth > 100", "every": "30s"},
        {"name": "busy", "when": "response.depth > 10", "every": "1m"},
        {"name": "drain", "when": "response.depth > 100", "trigger": "drain"},
    )

    advanced = replay.run(depth=150)

    assert outcomes_of(advanced) == ["no-match", "fired", "shadowed", "fired"]
    assert [type(effect) for effect in advanced.effects] == [SetRuleHint, StartOther]


def test_an_idle_back_off_doubles_the_pace_and_ends_with_the_first_non_match() -> None:
    rule = {"name": "idle", "when": "response.depth == 0", "every": "2x"}
    replay = Replay(rule, pace=Pace(interval=5 * MINUTE, max_interval=15 * MINUTE))

    first = replay.run(depth=0)
    replay.pace = Pace(interval=10 * MINUTE, max_interval=15 * MINUTE)
    second = replay.run(depth=0)
    third = replay.run(depth=3)

    assert _intervals(first.effects) == [10 * MINUTE]
    assert _intervals(second.effects) == [15 * MINUTE]
    assert third.effects == (EndRuleHints(origins=("rule:idle",)),)


def test_between_when_and_until_an_idle_back_off_keeps_its_pace_and_does_not_double_it() -> None:
    rule = {"name": "idle", "when": "response.depth == 0", "until": "response.depth > 10", "every": "2x"}
    replay = Replay(rule, pace=Pace(interval=5 * MINUTE, max_interval=60 * MINUTE))

    first = replay.run(depth=0)
    replay.pace = Pace(interval=10 * MINUTE, max_interval=60 * MINUTE, hinted={"rule:idle": 10 * MINUTE})
    between = [replay.run(depth=5), replay.run(depth=5)]
    again = replay.run(depth=0)
    over = replay.run(depth=11)

    assert _intervals(first.effects) == [10 * MINUTE]
    assert [_intervals(each.effects) for each in between] == [[10 * MINUTE], [10 * MINUTE]]
    assert _intervals(again.effects) == [20 * MINUTE]
    assert over.effects == (EndRuleHints(origins=("rule:idle",)),)


def test_an_idle_back_off_has_no_effect_on_a_calendar() -> None:
    replay = Replay({"name": "idle", "when": "response.depth == 0", "every": "2x"}, pace=Pace())

    assert replay.run(depth=0).effects == ()


def test_pause_run_in_and_clear_are_effects() -> None:
    replay = Replay(
        {"name": "stop", "when": "response.depth == 1", "pause": "30m"},
        {"name": "soon", "when": "response.depth == 2", "run_in": "1m"},
        {"name": "reset", "when": "response.depth == 3", "clear": True},
    )

    effects = [replay.run(depth=depth).effects for depth in (1, 2, 3)]

    assert effects == [
        (SetRulePause(origin="rule:stop", until=START + 30 * MINUTE, reason="response.depth = 1"),),
        (SetRuleHint(origin="rule:soon", at=START + 2 * MINUTE, lasts=15 * MINUTE, reason="response.depth = 2"),),
        (EndRuleHints(origins=("rule:stop", "rule:soon", "rule:reset")),),
    ]


def test_a_response_that_was_too_large_decides_nothing() -> None:
    replay = Replay({"name": "idle", "when": "response.depth != 5", "every": "30m"})

    step = replay.run_unreadable("too_large").steps[0]

    assert (step.outcome, step.error) == ("undecidable", "too_large")


def test_an_active_rule_is_kept_while_its_end_cannot_be_decided() -> None:
    replay = Replay({"name": "surge", "when": "response.depth > 100", "until": "response.depth < 50", "every": "30s"})
    replay.run(depth=150)

    assert outcomes_of(replay.run(other=1)) == ["undecidable"]
    assert replay.outcomes(70) == ["renewed"]


@pytest.mark.parametrize(
    ("reason", "rendered"),
    [
        ("queue at {{ response.depth }}", "queue at 150"),
        ("queue at {{response.depth}}", "queue at 150"),
        ("{{ response.text }}", "{{ response.depth }}"),
        ("{{ response.unknown }}", "{{ response.unknown }}"),
        ("", "response.depth = 150, response.text = {{ response.depth }}"),
    ],
)
def test_a_reason_shows_the_values_that_were_read_and_scans_none_of_them_again(reason: str, rendered: str) -> None:
    when = 'response.depth > 100 && response.text != ""'
    replay = Replay({"name": "surge", "when": when, "every": "30s", "reason": reason})

    (effect,) = replay.run(depth=150, text="{{ response.depth }}").effects

    assert isinstance(effect, SetRuleHint)
    assert effect.reason == rendered


def _intervals(effects: tuple[RuleEffect, ...]) -> list[timedelta | None]:
    return [effect.every for effect in effects if isinstance(effect, SetRuleHint)]


def test_an_active_rule_that_has_lost_its_until_ends_with_the_first_run_that_does_not_match() -> None:
    rule = {"name": "surge", "when": "response.depth > 100", "every": "30s"}
    replay = Replay({**rule, "until": "response.depth < 50"})
    replay.run(depth=150)

    replay.rules = load_rules([rule])

    assert replay.outcomes(150, 70, 70) == ["renewed", "ended", "no-match"]
