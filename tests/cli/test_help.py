"""The help: every command has a line, every option says what it does for its command, and the links exist."""

import tomllib
from collections import Counter

import pytest
from tests.support.golden_screens import CLI_TESTS

from herdbeat.cli.help import DOCS_URL, HELP_GROUPS, ISSUES_URL
from herdbeat.cli.spec import CliCommand
from herdbeat.cli.table import COMMAND_GROUPS, COMMANDS
from herdbeat.testing.command_line import CommandLine

COMMAND_IDS = [command.name for command in COMMANDS]


def test_every_command_is_in_one_group_of_the_help() -> None:
    grouped = Counter(name for names in HELP_GROUPS.values() for name in names)

    assert grouped == Counter(command.name for command in COMMANDS)


def test_the_help_lists_every_command_with_its_summary_on_one_line(cli: CommandLine) -> None:
    lines = [" ".join(line.split()) for line in cli.run("--help", COLUMNS="80").lines()]

    for command in COMMANDS:
        assert f"{command.name} {command.summary}" in lines


def test_no_heading_of_the_help_can_be_mistaken_for_a_command() -> None:
    words = {name.split()[0] for command in COMMANDS for name in command.names} | set(COMMAND_GROUPS)

    assert all(title.isupper() and title.lower() not in words for title in HELP_GROUPS)


@pytest.mark.parametrize("command", COMMANDS, ids=COMMAND_IDS)
def test_every_command_has_help(cli: CommandLine, command: CliCommand) -> None:
    for name in command.names:
        short, long = cli.run(*name.split(), "-h"), cli.run(*name.split(), "--help")

        assert (short.status, short.out) == (0, long.out)
        assert f"{command.summary}." in short.lines()


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("down", "Interrupt active runs and kill their programs immediately"),
        ("cancel", "Kill the run immediately"),
        ("retry", "Retry even if the run succeeded"),
        ("init", "Overwrite an existing fleet file"),
        ("db backup", "Overwrite FILE"),
    ],
)
def test_force_is_described_for_its_command(cli: CommandLine, command: str, meaning: str) -> None:
    (line,) = [line for line in cli.run(*command.split(), "-h").lines() if line.lstrip().startswith("--force ")]

    assert line.endswith(meaning)


@pytest.mark.parametrize("command", COMMANDS, ids=COMMAND_IDS)
def test_texts_of_the_help_are_phrases_that_begin_with_a_capital(command: CliCommand) -> None:
    texts = [command.summary, *(option.meaning for option in command.all_options)]

    assert [text for text in texts if not text[0].isupper() or text.endswith(".")] == []


def test_the_links_are_those_of_the_package() -> None:
    """The help used to name a path in the checkout, which an installed herdbeat does not have."""
    urls = tomllib.loads((CLI_TESTS.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

    assert (urls["Documentation"], urls["Issues"]) == (DOCS_URL, ISSUES_URL)
