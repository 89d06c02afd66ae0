"""kill -9 in every step of query, claim, run and report. The oracle reads what the server and the folder have seen."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.fake_github import REPO, FakeGitHub
from tests.support.fault_fleet import wait_until
from tests.support.work_process import WorkProcess, check_server, github_in_thread, wait_until_closed

from herdbeat.failpoints import Failpoint

POINTS = [
    Failpoint.AFTER_WORK_LIST,
    Failpoint.AFTER_WORK_ROW,
    Failpoint.AFTER_WORK_CLAIM,
    Failpoint.AFTER_SPAWN,
    Failpoint.AFTER_RESPONSE,
    Failpoint.AFTER_FINISH,
    Failpoint.AFTER_WORK_REPORT,
]
REQUESTS = [
    ("DELETE", "/labels/ready"),
    ("POST", "/comments"),
    ("POST", "/labels"),
    ("PATCH", "/issues/1"),
    ("DELETE", "/labels/agent-working"),
]


def create_github_fleet(folder: Path, github: FakeGitHub) -> WorkProcess:
    github.add(1, "ready")
    return WorkProcess.create(folder, f"{{ type: github, repo: {REPO}, api_url: '{github.url}' }}")


def finish(work: WorkProcess, github: FakeGitHub) -> None:
    """Start the next node, let it do what is left, and check that nothing is lost, doubled or stuck."""
    work.start()
    github.clock.advance(timedelta(minutes=11))  # an issue without labels and without a claim is free after ten
    wait_until_closed(github, work)
    wait_until(lambda: not work.open_claims(), lambda: f"open: {work.open_claims()}")
    work.end()
    check_server(github)
    assert work.starts()["1"] <= 2, "at most the interrupted run is repeated"


@pytest.mark.parametrize("point", POINTS)
def test_a_node_that_is_killed_between_two_steps_loses_doubles_and_blocks_no_issue(
    tmp_path: Path, point: Failpoint
) -> None:
    with github_in_thread() as github:
        work = create_github_fleet(tmp_path, github)
        killed = work.start(crash_at=f"{point}:1:KILL")
        killed.wait(60)

        finish(work, github)


@pytest.mark.parametrize("executes", [True, False], ids=["executed", "not_executed"])
@pytest.mark.parametrize(("method", "part"), REQUESTS)
def test_a_node_that_is_killed_during_a_request_loses_doubles_and_blocks_no_issue(
    tmp_path: Path, method: str, part: str, executes: bool
) -> None:
    with github_in_thread() as github:
        work = create_github_fleet(tmp_path, github)
        github.interrupt(method, part, work.kill)
        if not executes:
            github.fail(method, part)
        work.start().wait(60)

        finish(work, github)


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
