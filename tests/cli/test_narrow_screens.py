"""What people see: order of the streams, width of lines, charts of a young fleet."""

from datetime import timedelta
from io import StringIO
from typing import TextIO

import pytest

from herdbeat.cli.commands.status import render_frame
from herdbeat.cli.output.terminal import Terminal
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, open_herd

CAUSE = "it was told to fail"


class Screen(StringIO):
    """A stream that writes to a shared screen when it is flushed, as a pipe to a terminal does."""

    def __init__(self, shown: list[str], *, is_buffered: bool) -> None:
        super().__init__()
        self._shown = shown
        self._is_buffered = is_buffered

    def write(self, text: str) -> int:
        written = super().write(text)
        if not self._is_buffered:
            self.flush()
        return written

    def flush(self) -> None:
        self._shown.append(self.getvalue())
        self.truncate(0)
        self.seek(0)


def test_a_remark_about_the_data_does_not_come_before_the_data() -> None:
    shown: list[str] = []
    out: TextIO = Screen(shown, is_buffered=True)
    terminal = Terminal(out=out, err=Screen(shown, is_buffered=False))

    terminal.print("data")
    terminal.info("remark")

    assert "".join(shown) == "data\nremark\n"


def test_a_line_as_wide_as_the_screen_keeps_its_last_column() -> None:
    frame = render_frame(Terminal(out=StringIO(), err=StringIO(), columns=4), ["abcd", "efgh"], lines=2)

    # A sequence that clears to the right after a full line erases its last letter.
    assert not any(part.startswith(("\x1b[K", "\x1b[J")) for part in frame.split("abcd")[1:] if part != "\n")
    assert frame.endswith("efgh")


@pytest.fixture
async def failing(cli: CommandLine) -> CommandLine:
    """A fleet of thirty seconds, in which a schedule with a long name fails."""
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now()) as herd:
        herd.schedule("nightly-backup-of-the-database/every-five-minutes", every="5m", runner=ScriptedRunner(fails=9))
        herd.schedule("quick", every="3s")
        await herd.tick()
        await herd.advance(timedelta(seconds=30))
    assert isinstance(cli.clock, FakeClock)
    cli.clock.advance(timedelta(seconds=30))
    return cli


def test_eighty_columns_keep_the_cause_of_a_failure(failing: CommandLine) -> None:
    answer = failing.run("status", COLUMNS="80")
    coloured = failing.run("status", COLUMNS="80", FORCE_COLOR="1")

    assert CAUSE in answer.out
    assert CAUSE in coloured.out
    assert max(map(len, answer.lines())) <= 80


def test_status_names_the_commands_that_end_a_failure(failing: CommandLine) -> None:
    out = failing.run("status").out

    assert "retry: herdbeat retry nightly-backup-of-the-database/every-five-minutes" in out
    assert "end backoff: herdbeat reset nightly-backup-of-the-database/every-five-minutes" in out


def test_the_chart_of_a_young_fleet_begins_with_its_first_beat(failing: CommandLine) -> None:
    quick = next(line for line in failing.run("timeline", COLUMNS="80").lines() if line.startswith("quick"))

    assert quick.count("▬") > 5


def test_the_busiest_hour_has_the_longest_bar(failing: CommandLine) -> None:
    bars = [line.count("█") for line in failing.run("next", "--by", "hour", "--until", "3h").lines()]

    assert max(bars) == 40
    assert len(set(bars)) > 1


def test_eighty_columns_keep_the_cause_of_a_failed_run_in_the_list(failing: CommandLine) -> None:
    answer = failing.run("runs", "nightly-backup-of-the-database", COLUMNS="60")

    assert CAUSE in answer.out


def test_eighty_columns_keep_the_names_of_schedules(failing: CommandLine) -> None:
    name = "nightly-backup-of-the-database/every-five-minutes"
    failing.run("pause", name, "--for", "1h", "--reason", "the disk of the database is replaced this morning")

    changes = failing.run("changes", COLUMNS="100").lines()
    schedules = failing.run("list", COLUMNS="100").lines()

    assert any(name in line for line in changes)
    assert any(name in line for line in schedules)
    assert max(map(len, [*changes, *schedules])) <= 100
