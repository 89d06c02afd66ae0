"""The live lines of `up`: one line per event, and the report of a gap first."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from herdbeat.cli.output.live import LiveFeed, LiveLineFormatter, event_object, gap_lines
from herdbeat.cli.output.terminal import Terminal
from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.run import RunStatus
from herdbeat.events import (
    BeatSettled,
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
)
from herdbeat.testing import FakeClock

BERLIN = ZoneInfo("Europe/Berlin")
AT = datetime(2026, 3, 26, 8, 41, 4, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
NIGHT = Gap(from_at=AT - 7 * HOUR, until=AT, reason=MissedReason.SLEPT)


def started(**changes: object) -> RunStarted:
    fields = {"schedule": "triage/default", "source": Source.BASELINE_CRON, "due_at": AT, "attempt": 1, **changes}
    return RunStarted(at=AT, run_id=237_684, **fields)  # type: ignore[arg-type]


def finished(**changes: object) -> RunFinished:
    fields = {"status": RunStatus.SUCCEEDED, "error": "", "next_run_at": AT + HOUR, **changes}
    return RunFinished(at=AT, schedule="triage/standup", run_id=1, started_at=AT - 47 * SECOND, **fields)  # type: ignore[arg-type]


def settled(outcome: BeatOutcome, reason: str, *, count: int = 1, schedule: str = "report/default") -> BeatSettled:
    return BeatSettled(AT, schedule, outcome, reason, AT - HOUR * count, AT - HOUR, count)


def held(outcome: BeatOutcome, reason: str) -> BeatSettled:
    return replace(settled(outcome, reason), held_by=237_684, held_since=AT - 12 * 60 * SECOND)


def fired(action: RuleEffectKind, **changes: Any) -> RuleFired:
    return RuleFired(AT, "queue/default", "surge", action, "depth = 150", **changes)


def plain() -> Terminal:
    return Terminal(out=StringIO(), err=StringIO())


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (started(), "▶ triage          783m started   baseline-cron"),
        (started(due_at=AT - 2460 * SECOND), "▶ triage          783m started   baseline-cron, 41m late"),
        (started(source=Source.MANUAL, due_at=AT - HOUR), "▶ triage          783m started   manual"),
        (started(attempt=2), "▶ triage          783m started   baseline-cron, attempt 2"),
        (finished(), "✓ triage/standup  0001 47s   next 10:41:04"),
        (
            SchedulesChanged(AT, ChangeKind.PAUSE, "human:you", "db", ("queue",)),
            '↻ queue           pause by human:you   "db"',
        ),
        (
            SchedulesChanged(AT, ChangeKind.CLEAR_HINTS, "planner", "", ("a", "b")),
            "↻ 2 schedules     clear hints by planner",
        ),
        (
            fired(RuleEffectKind.EVERY, every=30 * SECOND, until=AT + HOUR / 4),
            "↯ queue           rule surge: every 30s until 09:56:04   depth = 150",
        ),
        (
            fired(RuleEffectKind.RUN_IN, until=AT + 10 * SECOND),
            "↯ queue           rule surge: one more run at 09:41:14   depth = 150",
        ),
        (
            fired(RuleEffectKind.PAUSE, until=AT + HOUR),
            "↯ queue           rule surge: paused until 10:41:04   depth = 150",
        ),
        (
            fired(RuleEffectKind.TRIGGER, triggers="drain/default"),
            "↯ queue           rule surge: starts drain   depth = 150",
        ),
        (replace(fired(RuleEffectKind.END), reason=""), "↯ queue           rule surge has ended"),
        (finished(next_run_at=None), "✓ triage/standup  0001 47s"),
        (
            finished(next_run_at=datetime(2026, 3, 27, 8, 0, tzinfo=UTC)),
            "✓ triage/standup  0001 47s   next tomorrow 09:00",
        ),
        (
            finished(status=RunStatus.FAILED, error="no\nway", next_run_at=None),
            (
                "✗ triage/standup  0001 47s   failed: no way   retry: herdbeat retry 0001   "
                "end backoff: herdbeat reset triage/standup"
            ),
        ),
        (finished(status=RunStatus.INTERRUPTED, next_run_at=None), "– triage/standup  0001 47s   interrupted"),
        (settled(BeatOutcome.SKIPPED, "already_running"), "– report          skipped: already_running   due 08:41:04"),
        (settled(BeatOutcome.PENDING, "at_capacity"), "◷ report          queued: at_capacity"),
        (
            held(BeatOutcome.PENDING, "at_capacity"),
            "◷ report          queued: at_capacity (783m, running 12m)",
        ),
        (
            held(BeatOutcome.SKIPPED, "already_running"),
            "– report          skipped: already_running (783m, running 12m)   due 08:41:04",
        ),
        (
            settled(BeatOutcome.MISSED, "slept", count=3),
            "· report          missed x3: slept   due 06:41:04 to 08:41:04",
        ),
        (
            ScheduleQuarantined(AT, "report/default", "no such zone"),
            "✗ report          quarantined: no such zone   it does not run until it is edited or reset",
        ),
        (
            InconsistencyRepaired(AT, "report/default", "it had no next run"),
            "! report          repaired: it had no next run",
        ),
        (NodeReady(AT, 1, 2), "– 2 runs of the previous process recorded as interrupted"),
    ],
)
def test_an_event_is_one_line(event: Event, line: str) -> None:
    lines = LiveLineFormatter(terminal=plain(), zone=BERLIN, label_width=14)

    assert lines.line(event) == f"09:41:04  {line}"


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (finished(), ["09:41:04  ✓ triage/standup  0001 47s   next 10:41:04"]),
        (
            settled(BeatOutcome.MISSED, "slept", count=3),
            ["09:41:04  · report          missed x3: slept", "            due 06:41:04 to 08:41:04"],
        ),
        (
            finished(status=RunStatus.FAILED, error="connection refused by upstream api.example.com:443, giving up"),
            [
                "09:41:04  ✗ triage/standup  0001 47s   failed: connection",
                "            refused by upstream api.example.com:443, giving",
                "            up   next 10:41:04   retry: herdbeat retry 0001",
                "            end backoff: herdbeat reset triage/standup",
            ],
        ),
    ],
    ids=["fits", "whole parts", "words"],
)
def test_on_a_narrow_screen_a_line_folds_below_itself(event: Event, lines: list[str]) -> None:
    narrow = Terminal(out=StringIO(), err=StringIO(), columns=60)

    assert LiveLineFormatter(terminal=narrow, zone=BERLIN, label_width=14).line(event) == "\n".join(lines)


@pytest.mark.parametrize("event", [NodeReady(AT, 1, 0), GapDetected(AT, NIGHT)])
def test_events_that_are_reported_elsewhere_have_no_line(event: Event) -> None:
    assert LiveLineFormatter(terminal=plain(), zone=BERLIN).line(event) is None


def test_a_gap_is_reported_with_caught_up_and_missed_beats() -> None:
    events = [
        settled(BeatOutcome.PENDING, Source.CATCH_UP, schedule="triage/standup"),
        settled(BeatOutcome.MISSED, MissedReason.SLEPT, count=2),
    ]

    block = gap_lines(plain(), NIGHT, events, AT, BERLIN)

    assert block == [
        "Down for 7h (this machine was asleep).  1 caught up, 2 missed.   → herdbeat beats --since 8h",
        "  triage/standup  due 08:41:04              running now  catch-up, 1h late",
        "  report          due 07:41:04 to 08:41:04  missed x2    not caught up",
    ]


def test_on_a_narrow_screen_the_suggested_command_is_on_the_next_line() -> None:
    narrow = Terminal(out=StringIO(), err=StringIO(), columns=60)

    block = gap_lines(narrow, NIGHT, [settled(BeatOutcome.MISSED, MissedReason.SLEPT)], AT, BERLIN)

    assert block[:2] == ["Down for 7h (this machine was asleep).  1 missed.", "→ herdbeat beats --since 8h"]
    assert max(map(len, block)) <= 60


@pytest.mark.parametrize(("seconds", "lines"), [(29, 0), (30, 1)])
def test_a_short_restart_without_losses_is_not_reported(seconds: int, lines: int) -> None:
    short = Gap(from_at=AT - seconds * SECOND, until=AT, reason=MissedReason.SCHEDULER_DOWN)

    assert len(gap_lines(plain(), short, [], AT, BERLIN)) == lines


def test_a_hundred_missed_schedules_do_not_fill_the_screen() -> None:
    events = [settled(BeatOutcome.MISSED, MissedReason.SLEPT) for _ in range(100)]

    block = gap_lines(plain(), NIGHT, events, AT, BERLIN)

    assert len(block) == 12
    assert block[-1] == "  and 90 more"


class Later:
    """Deferred calls, which the test runs explicitly."""

    def __init__(self) -> None:
        self.put_off: list[Callable[[], None]] = []

    def __call__(self, seconds: float, what: Callable[[], None]) -> None:
        self.put_off.append(what)


def feed(terminal: Terminal, later: Later, *, is_quiet: bool = False) -> LiveFeed:
    lines = LiveLineFormatter(terminal=terminal, zone=BERLIN)
    return LiveFeed(lines, FakeClock(AT), later, is_quiet=is_quiet)


def written(terminal: Terminal) -> list[str]:
    assert isinstance(terminal.out, StringIO)
    return terminal.out.getvalue().splitlines()


def test_the_report_of_a_gap_comes_before_later_events() -> None:
    terminal, later = plain(), Later()
    live = feed(terminal, later)

    live(GapDetected(AT, NIGHT))
    live(started())
    live(settled(BeatOutcome.MISSED, MissedReason.SLEPT))
    held_back = written(terminal)
    later.put_off[0]()

    assert held_back == []
    assert [line.split("  ")[0] for line in written(terminal)] == [
        "Down for 7h (this machine was asleep).",
        "",
        "",
        "09:41:04",
    ]


def test_beats_that_a_busy_machine_settled_late_were_called_not_due() -> None:
    terminal, later = plain(), Later()
    live = feed(terminal, later)

    live(GapDetected(AT, NIGHT))
    later.put_off[0]()
    live(settled(BeatOutcome.MISSED, MissedReason.SLEPT, count=2))

    head, *_, last = written(terminal)
    assert head == "Down for 7h (this machine was asleep)."
    assert "missed x2" in last


def test_buffered_lines_are_printed_at_the_end() -> None:
    terminal, later = plain(), Later()
    live = feed(terminal, later)
    live(GapDetected(AT, NIGHT))
    live(started())

    live.flush()
    once = written(terminal)
    later.put_off[0]()

    assert len(once) == 3
    assert written(terminal) == once


def test_quiet_prints_only_what_needs_attention() -> None:
    terminal = plain()
    live = feed(terminal, Later(), is_quiet=True)

    for event in (
        started(),
        finished(),
        finished(status=RunStatus.FAILED),
        settled(BeatOutcome.MISSED, "slept"),
        ScheduleQuarantined(AT, "report/default", "no such zone"),
        InconsistencyRepaired(AT, "report/default", "it had no next run"),
    ):
        live(event)

    assert [line[10] for line in written(terminal)] == ["✗", "·", "✗", "!"]


def test_json_events_use_the_same_names_as_other_commands() -> None:
    assert event_object(started()) == {
        "event": "run_started",
        "at": "2026-03-26T08:41:04Z",
        "schedule": "triage",
        "run_id": "783m",
        "source": "baseline-cron",
        "due_at": "2026-03-26T08:41:04Z",
        "attempt": 1,
    }
    assert event_object(GapDetected(AT, NIGHT))["gap"] == {
        "from": "2026-03-26T01:41:04Z",
        "until": "2026-03-26T08:41:04Z",
        "reason": "slept",
    }
