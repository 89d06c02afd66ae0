"""Counts of instants per hour, and the warning about many at one instant."""

from pathlib import Path

import pytest

from herdbeat.testing.command_line import CommandLine


def write_herd(folder: Path, count: int, more: str = "") -> None:
    lines = [f'  - {{ name: c{number}, command: ["true"], cron: "0 9 * * *"{more} }}' for number in range(count)]
    folder.joinpath("herdbeat.yaml").write_text("\n".join(["version: 1", "commands:", *lines]), encoding="utf-8")


def test_a_herd_is_named_with_what_would_spread_it(cli: CommandLine) -> None:
    write_herd(cli.folder, 12)

    lines = cli.run("next", "--by", "hour").lines()

    assert lines[0] == "HOUR  RUNS"
    assert lines[20].startswith(f"09      12  {'█' * 40}   ")
    assert lines[20].endswith("   12 schedules start at 09:00:00; spread them with `jitter: 10%`")
    assert {line.strip()[-1] for line in lines[1:20]} == {"0"}


@pytest.mark.parametrize(("count", "more"), [(9, ""), (12, ", jitter: 30m")])
def test_few_or_spread_schedules_are_no_herd(cli: CommandLine, count: int, more: str) -> None:
    write_herd(cli.folder, count, more)

    assert "share" not in cli.run("next", "--by", "hour").out


def test_first_runs_are_no_herd_because_no_jitter_moves_them(cli: CommandLine) -> None:
    agents = [f"  - {{ name: a{number}, schedules: {{ work: {{ every: 6h, prompt: Go }} }} }}" for number in range(12)]
    cli.folder.joinpath("herdbeat.yaml").write_text("\n".join(["version: 1", "agents:", *agents]), encoding="utf-8")

    answer = cli.run("next", "--by", "hour")

    assert answer.status == 0
    assert "share" not in answer.out


def test_hours_are_those_of_the_wall_clock(cli: CommandLine) -> None:
    answer = cli.run("next", "15 * * * *", "--by", "hour", "--tz", "Asia/Kolkata", "--until", "2h")

    assert answer.lines() == ["HOUR  RUNS", "18       0", f"19       1  {'█' * 40}", f"20       1  {'█' * 40}"]


def test_days_are_named_where_there_is_more_than_one(cli: CommandLine) -> None:
    answer = cli.run("next", "@daily", "--by", "hour", "--until", "3d")

    assert f"Sat 28 Mar  00     1  {'█' * 40}" in answer.lines()


def test_the_night_of_a_clock_change_has_an_hour_less_or_more(cli: CommandLine) -> None:
    short = cli.run("next", "@hourly", "--by", "hour", "--from", "2026-03-29", "--until", "5h", "--plain")
    long = cli.run("next", "@hourly", "--by", "hour", "--from", "2026-10-25", "--until", "5h", "--plain")

    assert [line[11:13] for line in short.lines()] == ["00", "01", "03", "04", "05", "06"]
    assert [line[11:13] for line in long.lines()] == ["00", "01", "02", "02", "03", "04"]


def test_more_than_a_month_of_hours_is_refused(cli: CommandLine) -> None:
    answer = cli.run("next", "@daily", "--by", "hour", "--until", "32d")

    assert answer.status == 2
    assert "at most 31 days" in answer.err
