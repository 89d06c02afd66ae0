"""A cancelled run has really ended before its slot is used again: `overlap: cancel`, and `herdbeat cancel`."""

import asyncio
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support import sample_functions as sample
from tests.support.escaping_programs import escape_script
from tests.support.in_process_node import EVERY_SECOND, InProcessNode, open_in_process_node
from tests.support.oracle import CronExpectation, all_beats, all_runs, check_cron, check_reasons, check_runs
from tests.support.runner_jobs import ExitingProcess, callable_spec, new_fifo, read_fifo, shell_spec

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.policies import Overlap
from herdbeat.domain.run import RunStatus
from herdbeat.events import BeatSettled, Event, RunFinished, RunStarted
from herdbeat.platform import ControlGroup
from herdbeat.runners.process import supervise
from herdbeat.runners.process.process_tree import identify, is_alive
from herdbeat.triggers.interval import Interval

SIGTERM_IGNORING_SCRIPT = """
trap '' TERM
last=$(tail -n 1 {folder}/pids 2>/dev/null)
if [ -n "$last" ] && kill -0 "$last" 2>/dev/null; then echo "$last" >> {folder}/beside; fi
echo $$ >> {folder}/pids
echo $$ > {fifo}
while :; do sleep 0.05; done
"""

SLOWLY = Interval(timedelta(hours=1))


def sigterm_ignoring_script(folder: Path) -> tuple[Path, str]:
    """Return a program that ignores SIGTERM, and checks whether its predecessor is still there."""
    fifo = new_fifo(folder)
    return fifo, SIGTERM_IGNORING_SCRIPT.format(folder=folder, fifo=fifo)


def is_finished(event: Event) -> bool:
    return isinstance(event, RunFinished)


def is_started(event: Event) -> bool:
    return isinstance(event, RunStarted)


def is_settled(event: Event) -> bool:
    return isinstance(event, BeatSettled)


def has_waited(event: Event) -> bool:
    return isinstance(event, BeatSettled) and event.outcome is BeatOutcome.MERGED


def statuses(there: InProcessNode) -> list[RunStatus]:
    return [run.status for run in reversed(all_runs(there.reader))]


def check_against_oracle_so_far(there: InProcessNode) -> None:
    """Check the ledger up to the newest beat; later instants are not evaluated yet."""
    beats = all_beats(there.reader, "job")
    promise = CronExpectation("job", EVERY_SECOND, beats[0].due_at - timedelta(seconds=1), beats[-1].last_due_at)
    check_cron(there.reader, promise)
    check_reasons(there.reader, "job")
    check_runs(there.reader)


async def test_the_next_beat_starts_only_after_a_child_that_ignores_term_has_ended(tmp_path: Path) -> None:
    fifo, script = sigterm_ignoring_script(tmp_path)

    async with open_in_process_node(tmp_path, shell_spec(script), overlap=Overlap.CANCEL) as there:
        pids = [int(await read_fifo(fifo)) for _ in range(3)]
        await there.until(is_finished)
        await there.until(is_finished)
        ended = statuses(there)
        check_against_oracle_so_far(there)

    assert len(set(pids)) == 3
    assert not (tmp_path / "beside").exists(), "a successor ran beside its predecessor"
    assert ended[:2] == [RunStatus.CANCELLED, RunStatus.CANCELLED]


async def test_a_function_that_cannot_be_stopped_keeps_its_slot_until_it_returns(tmp_path: Path) -> None:
    sample.GATE.clear()
    sample.ENTERED.clear()

    async with open_in_process_node(
        tmp_path, callable_spec("tests.support.sample_functions:waits"), overlap=Overlap.CANCEL
    ) as there:
        await asyncio.to_thread(sample.ENTERED.wait)
        sample.ENTERED.clear()
        await there.until(has_waited)  # one instant is queued, and a later one was merged into it: still only one run
        while_it_goes_on = statuses(there)
        sample.GATE.set()
        await there.until(is_finished)
        await there.until(is_started)
        check_against_oracle_so_far(there)

    assert while_it_goes_on == [RunStatus.RUNNING]
    assert statuses_of(there.seen) == [RunStatus.CANCELLED]


def statuses_of(events: list[Event]) -> list[RunStatus]:
    return [event.status for event in events if isinstance(event, RunFinished)][:1]


@pytest.mark.parametrize("force", [False, True])
async def test_a_run_that_is_cancelled_by_hand_ends_its_program(tmp_path: Path, force: bool) -> None:
    fifo, script = sigterm_ignoring_script(tmp_path)
    grace = 60.0 if force else 0.3

    async with open_in_process_node(
        tmp_path, shell_spec(script), overlap=Overlap.SKIP, trigger=SLOWLY, kill_after=grace
    ) as there:
        pid = int(await read_fifo(fifo))
        process = ExitingProcess(pid)
        begun = time.monotonic()
        is_here = there.loop.cancel(1, "cancelled by human:you", force=force)
        finished = await there.until(is_finished)
        await process.wait_for_exit()
        (run,) = all_runs(there.reader)
        (schedule,) = all_beats(there.reader, "job")

    assert is_here
    assert isinstance(finished, RunFinished)
    assert (run.status, run.error) == (RunStatus.CANCELLED, "cancelled by human:you")
    assert schedule.outcome is BeatOutcome.RAN
    assert finished.next_run_at is not None
    assert time.monotonic() - begun < 20


async def test_a_process_that_survived_its_cancel_is_named_in_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = new_fifo(tmp_path)
    script = escape_script("own session", fifo)

    async with open_in_process_node(tmp_path, shell_spec(script), overlap=Overlap.SKIP, trigger=SLOWLY) as there:
        pid = int(await read_fifo(fifo))
        with monkeypatch.context() as patch:  # as if it belonged to another user
            patch.setattr(supervise, "KILL_WAIT_S", 0.1)
            patch.setattr(supervise, "send_signal", lambda *_: None)
            patch.setattr(ControlGroup, "kill", lambda _: None)
            there.loop.cancel(1, "enough")
            await there.until(is_finished)
        (run,) = all_runs(there.reader)
        os.kill(pid, signal.SIGKILL)

    assert (run.status, run.error) == (
        RunStatus.CANCELLED,
        f"enough; some processes could not be stopped: pid {pid}",
    )


async def test_the_next_beat_starts_only_after_a_child_in_a_session_of_its_own_has_ended(tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    script = escape_script("double fork, ignores TERM", fifo)

    async with open_in_process_node(tmp_path, shell_spec(script), overlap=Overlap.CANCEL):
        first = identify(int(await read_fifo(fifo)))
        second = identify(int(await read_fifo(fifo)))
        beside = is_alive(first)

    assert not beside, "a successor ran beside its predecessor"
    assert not is_alive(second), "it survived the stop of its node"


async def test_a_cancelled_run_is_neither_a_failure_nor_a_backoff_step(tmp_path: Path) -> None:
    fifo, script = sigterm_ignoring_script(tmp_path)

    async with open_in_process_node(tmp_path, shell_spec(script), overlap=Overlap.SKIP, trigger=SLOWLY) as there:
        await read_fifo(fifo)
        there.loop.cancel(1, "enough")
        finished = await there.until(is_finished)
        standing = there.store.write_now(lambda tx: tx.schedules([1]))[1]

    assert isinstance(finished, RunFinished)
    assert standing.failures == 0
    assert standing.next_run_at == standing.anchor_at + timedelta(hours=1)


async def test_force_does_not_free_the_slot_of_a_function_in_its_thread(tmp_path: Path) -> None:
    sample.GATE.clear()
    sample.ENTERED.clear()

    async with open_in_process_node(
        tmp_path, callable_spec("tests.support.sample_functions:waits"), overlap=Overlap.QUEUE_ALL
    ) as there:
        await asyncio.to_thread(sample.ENTERED.wait)
        there.loop.cancel(1, "now", force=True)
        await there.until(is_settled)
        there.loop.cancel(1, "now, I said", force=True)
        await there.until(is_settled)
        while_it_goes_on = statuses(there)
        sample.GATE.set()
        finished = await there.until(is_finished)

    assert while_it_goes_on == [RunStatus.RUNNING]
    assert isinstance(finished, RunFinished)
    assert finished.status is RunStatus.CANCELLED
