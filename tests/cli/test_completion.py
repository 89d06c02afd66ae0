"""The completion scripts, run in the shells that are installed."""

import subprocess

import pytest

from herdbeat.cli.table import COMMANDS
from herdbeat.testing.command_line import CommandLine


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["herdbeat", "v"], ["validate"]),
        (["herdbeat", "config", ""], ["validate", "show"]),
        (["herdbeat", "schema", ""], ["fleet", "agent"]),
        (["herdbeat", "next", "--u"], ["--until", "--utc"]),
        (["herdbeat", "--json", "config", "s"], ["show"]),
        (["herdbeat", "completion", "f"], ["fish"]),
    ],
)
def test_bash_offers_what_comes_next(cli: CommandLine, typed: list[str], offered: list[str]) -> None:
    script = cli.run("completion", "bash").out
    words = " ".join(f"'{word}'" for word in typed)
    asked = f'COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _herdbeat; printf "%s\\n" "${{COMPREPLY[@]}}"'

    done = subprocess.run(["bash", "--norc", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)

    assert done.stderr == ""
    assert done.stdout.split()[: len(offered)] == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completions_have_descriptions(cli: CommandLine, shell: str) -> None:
    script = cli.run("completion", shell).out

    for command in COMMANDS:
        assert command.summary.replace("'", "") in script.replace("'\\''", "").replace("\\'", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_every_option_is_in_every_script(cli: CommandLine, shell: str) -> None:
    script = cli.run("completion", shell).out

    for command in COMMANDS:
        assert command.name.split()[-1] in script
        for option in command.all_options:
            assert option.key in script
