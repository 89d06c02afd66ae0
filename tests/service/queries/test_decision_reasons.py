"""Which policy had the say, and what would change that."""

from datetime import time, timedelta
from typing import Any

import pytest
from tests.support.record_builders import NOW, UTC_ZONE, make_beat_record, make_schedule_record, make_schedule_spec

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope, Cost, SpendTotals
from herdbeat.domain.policies import ActiveHours, Bounds, Budget
from herdbeat.scheduler.budgets import BudgetUsage, ScheduleBudgets
from herdbeat.service.queries.explain import BeatHistory, explain_instant, explain_no_beat
from herdbeat.service.queries.gates import describe_skip, find_deciding_policy, is_skipped_by_active_hours
from herdbeat.triggers.cron import Cron

OFFICE = ActiveHours(opens=time(7), closes=time(11), zone=UTC_ZONE)
HOURLY = Cron.parse("0 * * * *", UTC_ZONE)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("reason", "chosen", "key", "text"),
    [
        ("already_running", {}, "overlap", "skip: beats due during an active run are skipped"),
        (
            "inactive_hours",
            {"active_hours": OFFICE},
            "active_hours",
            "07:00-11:00 UTC: beats outside these hours are skipped",
        ),
        ("precheck", {"precheck": ("./check.sh", "a b")}, "precheck", "./check.sh 'a b' exited with 1"),
        ("expired", {"bounds": Bounds(max_runs=3)}, "max_runs", "3: the maximum number of runs is reached"),
        (
            "expired",
            {"bounds": Bounds(ends_at=NOW - 9 * HOUR, max_runs=3)},
            "ends_at",
            "2026-03-26T04:04:00Z: no run starts after this time",
        ),
        (
            "target_offline",
            {"runs_on": "gpu"},
            "runs_on",
            "gpu: only nodes with this label run it (herdbeat up --label gpu)",
        ),
    ],
)
def test_a_skipped_beat_names_the_policy_that_skipped_it(
    reason: str, chosen: dict[str, Any], key: str, text: str
) -> None:
    record, skipped = (
        make_schedule_record(plan=make_schedule_spec(**chosen)),
        make_beat_record(outcome=BeatOutcome.SKIPPED, reason=reason),
    )

    rule = find_deciding_policy(record, skipped)
    answer = explain_instant(record, BeatHistory(beat=skipped), NOW, UTC_ZONE)

    assert rule is not None
    assert (rule.key, rule.text) == (key, text)
    assert answer.facts[:2] == (("skipped", f"{reason}: {describe_skip(reason)}"), (key, text))


@pytest.mark.parametrize(
    ("scope", "text", "fix"),
    [
        (BudgetScope.SCHEDULE, "", " in herdbeat.yaml:3"),
        (BudgetScope.TARGET, ", shared by the schedules of its target", " of its target"),
        (BudgetScope.FLEET, ", shared by the whole fleet", " at the top of the fleet file"),
    ],
)
def test_a_beat_over_its_budget_says_whose_it_was_and_what_was_used(scope: BudgetScope, text: str, fix: str) -> None:
    purse = BudgetUsage(
        BudgetDay(BudgetOwner(scope, 1), "2026-03-26"), Budget(usd_per_day=2.5, runs_per_day=9), SpendTotals(runs=9)
    )
    skipped = make_beat_record(outcome=BeatOutcome.SKIPPED, reason="budget_exceeded")

    past = BeatHistory(beat=skipped, budgets=ScheduleBudgets(Cost(), (purse,)))
    answer = explain_instant(make_schedule_record(origin="herdbeat.yaml:3"), past, NOW, UTC_ZONE)

    assert answer.facts[:2] == (
        ("skipped", "budget_exceeded: its budget was used up"),
        ("budget", f"9/9 runs{text}, on 2026-03-26 UTC"),
    )
    assert answer.fix.startswith(f"raise the budget{fix}, or run it now: ")


def test_a_policy_that_is_gone_since_is_not_named() -> None:
    for reason in SkipReason:
        skipped = make_beat_record(outcome=BeatOutcome.SKIPPED, reason=reason)
        rule = find_deciding_policy(make_schedule_record(plan=make_schedule_spec()), skipped)
        assert rule is None or rule.key == "overlap", reason


@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        (10, False),  # inside
        (12, True),
        (13, True),
        (14, False),  # still to come
    ],
)
def test_an_instant_outside_the_hours_without_a_row_counts_as_skipped(hour: int, expected: bool) -> None:
    record = make_schedule_record(
        plan=make_schedule_spec(HOURLY, active_hours=OFFICE), anchor_at=NOW.replace(hour=9, minute=0)
    )

    assert is_skipped_by_active_hours(record, NOW.replace(hour=hour, minute=0), NOW) is expected


def test_between_two_instants_nothing_counts_as_skipped() -> None:
    record = make_schedule_record(
        plan=make_schedule_spec(HOURLY, active_hours=OFFICE), anchor_at=NOW.replace(hour=9, minute=0)
    )

    assert not is_skipped_by_active_hours(record, NOW.replace(hour=12, minute=30), NOW)


def test_an_explanation_at_night_says_that_it_was_due_and_is_skipped() -> None:
    at = NOW.replace(hour=12, minute=0)
    morning = NOW.replace(hour=7, minute=0) + timedelta(days=1)
    record = make_schedule_record(
        plan=make_schedule_spec(HOURLY, active_hours=OFFICE), anchor_at=at - 2 * HOUR, next_run_at=morning
    )

    answer = explain_no_beat(record, at, (None, None), NOW, UTC_ZONE)

    assert answer.text == "triage/standup was due Thu 26 Mar 12:00:00 UTC and did not run."
    assert answer.facts[0] == ("skipped", "inactive_hours: it was outside its active hours")
    assert answer.facts[-1] == (
        "recorded",
        "in one row with all beats skipped until Fri 27 Mar 07:00:00 UTC",
    )
