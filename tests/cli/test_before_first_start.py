"""Commands before the first `up`: they are kept, and take effect when it comes."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.commands.test_up import UpFleet

from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import open_herd

FLEET = """\
version: 1
fleet: { name: early }
commands:
  - { name: report, command: ["sh", "-c", "echo ran >> report.txt"], every: 1h }
  - { name: other, command: ["sh", "-c", "echo ran >> other.txt"], every: 1h }
  - { name: daily, command: ["true"], cron: "0 9 * * *" }
"""


@pytest.fixture
def early(cli: CommandLine) -> CommandLine:
    cli.environ["USER"] = "you"
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    return cli


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (("pause", "report"), "state", "paused"),
        (("disable", "report"), "state", "disabled"),
        (("hint", "report", "--every", "10m", "--for", "2h"), "pace", "10m"),
        (("skip", "daily"), "state", "new"),
        (("run", "report"), "state", "new"),
    ],
)
def test_a_command_before_the_first_start_is_kept(
    early: CommandLine, words: tuple[str, ...], key: str, value: str
) -> None:
    answer = early.run(*words)

    assert answer.status == 0, answer
    assert "herdbeat up" in answer.out + answer.err
    found = early.run("list", "--json").json()["items"]
    assert len(found) == 3
    report = found[0][key]
    assert (report["every"] if isinstance(report, dict) else report) == value


def test_it_says_that_it_takes_effect_at_the_first_start(early: CommandLine) -> None:
    assert "takes effect at the first start" in early.run("pause", "report").err


def test_a_typo_before_the_first_start_leaves_no_ledger(early: CommandLine) -> None:
    answer = early.run("pause", "reprot")

    assert answer.status == 3
    assert 'did you mean "report"?' in answer.err
    assert not (early.folder / ".herdbeat").exists()


def _has_text(path: Path) -> bool:
    """A shell makes the file a moment before it writes into it."""
    return path.exists() and path.stat().st_size > 0


def test_the_first_start_honours_what_was_paused_before_it(tmp_path: Path) -> None:
    fleet = UpFleet(tmp_path)
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    fleet.call("pause", "report")
    with fleet.up():
        deadline = time.monotonic() + 60
        while not _has_text(tmp_path / "other.txt") and time.monotonic() < deadline:
            time.sleep(0.05)

    assert (tmp_path / "other.txt").read_text(encoding="utf-8") == "ran\n"
    assert not (tmp_path / "report.txt").exists()


async def test_an_instant_before_the_first_start_is_missed_and_not_run_late(early: CommandLine) -> None:
    commands = FLEET.replace("every: 1h", 'cron: "0 10 1 1 *"')
    (early.folder / "herdbeat.yaml").write_text(commands, encoding="utf-8")
    early.run("pause", "report")
    async with open_herd(early.folder / ".herdbeat", early.clock.now() + timedelta(days=1)) as herd:
        await herd.tick()

        assert herd.outcomes("daily") == [("missed", "scheduler_down", 1)]


async def test_an_instant_shortly_before_the_first_start_is_late_and_not_missed(early: CommandLine) -> None:
    commands = FLEET.replace("every: 1h", 'cron: "0 10 1 1 *"').replace('"0 9 * * *"', '"0 9 * * *", grace: 1s')
    (early.folder / "herdbeat.yaml").write_text(f"{commands}timezone: UTC\n", encoding="utf-8")
    due_at = datetime(2030, 3, 4, 9, tzinfo=UTC)
    early.clock = FakeClock(due_at - timedelta(seconds=10))
    early.run("pause", "report")
    async with open_herd(early.folder / ".herdbeat", due_at + timedelta(seconds=29)) as herd:
        await herd.tick()

        assert herd.outcomes("daily") == [("ran", "", 1)]


def test_create_needs_no_file(tmp_path: Path) -> None:
    fleet = UpFleet(tmp_path)
    (tmp_path / "herdbeat.yaml").unlink()

    created = fleet.call("create", "hello", "--command", "sh -c 'echo hi >> hello.txt'", "--every", "1h")
    with fleet.up():
        deadline = time.monotonic() + 20
        while not (tmp_path / "hello.txt").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    assert created.returncode == 0, created.stderr
    assert (tmp_path / "hello.txt").read_text(encoding="utf-8") == "hi\n"


def test_create_without_a_file_refuses_a_mistake_in_the_words_of_a_file(cli: CommandLine) -> None:
    answer = cli.run("create", "hello", "--command", "true", "--cron", "61 * * * *")

    assert answer.status == 2
    assert "61" in answer.err
    assert not (cli.folder / ".herdbeat").exists()


async def test_create_on_the_ledger_of_a_program_does_not_crash(cli: CommandLine) -> None:
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now()) as herd:
        herd.schedule("poll", every="1h")
        await herd.tick()

    answer = cli.run("create", "hello", "--command", "true", "--every", "1h")

    assert answer.status == 0, answer
    assert cli.run("up").status == 2  # the program has to run its own schedules


def test_validate_names_an_agentd_folder_without_files(cli: CommandLine) -> None:
    (cli.folder / ".agentd").mkdir()

    answer = cli.run("validate")

    assert answer.out == f"✓ {cli.folder.name} (no files yet)  0 targets, 0 schedules\n"


@pytest.mark.parametrize("words", [("status",), ("list",), ("create", "x", "--command", "true", "--every", "1h")])
def test_an_empty_agentd_folder_is_an_empty_fleet(cli: CommandLine, words: tuple[str, ...]) -> None:
    for folder in ("agents", "workflows"):
        (cli.folder / ".agentd" / folder).mkdir(parents=True)
    assert cli.run("create", "first", "--command", "true", "--every", "1h").status == 0

    assert cli.run(*words).status == 0


def test_a_hint_hid_the_first_run_that_was_due_already(early: CommandLine) -> None:
    early.run("hint", "report", "--every", "5h", "--for", "1d")

    shown = early.run("next", "report", "--json").json()

    first, second = (datetime.fromisoformat(each["next_run_at"]) for each in shown["items"][:2])
    assert shown["items"][0]["source"] == "first-run"
    assert (first, second - first) == (datetime.fromisoformat(shown["from"]), timedelta(hours=5))
