"""An explanation on the screen: long lines wrap, and nothing is cut off."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from herdbeat.cli.commands.explain import explanation_lines
from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.terminal import Terminal, display_width
from herdbeat.domain.decision import Source
from herdbeat.domain.records import HintRecord
from herdbeat.service.queries.explain import Explanation
from herdbeat.service.queries.gates import GateStatus
from herdbeat.service.queries.hints import HintState, HintView
from herdbeat.service.queries.schedule_state import DisplayState
from herdbeat.service.queries.upcoming import RunPreview
from herdbeat.testing.clock import FakeClock

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
SURGE = {
    "kind": "candidate",
    "text": 'hint every 30s by rule:surge, 11m left "the queue is at 150 and grows"',
    "at": "2026-03-02T03:00:30Z",
    "won": True,
}
STEPS: tuple[dict[str, Any], ...] = (
    {"kind": "candidate", "text": "baseline every 5m", "at": "2026-03-02T03:05:00Z", "won": False},
    SURGE,
    {"kind": "shadowed", "text": "hint every 10m by planner, 40m left", "at": "2026-03-02T03:10:00Z"},
    {"kind": "clamp", "text": "min_interval 45s moves it later", "at": "2026-03-02T03:00:45Z"},
    {"kind": "note", "text": "max_interval 15m limits the backoff at 3 failures and more"},
)


def explanation(**changes: Any) -> Explanation:
    fields: dict[str, Any] = {
        "schedule": "queue-depth",
        "now": NOW,
        "text": "next run in 45s because of a hint",
        "next_run_at": NOW + 45 * SECOND,
        "source": Source.CLAMPED_MIN,
        "state": DisplayState.OK,
        "steps": STEPS,
        "gates": tuple(
            GateStatus(gate=name, ok=True) for name in ("scheduler", "enabled", "not_paused", "not_running")
        ),
        "preview": RunPreview(
            instants=(NOW + 45 * SECOND, NOW + 90 * SECOND),
            pace="every 45s",
            until=NOW + 11 * MINUTE,
            after="every 5m",
        ),
    }
    return Explanation(**{**fields, **changes})


def lines_of(shown: Explanation, columns: int | None = None) -> list[str]:
    clock = FakeClock(NOW)
    ledger = FleetHandle(name="f", path=Path("x"), now=NOW, clock=clock, zone=ZoneInfo("UTC"), load_fleet=lambda: None)  # type: ignore[arg-type,return-value]
    return list(explanation_lines(Terminal(out=StringIO(), err=StringIO(), columns=columns), ledger, shown))


def test_each_part_of_an_explanation_has_its_line() -> None:
    assert lines_of(explanation()) == [
        "queue-depth   ok   Mon 02 Mar 03:00:45 UTC   source clamped-min",
        "  next run in 45s because of a hint",
        "",
        "WHY",
        "  · baseline every 5m                                                       03:05:00",
        '  ✓ hint every 30s by rule:surge, 11m left "the queue is at 150 and grows"  03:00:30',
        "  · hint every 10m by planner, 40m left (overridden by another hint)        03:10:00",
        "  → min_interval 45s moves it later                                         03:00:45",
        "NOTE   max_interval 15m limits the backoff at 3 failures and more",
        "GATES  scheduler ✓   enabled ✓   not paused ✓   not running ✓",
        "THEN   03:00:45, 03:01:30, … until the hint ends 03:11:00; after that every 5m",
    ]


def test_on_a_narrow_screen_lines_fold_and_the_times_stay_in_their_column() -> None:
    assert lines_of(explanation(), 60) == [
        "queue-depth   ok   Mon 02 Mar 03:00:45 UTC",
        "  source clamped-min",
        "  next run in 45s because of a hint",
        "",
        "WHY",
        "  · baseline every 5m                               03:05:00",
        '  ✓ hint every 30s by rule:surge, 11m left "the     03:00:30',
        '    queue is at 150 and grows"',
        "  · hint every 10m by planner, 40m left             03:10:00",
        "    (overridden by another hint)",
        "  → min_interval 45s moves it later                 03:00:45",
        "NOTE   max_interval 15m limits the backoff at 3 failures and",
        "       more",
        "GATES  scheduler ✓   enabled ✓   not paused ✓",
        "       not running ✓",
        "THEN   03:00:45, 03:01:30, … until the hint ends 03:11:00;",
        "       after that every 5m",
    ]


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_no_line_is_wider_than_the_screen(columns: int) -> None:
    hint = HintRecord(
        id=1,
        schedule="queue-depth",
        origin="human:you",
        every=20 * SECOND,
        at=None,
        reason="watching the deploy of the new version to the second region",
        expires_at=NOW + 60 * MINUTE,
        created_at=NOW,
        ended_at=None,
        ended_by="",
    )
    shown = explanation(
        hints=(HintView(record=hint, state=HintState.ACTIVE),),
        last="failed 4m ago: connection refused by upstream api.example.com while asking for the queue depth",
    )

    assert [line for line in lines_of(shown, columns) if display_width(line) > columns] == []


def test_a_running_schedule_shows_why_it_is_due_and_no_next_time() -> None:
    shown = lines_of(explanation(next_run_at=None, state=DisplayState.RUNNING, preview=RunPreview(), steps=(SURGE,)))

    assert shown[:1] == ["queue-depth   running"]
    assert shown[3] == "WHY IT WAS DUE"
    assert not [line for line in shown if line.startswith("THEN")]


@pytest.mark.parametrize(
    ("preview", "then"),
    [
        (RunPreview(instants=(NOW + MINUTE,), is_complete=True), "03:01:00; no more after that"),
        (RunPreview(instants=(NOW, NOW + MINUTE, NOW + 2 * MINUTE), pace="every 1m"), "03:00:00, 03:01:00, … every 1m"),
        (
            RunPreview(instants=(NOW, NOW + MINUTE), pace="every 1m", is_conditional=True),
            "03:00:00, 03:01:00, … every 1m if it succeeds",
        ),
    ],
)
def test_the_line_then_shows_what_follows_the_next_run(preview: RunPreview, then: str) -> None:
    assert lines_of(explanation(preview=preview))[-1] == f"THEN   {then}"
