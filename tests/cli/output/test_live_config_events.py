"""The live lines about changed files."""

from datetime import UTC, datetime
from io import StringIO
from zoneinfo import ZoneInfo

import pytest

from herdbeat.cli.output.live import LiveFeed, LiveLineFormatter
from herdbeat.cli.output.terminal import Terminal
from herdbeat.events import ConfigApplied, ConfigRejected, Event
from herdbeat.testing import FakeClock

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)


def lines(event: Event, columns: int | None = None, *, is_quiet: bool = False) -> list[str]:
    out = StringIO()
    terminal = Terminal(out=out, err=out, columns=columns)
    feed = LiveFeed(
        LiveLineFormatter(terminal=terminal, zone=ZoneInfo("UTC")), FakeClock(NOW), lambda *_: None, is_quiet=is_quiet
    )
    feed(event)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ConfigApplied(NOW, added=("a",), removed=("b/default",)), "~ files applied: +a   -b"),
        (ConfigApplied(NOW, targets=("a", "the fleet")), "~ files applied: ~a ~the fleet"),
        (ConfigApplied(NOW, changed=("a/default", "b/x"), targets=("a", "c")), "~ files applied: ~a ~b/x   ~c"),
        (ConfigApplied(NOW, changed=tuple("abcd")), "~ files applied: 4 schedules changed"),
        (ConfigApplied(NOW, unheeded=("store",)), "~ files applied: takes effect at the next start: store"),
        (
            ConfigRejected(NOW, "herdbeat.yaml:9:3", "no sense.", 3),
            "✗ files rejected: herdbeat.yaml:9:3  no sense. (and 2 more)   no change; see: herdbeat validate",
        ),
    ],
)
def test_a_change_of_files_is_one_line(event: Event, words: str) -> None:
    assert lines(event) == [f"13:04:00  {words}"]


def test_on_a_narrow_screen_no_line_is_too_long() -> None:
    refused = ConfigRejected(NOW, "agents/triage.yaml:9:15", 'interval "5.5m": write a whole number and a unit', 1)

    assert max(len(line) for line in lines(refused, 80)) <= 80


def test_quiet_still_reports_rejected_files() -> None:
    assert lines(ConfigApplied(NOW, added=("a",)), is_quiet=True) == []
    assert len(lines(ConfigRejected(NOW, "x:1:1", "no", 1), is_quiet=True)) == 1
