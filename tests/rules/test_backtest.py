"""Rules over history: what they would have done, how often the pace would have changed, and what was missing."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.rule_state import RuleOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.rules.backtest import Backtest, backtest_rules
from herdbeat.rules.rule import load_rules

START = datetime(2026, 11, 17, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def history(*depths: object, apart: timedelta = HOUR) -> list[PastRun]:
    return [
        PastRun(
            id=number,
            status=RunStatus.SUCCEEDED,
            code=200,
            attempt=1,
            started_at=START + number * apart,
            finished_at=START + number * apart,
            response={"depth": depth},
        )
        for number, depth in enumerate(depths)
    ]


def backtest(rule: Mapping[str, object], runs: list[PastRun], min_interval: timedelta | None = None) -> Backtest:
    return backtest_rules(load_rules([{"name": "rule", **rule}]), runs, interval=HOUR, min_interval=min_interval)


def test_firings_renewals_and_ends_are_counted() -> None:
    rule = {"when": "response.depth > 100", "until": "response.depth < 50", "every": "30m", "for": "2h"}

    result = backtest(rule, history(10, 150, 70, 20, 10))

    assert result.rules[0].outcomes == {
        RuleOutcome.NO_MATCH: 2,
        RuleOutcome.FIRED: 1,
        RuleOutcome.RENEWED: 1,
        RuleOutcome.ENDED: 1,
    }
    assert [(firing.at, firing.reads) for firing in result.firings] == [(START + HOUR, {"response.depth": 150})]
    assert result.pace_changes == 2


def test_the_runs_per_day_follow_the_pace_in_force() -> None:
    rule = {"when": "response.depth > 100", "until": "response.depth < 50", "every": "30m", "for": "12h"}

    result = backtest(rule, history(10, 150, 150, 10, 10))

    assert result.calls_per_day_before == 24
    assert result.calls_per_day_after == 36


def test_the_limits_hold_in_a_backtest_too() -> None:
    result = backtest({"when": "true", "every": "1s", "for": "12h"}, history(1, 1, 1), min_interval=30 * MINUTE)

    assert result.calls_per_day_after == 48


def test_the_limits_hold_without_rules_too() -> None:
    rules = load_rules([{"name": "rule", "when": "false", "every": "1m"}])

    result = backtest_rules(rules, history(1, 1, 1), interval=HOUR, max_interval=15 * MINUTE)

    assert (result.calls_per_day_before, result.calls_per_day_after) == (96, 96)


def test_a_pause_and_the_end_of_a_hint_count_for_the_runs_per_day() -> None:
    paused = backtest({"when": "response.depth > 100", "pause": "12h"}, history(150, 1, apart=24 * HOUR))
    hinted = backtest({"when": "response.depth > 100", "every": "30m", "for": "12h"}, history(150, 1, apart=24 * HOUR))

    assert paused.calls_per_day_after == 12
    assert hinted.calls_per_day_after == 24 + 12


def test_a_rule_without_hysteresis_is_seen_to_flap() -> None:
    rule = {"when": "response.depth > 100", "until": "response.depth <= 100", "every": "30s"}

    result = backtest(rule, history(101, 99, 101, 99, 101, 99, apart=MINUTE))

    assert result.flapping == 5


def test_what_was_missing_is_named_and_counted() -> None:
    result = backtest({"when": "response.dept > 100", "every": "30m"}, history(1, 2, 3))

    assert result.rules[0].errors == {"response.dept is missing": 3}


def test_pauses_and_triggers_are_summed_up() -> None:
    paused = backtest({"when": "response.depth > 100", "pause": "90m"}, history(150, 150, 1))
    triggered = backtest({"when": "response.depth > 100", "trigger": "drain"}, history(150, 150, 1))

    assert paused.paused == timedelta(minutes=150)
    assert triggered.triggered == {"drain": 2}


def test_a_schedule_without_runs_has_an_empty_backtest() -> None:
    result = backtest({"when": "true", "every": "30m"}, [])

    assert (result.runs, result.start, result.calls_per_day_after) == (0, None, None)


def test_interrupted_and_declined_runs_are_not_replayed() -> None:
    runs = history(1, 2, 3)
    runs[0] = replace(runs[0], status=RunStatus.INTERRUPTED)
    runs[1] = replace(runs[1], status=RunStatus.SKIPPED, skip_reason="precheck")

    result = backtest({"when": "!run.ok", "every": "30m"}, runs)

    assert result.rules[0].outcomes == {RuleOutcome.NO_MATCH: 1}


def test_failures_in_a_row_are_counted_and_attempts_at_one_beat_are_one_failure() -> None:
    runs = [replace(each, status=RunStatus.FAILED) for each in history(1, 2, 3, 4)]
    runs[1] = replace(runs[1], attempt=2)  # the second attempt at the first beat

    result = backtest({"when": "schedule.failures == 2", "every": "30m"}, runs)

    assert [firing.at for firing in result.firings] == [START + 3 * HOUR]


def test_an_idle_back_off_is_not_called_flapping() -> None:
    rules = load_rules([{"name": "idle", "when": "response.depth == 0", "every": "2x"}])

    result = backtest_rules(rules, history(0, 0, 0, 0, apart=MINUTE), interval=MINUTE, max_interval=HOUR)

    assert (result.pace_changes, result.flapping) == (4, 0)
