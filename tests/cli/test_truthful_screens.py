"""List, explain, status and next agree about one state: a beat that waits for its retry, a fleet that nothing runs."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

import pytest

from herdbeat.cli.commands import cancel
from herdbeat.domain.policies import Bounds, OnInterrupt, Retry
from herdbeat.service.commands.base import CancelledWork
from herdbeat.store.state_lock import StateLock
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, open_herd

RETRY = Retry(attempts=3, wait=timedelta(minutes=1))


@pytest.fixture
async def retrying(cli: CommandLine) -> CommandLine:
    """An interval and a cron whose beats failed 20 and 10 seconds ago, beside one that is fine."""
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now() - timedelta(seconds=10)) as herd:
        herd.schedule("poll", every="1h", retry=RETRY, runner=ScriptedRunner(fails=9))
        herd.schedule("report", cron="4 * * * *", retry=RETRY, runner=ScriptedRunner(fails=9))
        herd.schedule("fine", every="1h")
        await herd.tick()
        await herd.advance(timedelta(seconds=20))
        assert isinstance(cli.clock, FakeClock)
        cli.clock.advance(herd.now - cli.clock.now())
    return cli


@pytest.fixture
def running(retrying: CommandLine) -> Iterator[CommandLine]:
    with StateLock(retrying.folder / ".herdbeat"):
        yield retrying


SCREENS = [("list",), ("explain", "poll"), ("status",), ("show", "poll")]


@pytest.mark.parametrize("words", SCREENS)
def test_a_failed_beat_that_waits_for_its_retry_says_so_on_every_screen(
    running: CommandLine, words: tuple[str, ...]
) -> None:
    answer = running.run(*words)

    assert "retry 2 of 3 in 40s" in answer.out
    assert "done" not in answer.out
    assert "on time" not in answer.out


@pytest.mark.parametrize("words", [("beats",), ("beats", "poll")])
def test_a_beat_that_is_open_without_a_scheduler_is_listed_with_the_reason(
    retrying: CommandLine, words: tuple[str, ...]
) -> None:
    stopped = retrying.run(*words)
    with StateLock(retrying.folder / ".herdbeat"):
        alive = retrying.run(*words)

    assert stopped.err.startswith("scheduler: not running")
    assert "not running" not in alive.err


def test_status_check_fails_while_a_failed_beat_waits_for_its_retry(running: CommandLine) -> None:
    answer = running.run("status", "--check", "--json")

    assert answer.status == 6
    assert [(each["schedule"], each["retry"]["attempt"]) for each in answer.json()["failing"]] == [
        ("poll", 2),
        ("report", 2),
    ]


async def test_status_calls_nothing_on_time_while_the_scheduler_is_behind(cli: CommandLine) -> None:
    """With a full disk it said "11s behind" and, below, "All 5 schedules are on time"."""
    state = cli.folder / ".herdbeat"
    state.mkdir()
    assert isinstance(cli.clock, FakeClock)
    async with open_herd(state, cli.clock.now() - timedelta(minutes=1)) as herd:
        herd.schedule("poll", every="1m")
        await herd.tick()

    with StateLock(state):
        in_time = cli.run("status").out
        cli.clock.advance(timedelta(seconds=11))
        behind = cli.run("status").out

    assert "on time" in in_time
    assert "11s behind" in behind
    assert "on time" not in behind


def test_status_check_fails_while_no_node_runs_although_nothing_is_late_yet(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(
        "version: 1\ncommands:\n  - { name: poll, command: [echo], every: 1h }\n", encoding="utf-8"
    )
    before_first_start = cli.run("status", "--check").status
    cli.run("apply")

    answer = cli.run("status", "--check")
    with StateLock(cli.folder / ".herdbeat"):
        with_node = cli.run("status", "--check").status

    assert (before_first_start, answer.status, with_node) == (6, 6, 0)
    assert "not running" in answer.out


def test_next_shows_the_retry_and_counts_an_interval_from_it(running: CommandLine) -> None:
    items = running.run("next", "poll", "-n", "2", "--json").json()["items"]

    assert [(each["next_run_at"], each["source"]) for each in items] == [
        ("2026-03-26T13:04:50Z", "retry"),
        ("2026-03-26T14:04:50Z", "baseline-interval"),
    ]


def test_a_calendar_that_waits_for_its_retry_shows_the_retry_before_its_next_instant(running: CommandLine) -> None:
    assert "retry 2 of 3 in 50s" in running.run("list", "report").out
    assert [each["source"] for each in running.run("next", "report", "-n", "2", "--json").json()["items"]] == [
        "retry",
        "baseline-cron",
    ]
    assert "retry 2 of 3 in 50s (last attempt: failed); next run in 59m" in running.run("explain", "report").out


async def test_next_does_not_say_that_a_one_shot_has_ended_while_it_waits_for_its_retry(cli: CommandLine) -> None:
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now()) as herd:
        herd.schedule("launch", at=cli.clock.now().isoformat(), retry=RETRY, runner=ScriptedRunner(fails=9))
        await herd.tick()

    with StateLock(state):
        answer, explained = cli.run("next"), cli.run("explain", "launch")

    assert "retry 2 of 3" in answer.out
    assert "ended" not in answer.out
    assert "the next run is scheduled" not in explained.out, "a one-shot has no next run"


def test_completion_and_the_list_by_state_find_a_beat_that_waits_for_its_retry(running: CommandLine) -> None:
    assert "poll\tfailing" in running.run("completion", "names", "po").out
    assert [each["name"] for each in running.run("list", "--state", "failing", "--json").json()["items"]]
    assert running.run("list", "--state", "done", "--json").json()["items"] == []


def test_a_retry_whose_time_has_passed_is_late(retrying: CommandLine) -> None:
    assert isinstance(retrying.clock, FakeClock)
    retrying.clock.advance(timedelta(minutes=5))

    late = retrying.run("status", "--json").json()["late"]

    assert [(each["schedule"], each["due_at"], each["reason"]) for each in late] == [
        ("poll", "2026-03-26T13:04:50Z", "scheduler_down"),
        ("report", "2026-03-26T13:05:00Z", "scheduler_down"),
    ]


def test_what_is_due_while_nothing_runs_comes_next_in_status_before_it_is_late(retrying: CommandLine) -> None:
    assert isinstance(retrying.clock, FakeClock)
    retrying.clock.advance(timedelta(minutes=59, seconds=50))

    whole = retrying.run("status", "--json").json()
    fine = retrying.run("status", "fine", "--json").json()

    assert "fine" not in [each["schedule"] for each in whole["late"]]
    assert whole["next"][0]["schedule"] == "fine"
    assert [each["schedule"] for each in fine["next"]] == ["fine"]
    assert "  now  fine  every 1h" in retrying.run("status", "fine").lines()


def test_what_starts_within_a_second_is_now_in_list_as_in_status(running: CommandLine) -> None:
    assert isinstance(running.clock, FakeClock)
    due_at = datetime.fromisoformat(running.run("explain", "fine", "--json").json()["next_run_at"])
    running.clock.advance(due_at - running.clock.now() - timedelta(milliseconds=400))

    listed, status = running.run("list", "fine").lines()[1], running.run("status", "fine").lines()

    assert " now " in listed
    assert "  now  fine  every 1h" in status


def test_explain_says_in_its_first_line_that_nothing_runs(retrying: CommandLine) -> None:
    answer = retrying.run("explain", "fine")

    assert answer.lines()[0].startswith("scheduler: not running (since ")
    assert "no scheduler is running; the next run would be in 59m" in answer.out
    assert not retrying.run("explain", "fine", "--json").json()["scheduler"]["running"]


@pytest.mark.parametrize("command", ["list", "next"])
def test_a_view_of_what_comes_says_first_that_nothing_runs(retrying: CommandLine, command: str) -> None:
    assert retrying.run(command).err.startswith("scheduler: not running (since ")


def test_status_promises_no_next_run_while_nothing_runs(retrying: CommandLine) -> None:
    answer = retrying.run("status")

    assert "scheduler: not running" in answer.lines()[0]
    assert "NEXT, if the scheduler were running" in answer.out


def test_nothing_is_said_about_the_scheduler_while_it_runs(running: CommandLine) -> None:
    assert running.run("list").err == running.run("next").err == ""
    assert running.run("explain", "fine").lines()[0].startswith("fine")


def test_a_failed_beat_is_told_from_a_good_one_in_json_filters_and_explain(running: CommandLine) -> None:
    beats = running.run("beats", "--json").json()["items"]
    failed = running.run("beats", "--result", "failed", "--json").json()["items"]

    assert {each["schedule"]: each["result"] for each in beats} == {
        "poll": "failed",
        "report": "failed",
        "fine": "succeeded",
    }
    assert {each["schedule"] for each in failed} == {"poll", "report"}
    assert running.run("beats", "--result", "succeeded", "fine", "--json").json()["items"][0]["schedule"] == "fine"
    assert "failed, retry" in running.run("beats", "poll").out


@pytest.fixture
async def cut_off(cli: CommandLine) -> AsyncIterator[CommandLine]:
    """Two schedules whose runs are active in the ledger, although no scheduler runs: it was killed."""
    state, runner = cli.folder / ".herdbeat", ScriptedRunner(holds=True)
    state.mkdir()
    async with open_herd(state, cli.clock.now() - timedelta(seconds=10)) as herd:
        herd.schedule("poll", every="1h", runner=runner)
        herd.schedule("once", every="1h", bounds=Bounds(max_runs=1), runner=runner)
        await herd.tick()
        yield cli
        runner.let_go()


@pytest.fixture
async def cut_off_and_repeated(cli: CommandLine) -> AsyncIterator[CommandLine]:
    """The run of one schedule is active in the ledger, although no scheduler runs, and is repeated by the next."""
    state, runner = cli.folder / ".herdbeat", ScriptedRunner(holds=True)
    state.mkdir()
    async with open_herd(state, cli.clock.now() - timedelta(seconds=10)) as herd:
        bounds = Bounds(max_runs=1)
        herd.schedule("again", every="1h", bounds=bounds, on_interrupt=OnInterrupt.RETRY, runner=runner)
        await herd.tick()
        yield cli
        runner.let_go()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status",), "CUT OFF 2"),
        (("list", "poll"), "✓ ok"),
        (("list", "poll"), "after start"),
        (("list", "once"), "done"),
        (("explain", "poll"), "its last run was cut off; the next start records it as interrupted"),
        (("explain", "once"), "max_runs 1 is reached"),
        (("show", "poll"), "– cut off"),
        (("show", "0001"), "the next start records it as interrupted"),
        (("runs",), "– cut off"),
        (("beats",), "– cut off"),
        (("next",), "– cut off"),
        (("timeline",), "interrupted"),
    ],
)
async def test_a_run_that_died_with_its_node_looked_as_if_it_went_on_or_as_if_it_had_never_been(
    cut_off: CommandLine, words: tuple[str, ...], said: str
) -> None:
    answer = cut_off.run(*words)

    assert said in answer.out
    assert "● running" not in answer.out
    assert "new" not in answer.out.split()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "again"), "after start"),
        (("next",), "– cut off"),
        (("explain", "again"), "the next start records it as interrupted and repeats it"),
    ],
)
async def test_a_run_that_the_next_start_repeats_was_called_done_and_ended(
    cut_off_and_repeated: CommandLine, words: tuple[str, ...], said: str
) -> None:
    answer = cut_off_and_repeated.run(*words)

    assert said in answer.out
    for wrong in ("done", "ended", "max_runs 1 is reached"):
        assert wrong not in answer.out


async def test_a_retry_called_the_run_of_a_killed_node_still_running(cut_off: CommandLine) -> None:
    answer = cut_off.run("retry", "poll")

    assert answer.status == 1
    assert "run 0001 was cut off, because its node died." in answer.err
    assert "still running" not in answer.err


async def test_a_run_that_died_with_its_node_is_in_the_status_as_json(cut_off: CommandLine) -> None:
    found = json.loads(cut_off.run("status", "--json").out)

    assert ([run["schedule"] for run in found["cut_off"]], found["running"]) == (["poll", "once"], [])


@pytest.mark.parametrize("words", [("show",), ("explain",), ("run",), ("runs",), ("beats",)])
def test_a_pattern_where_one_name_is_asked_for_took_the_first_or_matched_nothing(
    retrying: CommandLine, words: tuple[str, ...]
) -> None:
    answer = retrying.run(*words, "*")

    assert answer.status == 2
    assert '"*" is a pattern. Name one target or schedule.' in answer.err
    assert "herdbeat list '*'" in answer.err


async def test_a_cancel_whose_node_was_killed_offered_to_kill_what_was_gone(
    cut_off: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CancelledWork(schedule="poll", id=1, runs=("0001",), called_off=0)
    monkeypatch.setattr(cancel, "_execute", lambda *_: (asked,))  # by the node, which is killed a moment later

    answer = cut_off.run("cancel", "poll")

    assert "0001 was cut off: its node died. The next start records it as interrupted." in answer.out
    assert "--force" not in answer.out
