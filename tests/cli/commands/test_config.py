"""`config show`: resolved values, and the line that sets each."""

from pathlib import Path

import pytest

from herdbeat.testing.command_line import CommandLine

FLEET = Path(__file__).parents[1] / "fleet"


@pytest.fixture
def fleet(cli: CommandLine) -> CommandLine:
    cli.folder = FLEET
    return cli


def test_a_schedule_shows_its_own_values_and_its_defaults(fleet: CommandLine) -> None:
    lines = fleet.run("config", "show", "triage/standup").lines()

    assert lines[0] == "triage/standup"
    assert {line.split()[0]: line.split()[-1] for line in lines[1:]}.items() >= {
        ("jitter", "agents/triage.yaml:14:13"),
        ("timezone", "herdbeat.yaml:3:11"),
        ("timeout", "herdbeat.yaml:4"),
        ("overlap", "default"),
    }


def test_a_target_shows_itself_and_its_schedules(fleet: CommandLine) -> None:
    lines = fleet.run("config", "show", "triage").lines()

    headings = [line for line in lines if not line.startswith(" ")]
    assert headings == ["triage (agent)", "triage/check-issues", "triage/standup"]


def test_config_show_omits_defaults_unless_verbose(fleet: CommandLine) -> None:
    short, long = fleet.run("config", "show"), fleet.run("config", "show", "-v")

    assert "  default\n" not in short.out
    assert "show them with -v" in short.err
    assert "  default\n" in long.out
    assert long.err == ""


@pytest.mark.parametrize(
    "words",
    [
        ("herdbeat.yaml", "backup"),
        ("./herdbeat.yaml", "backup"),
        ("backup", "-c", "herdbeat.yaml"),
        ("backup/default", "--config=."),
        ("backup/*",),
    ],
)
def test_path_and_selector_can_be_given_in_every_sensible_way(fleet: CommandLine, words: tuple[str, ...]) -> None:
    values = {each["path"]: each["value"] for each in fleet.run("config", "show", *words, "--json").json()["values"]}

    assert values["commands.backup.schedules.default.cron"] == "30 2 * * *"
    assert all(path.startswith("commands.backup.") for path in values)


def test_a_single_path_shows_the_whole_of_that_file(fleet: CommandLine) -> None:
    assert fleet.run("config", "show", "warned.yaml").lines()[0] != "my-fleet"
    assert fleet.run("config", "show", "herdbeat.yaml").lines()[0] == "my-fleet"


def test_plain_fields_are_separated_by_tabs(fleet: CommandLine) -> None:
    lines = fleet.run("config", "show", "launch", "--plain").lines()

    assert "commands.launch.schedules.default.at\t2026-12-01T09:00:00+01:00\therdbeat.yaml:17:49" in lines
    assert {line.count("\t") for line in lines} == {2}
