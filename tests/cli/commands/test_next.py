"""Upcoming times: the cases that no golden file shows."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

FLEET = Path(__file__).parents[1] / "fleet"
IMPORTED = {
    "herdbeat.yaml": """
        timezone: Europe/Berlin
        commands: [{ name: backup, command: [x], cron: "0 3 * * *" }]
        imports: [{ agentd: .agentd/ }]
    """,
    ".agentd/agents/a.yml": "name: a",
    ".agentd/workflows/w.yml": """
        name: nightly
        agent: a
        source: { type: cron, expression: "0 1 * * *" }
        prompt_template: x
    """,
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")


def test_a_window_without_instants_is_reported_except_with_quiet(cli: CommandLine) -> None:
    loud = cli.run("next", "@daily", "--until", "1m")
    quiet = cli.run("next", "@daily", "--until", "1m", "-q")

    assert (loud.status, loud.err) == (0, "No runs in that period.\n")
    assert (quiet.status, quiet.err) == (0, "")


def test_a_fleet_without_schedules_is_reported(cli: CommandLine) -> None:
    cli.folder.joinpath("herdbeat.yaml").write_text("version: 1\n", encoding="utf-8")

    answer = cli.run("next")

    assert (answer.status, answer.out, answer.err) == (0, "", "No schedules.\n")


def test_an_invalid_fleet_is_reported_with_its_location(cli: CommandLine) -> None:
    cli.folder.joinpath("herdbeat.yaml").write_text("agents: [\n", encoding="utf-8")

    answer = cli.run("next")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("herdbeat.yaml:")


def test_a_missing_fleet_is_a_problem_that_validate_reports(cli: CommandLine) -> None:
    answer = cli.run("validate", "--json")

    assert answer.status == 2
    assert [problem["code"] for problem in answer.json()["problems"]] == ["no_config"]


@pytest.mark.parametrize("zone", [("--utc",), ("--tz", "UTC")])
def test_another_zone_only_shows_a_schedule_differently(cli: CommandLine, zone: tuple[str, ...]) -> None:
    cli.folder = FLEET

    there = cli.run("next", "backup", "-n", "1", *zone)
    here = cli.run("next", "backup", "-n", "1")

    assert "Europe/Berlin, shown in UTC" in there.lines()[0]
    assert "01:30 UTC" in there.lines()[1]
    assert "02:30 CET  01:30 UTC" in here.lines()[1]


def test_another_zone_reads_an_expression_differently(cli: CommandLine) -> None:
    berlin = cli.run("next", "0 9 * * *", "-n", "1", "--plain")
    tokyo = cli.run("next", "0 9 * * *", "-n", "1", "--plain", "--tz", "Asia/Tokyo")

    assert berlin.out.startswith("2026-03-27T08:00:00Z\t")
    assert tokyo.out.startswith("2026-03-27T00:00:00Z\t")


def test_a_start_in_the_past_or_the_future_moves_the_window(cli: CommandLine) -> None:
    past = cli.run("next", "@daily", "--from", "-2d", "--until", "1d", "--plain", "--utc")
    future = cli.run("next", "@daily", "--from", "2026-05-01", "--until", "36h", "--plain", "--utc")

    assert past.out == "2026-03-25T00:00:00Z\t-\tbaseline-cron\t\n"
    assert future.out == "2026-05-02T00:00:00Z\t-\tbaseline-cron\t\n"


def test_a_target_selects_all_its_schedules_and_so_does_a_star(cli: CommandLine) -> None:
    cli.folder = FLEET

    by_name, by_star = cli.run("next", "triage", "--plain"), cli.run("next", "triage/*", "--plain")

    assert by_name.out == by_star.out
    assert [line.split("\t")[1] for line in by_name.lines()] == ["triage/check-issues", "triage/standup"]


def test_a_schedule_in_another_zone_than_the_list_names_its_zone(cli: CommandLine) -> None:
    write(cli.folder, IMPORTED)

    heading, imported, own = cli.run("next", COLUMNS="80").lines()

    assert heading.split()[-1] == "ZONE"
    assert imported.startswith("Fri 27 Mar  02:00 CET")
    assert imported.endswith("at 01:00 every day  UTC")
    assert own.endswith("at 03:00 every day")


def test_a_list_in_one_zone_has_no_column_for_it(cli: CommandLine) -> None:
    jobs = "{ name: a, command: [x], cron: '0 3 * * *' }, { name: b, command: [x], cron: '0 9 * * *' }"
    write(cli.folder, {"herdbeat.yaml": f"timezone: UTC\ncommands: [{jobs}]"})

    heading, *_ = cli.run("next", COLUMNS="80").lines()

    assert "ZONE" not in heading


def test_a_schedule_that_is_due_now_adds_no_seconds(cli: CommandLine) -> None:
    cli.clock = FakeClock(datetime(2026, 3, 26, 13, 4, 17, 250, tzinfo=UTC))
    jobs = "{ name: a, command: [x], every: 5m }, { name: b, command: [x], cron: '0 9 * * *' }"
    write(cli.folder, {"herdbeat.yaml": f"commands: [{jobs}]"})

    _, now, later = cli.run("next").lines()

    assert now.startswith("Thu 26 Mar  14:04 CET  now")
    assert later.startswith("Fri 27 Mar  09:00 CET")


def test_a_folder_without_a_fleet_is_named(cli: CommandLine) -> None:
    (cli.folder / "empty").mkdir()

    answer = cli.run("next", "--config", "empty")

    assert answer.status == 2
    assert '.agentd/ found in "' in answer.err
    assert "any parent directory" not in answer.err


def test_a_path_that_is_too_long_is_reported_and_no_internal_error(cli: CommandLine) -> None:
    answer = cli.run("validate", "x" * 5_000)

    assert answer.status == 2
    assert "File name too long" in answer.out


def test_a_list_from_another_start_has_no_relative_times(cli: CommandLine) -> None:
    jobs = "{ name: a, command: [x], every: 5m }, { name: b, command: [x], type: manual }"
    write(cli.folder, {"herdbeat.yaml": f"commands: [{jobs}]"})

    answer = cli.run("next", "--from", "2025-01-01")

    assert "LEFT" not in answer.out
    assert "ago" not in answer.out
    assert "waits for an event" in answer.out
