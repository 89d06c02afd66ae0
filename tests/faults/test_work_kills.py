"""kill -9 in every step of query, claim, run and report. The oracle reads what the server and the folder have seen."""

from pathlib import Path

import pytest
from tests.support import command_line_tracker as tracker
from tests.support.fault_fleet import wait_until
from tests.support.work_process import WorkProcess, create_github_fleet, finish_github_work, github_in_thread
from tests.support.work_trackers import TRACKERS, CommandLineTracker

from herdbeat.failpoints import Failpoint
from herdbeat.platform import read_process

POINTS = [
    Failpoint.AFTER_WORK_LIST,
    Failpoint.AFTER_WORK_ROW,
    Failpoint.AFTER_WORK_CLAIM,
    Failpoint.AFTER_SPAWN,
    Failpoint.AFTER_RESPONSE,
    Failpoint.AFTER_FINISH,
    Failpoint.AFTER_WORK_REPORT,
]


@pytest.mark.parametrize("point", POINTS)
def test_a_node_that_is_killed_between_two_steps_loses_doubles_and_blocks_no_issue(
    tmp_path: Path, point: Failpoint
) -> None:
    with github_in_thread() as github:
        work = create_github_fleet(tmp_path, github)
        killed = work.start(crash_at=f"{point}:1:KILL")
        killed.wait(60)

        finish_github_work(work, github)


def is_running(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.is_running


@pytest.mark.timeout(600)  # eight nodes, one after the other
@pytest.mark.parametrize("kind", TRACKERS)
def test_nodes_that_are_killed_at_one_step_after_the_other_do_every_item_once(tmp_path: Path, kind: str) -> None:
    with TRACKERS[kind](tmp_path, len(POINTS)) as items, WorkProcess.create(tmp_path, items.source) as work:
        for point in POINTS:
            work.start(crash_at=f"{point}:1:KILL").wait(60)

        work.start()
        wait_until(items.is_done, work.log)
        wait_until(lambda: not work.open_claims(), lambda: f"open: {work.open_claims()}")
        work.end()

        items.check()
        starts, ends = work.starts(), set(work.read("ends"))
        assert len(starts) == len(POINTS) == len(ends), "no item is lost"
        assert max(starts.values()) == 2, "only what a killed node worked on is repeated"


def test_a_claim_that_was_still_going_on_when_its_node_was_killed_took_the_item_for_a_dead_run(tmp_path: Path) -> None:
    place = tmp_path / "tracker"
    tracker.offer(place, "T1")
    (place / "hang-claim").touch()
    items = CommandLineTracker(place)
    with WorkProcess.create(tmp_path, items.source) as work:
        work.start()
        wait_until(lambda: bool(tracker.read_log(place)), work.log)
        work.kill()

        work.start()
        wait_until(items.is_done, work.log)
        _, _, pid = tracker.read_log(place)[0]
        assert not is_running(int(pid)), "the claim ended with its node"
        work.end()

    items.check()
    assert work.starts() == {"T1": 1}


def test_nodes_that_are_killed_again_and_again_do_every_file_of_a_folder_once(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in range(6):
        (inbox / f"{number}.txt").write_text(f"task {number}", encoding="utf-8")
    work = WorkProcess.create(tmp_path, "{ type: directory, path: inbox, attempts: 9 }", takes=0.3, max_concurrent=2)
    for kills in range(1, 4):
        work.start()
        wait_until(lambda kills=kills: len(work.read("starts")) >= 2 * kills, work.log)  # type: ignore[misc]
        work.kill()

    work.start()
    done = inbox / "done"
    wait_until(lambda: done.exists() and len(list(done.glob("*.json"))) == 6, work.log)
    wait_until(lambda: not work.open_claims(), lambda: f"open: {work.open_claims()}")
    work.end()

    assert sorted(path.name for path in inbox.iterdir() if path.is_file()) == []
    assert list((inbox / "working").iterdir()) == []
    assert len(list(done.iterdir())) == 12, "each file once, with its report"
    assert set(work.starts()) == {f"{number}.txt" for number in range(6)}
