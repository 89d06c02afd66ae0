"""The completion scripts, run in the shells that are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.golden_screens import CLI_TESTS

from herdbeat.cli.table import COMMANDS
from herdbeat.testing.command_line import CommandLine


def complete_in_bash(cli: CommandLine, typed: list[str], folder: Path = CLI_TESTS, path: str = "") -> list[str]:
    """Return what bash offers for the last of the words."""
    script = cli.run("completion", "bash").out
    words = " ".join(f"'{word}'" for word in typed)
    asked = f'COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _herdbeat; printf "%s\\n" "${{COMPREPLY[@]}}"'
    environ = {**os.environ, "PATH": f"{path}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{asked}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=environ,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["herdbeat", "v"], ["validate"]),
        (["herdbeat", "config", ""], ["validate", "show"]),
        (["herdbeat", "schema", ""], ["fleet", "agent"]),
        (["herdbeat", "schema", "fleet", "--js"], ["--json"]),
        (["herdbeat", "next", "--u"], ["--until", "--utc", "--url"]),
        (["herdbeat", "--json", "config", "s"], ["show"]),
        (["herdbeat", "-c", "fleet", "config", "s"], ["show"]),
        (["herdbeat", "completion", "f"], ["fish"]),
        (["herdbeat", "init", "--template", "e"], ["endpoints"]),
        (["herdbeat", "list", "--state", "f"], ["failing"]),
        (["herdbeat", "list", "--state", "=", "f"], ["failing"]),
        (["herdbeat", "beats", "--outcome", "m"], ["missed", "merged"]),
        (["herdbeat", "runs", "--status", "t"], ["timed_out"]),
        (["herdbeat", "validate", "-c", "fle"], ["fleet"]),
        (["herdbeat", "validate", "fleet/herd"], ["fleet/herdbeat.yaml"]),
        (["herdbeat", "pause", "--reason", ""], []),
        (["herdbeat", "up", "--st"], ["--state-dir"]),
    ],
)
def test_bash_offers_what_comes_next(cli: CommandLine, typed: list[str], offered: list[str]) -> None:
    assert complete_in_bash(cli, typed) == offered


@pytest.fixture
def herdbeat_on_path(tmp_path: Path) -> str:
    """The beginning of a PATH on which this herdbeat is called `herdbeat`."""
    program = tmp_path / "bin" / "herdbeat"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m herdbeat "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return f"{program.parent}:"


def test_bash_offers_time_zones(cli: CommandLine, tmp_path: Path, herdbeat_on_path: str) -> None:
    offered = complete_in_bash(cli, ["herdbeat", "next", "--tz", "Europe/Ber"], tmp_path, herdbeat_on_path)

    assert offered == ["Europe/Berlin"]


def test_bash_offers_names_and_run_ids_of_the_ledger(cli: CommandLine, tmp_path: Path, herdbeat_on_path: str) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    herdbeat = str(tmp_path / "bin" / "herdbeat")
    subprocess.run([herdbeat, "create", "disk", "--command", "true", "--every", "1h"], cwd=folder, check=True)
    running = subprocess.Popen([herdbeat, "up", "-q"], cwd=folder)
    try:
        _wait_for_run(herdbeat, folder)
    finally:
        running.terminate()
        running.wait()

    assert complete_in_bash(cli, ["herdbeat", "pause", "di"], folder, herdbeat_on_path) == ["disk"]
    assert complete_in_bash(cli, ["herdbeat", "show", "0"], folder, herdbeat_on_path) == ["0002", "0001"]
    assert complete_in_bash(cli, ["herdbeat", "pause", "0"], folder, herdbeat_on_path) == []


FLEET_YAML = "version: 1\ncommands:\n  - { name: disk, command: [echo], every: 1h }\n"


def test_names_are_offered_before_the_first_start(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET_YAML, encoding="utf-8")

    assert cli.run("completion", "names", "di").out.split() == ["disk"]
    assert cli.run("completion", "names", "x").out == ""


def test_names_are_still_offered_after_the_file_was_edited(cli: CommandLine) -> None:
    """Once, nothing was offered until some other command had read the file."""
    file = cli.folder / "herdbeat.yaml"
    file.write_text(FLEET_YAML, encoding="utf-8")
    cli.run("apply")
    cli.run("list")

    file.write_text(f"# edited\n{FLEET_YAML}", encoding="utf-8")

    assert cli.run("completion", "names", "di").out.split()[0] == "disk"


def _wait_for_run(herdbeat: str, folder: Path) -> None:
    for _ in range(120):
        done = subprocess.run([herdbeat, "run", "disk", "--wait"], cwd=folder, capture_output=True, check=False)
        if done.returncode == 0:
            return
    raise AssertionError("the fleet did not start")


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
            assert all(choice in script for choice in option.choices)
