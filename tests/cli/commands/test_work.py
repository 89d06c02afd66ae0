"""`herdbeat work` on the ledger of a fleet that has worked."""

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.support.work_herd import open_work_herd

from herdbeat.bootstrap.config import STATE_DIR_NAME
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.testing.command_line import CommandLine

FLEET = """\
version: 1
fleet: { name: work }
commands:
  - name: worker
    command: [cat]
    schedules:
      backlog: { every: 5m, work_source: { type: directory, path: inbox } }
"""


async def prepare(folder: Path) -> None:
    (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (folder / STATE_DIR_NAME).mkdir(mode=0o700)
    async with open_work_herd(folder / STATE_DIR_NAME) as herd:
        herd.source.offer("41", title="Fix \x1b[31mlogin")
        herd.source.failures["report"] = 1
        await herd.tick()


async def test_an_undelivered_report_is_shown_with_its_error_and_its_next_try(tmp_path: Path, cli: CommandLine) -> None:
    await prepare(tmp_path)

    shown = cli.run("work", "--utc")

    assert "\x1b" not in shown.out
    assert "41" in shown.out
    assert "It cannot report.; next try" in shown.out


async def test_the_json_names_item_state_attempt_and_run(tmp_path: Path, cli: CommandLine) -> None:
    await prepare(tmp_path)

    (item,) = cli.run("work", "worker", "--json").json()["items"]
    of_run = cli.run("show", "0001", "--json").json()["item"]

    assert of_run.items() <= item.items()
    wanted = {"item": "41", "state": "ran", "attempt": 1, "max_attempts": 3, "run": "0001", "tries": 1}
    assert wanted.items() <= item.items()


async def test_an_item_is_released_by_its_id_and_an_unknown_one_is_named(tmp_path: Path, cli: CommandLine) -> None:
    await prepare(tmp_path)

    released = cli.run("release", "41")
    unknown = cli.run("release", "7")

    assert (released.status, released.out) == (0, "✓ 41 (fake:queue) is offered again.\n")
    assert (unknown.status, 'No run has taken an item "7".' in unknown.err) == (3, True)


async def test_the_runs_that_tried_an_item_before_are_named(tmp_path: Path, cli: CommandLine) -> None:
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (tmp_path / STATE_DIR_NAME).mkdir(mode=0o700)
    async with open_work_herd(tmp_path / STATE_DIR_NAME) as herd:
        herd.source.offer("41")
        herd.runner.outcomes = [Outcome(status=RunStatus.FAILED, error="no"), Outcome(status=RunStatus.SUCCEEDED)]
        await herd.tick()
        herd.source.failures["report"] = 1
        await herd.advance(timedelta(minutes=10))

    shown = cli.run("work", "--wide")
    (item,) = cli.run("work", "--json").json()["items"]

    assert "2 of 3 after 0001 failed" in shown.out
    (earlier,) = item["earlier_attempts"]
    assert (earlier["run"], earlier["run_status"], earlier["attempt"]) == ("0001", "failed", 1)


def test_what_the_sources_offer_is_shown_beside_what_was_taken(tmp_path: Path, cli: CommandLine) -> None:
    asyncio.run(prepare(tmp_path))
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "next.txt").write_text("Do \x1b[31mthis", encoding="utf-8")

    shown = cli.run("work", "--offered", "--wide")
    offered = cli.run("work", "--offered", "--json").json()["offered"]

    assert [line.split()[0] for line in shown.lines()[1:]] == ["41", "next.txt"]
    assert "offered" in shown.lines()[2]
    assert "\x1b" not in shown.out
    assert [(each["item"], each["schedules"]) for each in offered] == [("next.txt", ["worker/backlog"])]


def test_a_source_that_does_not_answer_is_named_with_what_to_do(tmp_path: Path, cli: CommandLine) -> None:
    asyncio.run(prepare(tmp_path))

    shown = cli.run("work", "--offered")

    assert "worker/backlog: " in shown.err
    assert "inbox" in shown.err


async def test_an_unknown_target_is_an_error_with_a_suggestion(tmp_path: Path, cli: CommandLine) -> None:
    await prepare(tmp_path)

    shown = cli.run("work", "wroker")

    assert shown.status == 3
    assert 'did you mean "worker"' in shown.err


async def test_a_forced_release_changes_only_the_ledger(tmp_path: Path, cli: CommandLine) -> None:
    await prepare(tmp_path)

    released = cli.run("release", "41", "--force")
    (item,) = cli.run("work", "--all", "--json").json()["items"]

    assert "41 (fake:queue) is free in the ledger." in released.out
    assert item["state"] == "released"
