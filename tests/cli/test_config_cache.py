"""The configuration cache beside the ledger: used only while it is valid."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.support.mixed_state_fleet import FLEET_YAML, write_mixed_state_fleet

from herdbeat.store.state_lock import StateLock
from herdbeat.testing.command_line import CommandLine


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("signpost")
    asyncio.run(write_mixed_state_fleet(made))
    return made


@pytest.fixture
def folder(story: Path, cli: CommandLine) -> Path:
    """The fleet without a cache beside its ledger."""
    (story / "herdbeat.yaml").write_text(FLEET_YAML, encoding="utf-8")
    (story / ".herdbeat" / "signpost.json").unlink(missing_ok=True)
    cli.folder = story
    return story


def headline(cli: CommandLine, **environ: str) -> str:
    return cli.run("status", **environ).lines()[0].split("   ")[0]


def test_every_command_that_reads_the_files_writes_the_cache(cli: CommandLine, folder: Path) -> None:
    cli.run("list")

    written = json.loads((folder / ".herdbeat" / "signpost.json").read_text(encoding="utf-8"))

    assert (written["name"], written["zone"]) == ("my-fleet", "Europe/Berlin")
    assert headline(cli) == "my-fleet"


def test_an_edited_file_is_read_again(cli: CommandLine, folder: Path) -> None:
    before = headline(cli)

    (folder / "herdbeat.yaml").write_text(FLEET_YAML.replace("my-fleet", "renamed"), encoding="utf-8")

    assert (before, headline(cli)) == ("my-fleet", "renamed")


def test_while_the_fleet_runs_commands_do_not_read_an_edited_file(cli: CommandLine, folder: Path) -> None:
    """The first command after an edit of ten thousand targets took seconds, to read what the ledger already had."""
    headline(cli)
    (folder / "herdbeat.yaml").write_text(FLEET_YAML.replace("my-fleet", "renamed"), encoding="utf-8")

    with StateLock(folder / ".herdbeat"):
        running = headline(cli)

    assert (running, headline(cli)) == ("my-fleet", "renamed")


def test_a_file_that_uses_environment_variables_is_read_every_time(cli: CommandLine, folder: Path) -> None:
    (folder / "herdbeat.yaml").write_text(FLEET_YAML.replace("my-fleet", '"${NAME}"'), encoding="utf-8")

    names = [headline(cli, NAME=name) for name in ("one", "two")]

    assert names == ["one", "two"]


def test_without_a_zone_of_its_own_it_follows_the_machine(cli: CommandLine, folder: Path) -> None:
    (folder / "herdbeat.yaml").write_text(FLEET_YAML.replace("timezone: Europe/Berlin\n", ""), encoding="utf-8")

    berlin = cli.run("show", "0001").out
    tokyo = cli.run("show", "0001", TZ="Asia/Tokyo").out

    assert "22:00:00 CET" in berlin
    assert "06:00:00 JST" in tokyo


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"form": 99}', '{"form": 1}'])
def test_a_damaged_cache_is_ignored(cli: CommandLine, folder: Path, torn: str) -> None:
    (folder / ".herdbeat" / "signpost.json").write_text(torn, encoding="utf-8")

    assert headline(cli) == "my-fleet"


def test_a_read_only_state_directory_is_no_error(cli: CommandLine, folder: Path) -> None:
    (folder / ".herdbeat" / f"signpost.json.{os.getpid()}").mkdir()

    name = headline(cli)

    (folder / ".herdbeat" / f"signpost.json.{os.getpid()}").rmdir()
    assert name == "my-fleet"
    assert not (folder / ".herdbeat" / "signpost.json").exists()


def test_the_cache_of_another_fleet_in_the_same_folder_is_not_used(cli: CommandLine, folder: Path) -> None:
    (folder / "other.yaml").write_text(FLEET_YAML.replace("my-fleet", "other"), encoding="utf-8")
    cli.run("list")

    answer = cli.run("status", "-c", "other.yaml")

    assert answer.lines()[0].startswith("other ")
