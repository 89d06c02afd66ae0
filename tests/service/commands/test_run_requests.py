"""What somebody gives with a run by hand: it reaches the program of that run, is checked before, and is shown later."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat.domain.change import ChangeKind
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import Actor, Scope, TriggeredBeat, TriggerSchedule
from herdbeat.service.commands.dispatch import execute
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

FLEET = """\
version: 1
timezone: UTC
commands:
  - name: note
    command: [sh, -c, 'cat >> notes.txt; echo >> notes.txt']
    schedules:
      daily: { cron: "0 2 * * *", prompt: "Every day." }
      call: { type: webhook, auth: none, prompt: "Release {{payload.tag}}." }
"""
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
YOU = Actor(name="human:you")


def test_a_prompt_for_one_run_reaches_its_program_and_no_other_run(tmp_path: Path) -> None:
    running = RunningFleet(tmp_path)
    running.write(FLEET)
    (tmp_path / "long.txt").write_text("From a file on {{schedule}}.", encoding="utf-8")

    with running.up():
        once = running.call("run", "note/daily", "--prompt", "This once.", "--reason", "a look", "--wait")
        running.call("run", "note/daily", "--wait")
        running.call("run", "note/daily", "--prompt-file", "long.txt", "--wait")
        retried = running.call("retry", "0001", "--force", "--wait")
        shown = json.loads(running.call("show", "run:0001", "--json").stdout)
        explained = running.call("explain", "0001").stdout

    assert (once.returncode, retried.returncode) == (0, 0), once.stderr + retried.stderr
    written = ["This once.", "Every day.", "From a file on daily.", "This once."]
    assert (tmp_path / "notes.txt").read_text().splitlines() == written
    assert shown["request"] == {"prompt": "This once.", "input": None, "reason": "a look"}
    assert "given for this run: This once." in explained


def test_a_prompt_given_while_nothing_runs_is_there_at_the_next_start(tmp_path: Path) -> None:
    running = RunningFleet(tmp_path)
    running.write(FLEET)
    with running.up():
        pass

    (tmp_path / "call.json").write_text('{"tag": "v2"}', encoding="utf-8")
    saved = running.call("run", "note/call", "--input-file", "call.json")
    with running.up() as feed:
        feed.until("run_finished")

    assert saved.returncode == 0, saved.stderr
    assert (tmp_path / "notes.txt").read_text().splitlines() == ["Release v2."]


def trigger(herd: SimulatedHerd, label: str, **options: object) -> TriggeredBeat:
    command = TriggerSchedule(schedule=herd.snapshot(label).id, **options)  # type: ignore[arg-type]
    return herd.store.write_now(lambda tx: execute(tx, herd.now, YOU, command))


async def test_with_reset_an_interval_counts_from_the_run_by_hand(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="5m", runner=ScriptedRunner())
        await herd.tick()
        await herd.advance(2 * MINUTE)

        fired = trigger(herd, "triage", reset=True, reason="new data")
        await herd.tick()

        assert fired.next_run_at == TEN + 7 * MINUTE
        assert herd.next_run("triage") == TEN + 7 * MINUTE
        with closing(SqliteReader(herd.store.path)) as reader:
            (change,) = reader.changes(Filter(limit=1))
        assert (change.what, change.who) == (ChangeKind.EDIT, "human:you")
        assert dict(change.after or {})["reason"] == "new data"


async def test_with_reset_a_calendar_keeps_its_times(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 11 * * *")
        await herd.tick()

        trigger(herd, "report", reset=True)

        assert herd.next_run("report") == TEN + timedelta(hours=1)


async def test_with_reset_an_interval_that_runs_is_decided_by_its_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("triage", every="5m", runner=runner, max_concurrent=2)
        await herd.tick()
        await herd.advance(2 * MINUTE)

        trigger(herd, "triage", reset=True, queue=True)
        runner.let_go()
        await herd.tick()

        assert herd.next_run("triage") == TEN + 7 * MINUTE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "Look at {{payload.x}}."}, "only available on webhook"),
        ({"prompt": "Look at {{dat}}."}, "did you mean"),
        ({"prompt": "x" * 100_001}, "too long"),
        ({"input": "{}"}, "takes no input"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_leaves_no_beat(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 11 * * *")
        await herd.tick()

        with pytest.raises(UsageError, match=message):
            trigger(herd, "report", **options)

        assert herd.outcomes("report") == []


def test_a_prompt_is_not_in_the_text_of_its_command() -> None:
    assert "secret plan" not in repr(TriggerSchedule(schedule=1, prompt="secret plan", input='"secret plan"'))
    assert TriggerSchedule.scope is Scope.TRIGGER
