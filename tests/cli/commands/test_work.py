"""`herdbeat work` on the ledger of a fleet that has worked."""

from pathlib import Path

from tests.support.work_herd import open_work_herd

from herdbeat.bootstrap.config import STATE_DIR_NAME
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

    assert of_run == item
    wanted = {"item": "41", "state": "ran", "attempt": 1, "max_attempts": 3, "run": "0001", "tries": 1}
    assert wanted.items() <= item.items()


async def test_an_item_is_released_by_its_id_and_an_unknown_one_is_named(tmp_path: Path, cli: CommandLine) -> None:
    await prepare(tmp_path)

    released = cli.run("release", "41")
    unknown = cli.run("release", "7")

    assert (released.status, released.out) == (0, "✓ 41 (fake:queue) is offered again.\n")
    assert (unknown.status, 'No run has taken an item "7".' in unknown.err) == (3, True)
