"""The names of events are public: `up --json` prints them, and programs match on them."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from tests.support.golden_json import check_golden, find_unfilled_fields

from herdbeat.cli.output.live import event_object
from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason, SkipReason
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus
from herdbeat.events import (
    AccountHeld,
    AccountReleased,
    BeatSettled,
    ConfigApplied,
    ConfigRejected,
    Event,
    GapDetected,
    InconsistencyRepaired,
    NodeReady,
    RuleEffectKind,
    RuleFired,
    RunFinished,
    RunStarted,
    ScheduleQuarantined,
    SchedulesChanged,
    ServerReady,
    combine_listeners,
    null_listener,
    safe_listener,
)

AT = datetime(2026, 3, 26, 8, 41, 4, 250_000, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVENTS: list[Event] = [
    RunStarted(at=AT, schedule="triage/hourly", run_id=237_684, source=Source.RETRY, due_at=AT - HOUR, attempt=2),
    RunFinished(
        at=AT,
        schedule="triage/default",
        run_id=237_684,
        status=RunStatus.FAILED,
        error="exit status 1",
        started_at=AT - HOUR,
        next_run_at=AT + HOUR,
        retry_at=AT + HOUR / 2,
        retry_attempt=2,
        max_attempts=3,
        error_code="rate_limited",
    ),
    BeatSettled(
        at=AT,
        schedule="triage/hourly",
        outcome=BeatOutcome.SKIPPED,
        reason=SkipReason.ALREADY_RUNNING,
        due_at=AT - 2 * HOUR,
        last_due_at=AT - HOUR,
        count=2,
        held_by=237_684,
        held_since=AT - 3 * HOUR,
    ),
    GapDetected(at=AT, gap=Gap(from_at=AT - 7 * HOUR, until=AT, reason=MissedReason.SLEPT)),
    NodeReady(at=AT, node_id=7, interrupted=3),
    ScheduleQuarantined(at=AT, schedule="triage/hourly", reason="its stored plan cannot be read"),
    InconsistencyRepaired(at=AT, subject="triage/hourly", what="a run without a beat"),
    ConfigApplied(
        at=AT,
        added=("a/new",),
        changed=("a/b", "a/c"),
        removed=("a/old",),
        unheeded=("store",),
        targets=("d", "the fleet"),
    ),
    ConfigRejected(at=AT, where="herdbeat.yaml:14:17", reason='"5x" is not a duration.', problems=2),
    SchedulesChanged(at=AT, what=ChangeKind.PAUSE, who="human:you", reason="release", schedules=("a/b", "a/c")),
    RuleFired(
        at=AT,
        schedule="queue/default",
        rule="surge",
        action=RuleEffectKind.EVERY,
        reason="queue at 150",
        every=timedelta(seconds=30),
        until=AT + HOUR,
        triggers="drain/default",
    ),
    AccountHeld(at=AT, account="team", model="opus", until=AT + HOUR, run_id=237_684, reason="You've hit your limit"),
    AccountReleased(at=AT, account="team", model="opus", who="human:you"),
    ServerReady(at=AT, url="http://127.0.0.1:3232"),
]


def test_every_event_has_its_public_name() -> None:
    words = [
        "run_started",
        "run_finished",
        "beat_settled",
        "time_lost",
        "node_ready",
        "schedule_quarantined",
        "ledger_mended",
        "files_applied",
        "files_refused",
        "schedules_changed",
        "rule_fired",
        "account_held",
        "account_released",
        "server_ready",
    ]

    assert [kind.name for kind in get_args(Event)] == words


def test_the_name_is_not_a_field_of_the_event() -> None:
    assert [kind for kind in get_args(Event) if "name" in {each.name for each in fields(kind)}] == []


def test_events_keep_their_json() -> None:
    assert [type(each) for each in EVENTS] == list(get_args(Event))
    assert find_unfilled_fields(EVENTS) == []

    check_golden(Path(__file__).parent / "golden" / "events.json", [event_object(each) for each in EVENTS])


def test_a_listener_that_fails_is_logged_and_the_others_still_get_the_event(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Event] = []

    def fail(event: Event) -> None:
        raise OSError("the terminal has gone away")

    event = ServerReady(at=datetime(2026, 3, 27, tzinfo=UTC), url="http://127.0.0.1:1")

    combine_listeners(safe_listener(fail), received.append)(event)

    assert received == [event]
    assert "event listener failed event=server_ready" in caplog.text


def test_a_safe_listener_is_not_wrapped_twice() -> None:
    safe = safe_listener(print)

    assert safe_listener(safe) is safe
    assert safe_listener(null_listener) is null_listener
