"""Any number of waiting beats is reported in a few lines."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from zoneinfo import ZoneInfo

from herdbeat.cli.output.live import MAX_NAMED_BEATS, LiveFeed, LiveLineFormatter
from herdbeat.cli.output.terminal import Terminal
from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.events import BeatSettled
from herdbeat.testing import FakeClock

AT = datetime(2026, 3, 26, 8, 41, 4, tzinfo=UTC)


class Screen:
    """A feed with a fake clock: `passes` moves it past one counting interval."""

    def __init__(self) -> None:
        self._out = StringIO()
        self._later: list[Callable[[], None]] = []
        lines = LiveLineFormatter(terminal=Terminal(out=self._out, err=StringIO()), zone=ZoneInfo("UTC"))
        self.feed = LiveFeed(lines, FakeClock(AT), lambda _, what: self._later.append(what), is_quiet=False)

    def settle(self, number: int, outcome: BeatOutcome, reason: str) -> None:
        for each in range(number):
            self.feed(BeatSettled(AT, f"worker/{each}", outcome, reason, AT, AT, 1))

    def passes(self) -> None:
        later, self._later = self._later, []
        for what in later:
            what()

    def lines(self) -> list[str]:
        written = self._out.getvalue().splitlines()
        self._out.truncate(0)
        self._out.seek(0)
        return written


def test_many_waiting_beats_are_a_few_lines_and_a_count() -> None:
    screen = Screen()

    screen.settle(1_500, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)
    at_once = screen.lines()
    screen.passes()

    assert len(at_once) == MAX_NAMED_BEATS
    assert screen.lines() == ["08:41:04  ◷ 1,490 more queued: at_capacity   see: herdbeat beats"]


def test_while_more_of_them_arrive_only_their_count_is_printed() -> None:
    screen = Screen()
    screen.settle(1_500, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)
    screen.passes()
    screen.lines()

    screen.settle(500, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)
    at_once = screen.lines()
    screen.passes()

    assert at_once == []
    assert [line.split("  ")[1] for line in screen.lines()] == ["◷ 500 more queued: at_capacity"]


def test_after_a_quiet_interval_each_event_is_printed_again() -> None:
    screen = Screen()
    screen.settle(1_500, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)
    screen.passes()
    screen.passes()
    screen.lines()

    screen.settle(2, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)

    assert len(screen.lines()) == 2


def test_outcomes_are_counted_separately_and_missed_beats_are_printed_in_full() -> None:
    screen = Screen()

    screen.settle(MAX_NAMED_BEATS + 1, BeatOutcome.SKIPPED, SkipReason.ALREADY_RUNNING)
    screen.settle(MAX_NAMED_BEATS + 1, BeatOutcome.MISSED, MissedReason.TOO_LATE)
    screen.settle(1, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)
    at_once = screen.lines()
    screen.passes()

    assert len(at_once) == MAX_NAMED_BEATS + MAX_NAMED_BEATS + 1 + 1
    assert [line[12:] for line in screen.lines()] == ["1 more skipped: already_running   see: herdbeat beats"]


def test_pending_counts_are_printed_at_the_end() -> None:
    screen = Screen()
    screen.settle(MAX_NAMED_BEATS + 7, BeatOutcome.PENDING, SkipReason.AT_CAPACITY)
    screen.lines()

    screen.feed.flush()
    once = screen.lines()
    screen.passes()

    assert len(once) == 1
    assert screen.lines() == []
