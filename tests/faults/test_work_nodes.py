"""Several nodes on one PostgreSQL, and one folder or repository: no item is worked on twice, whichever node dies."""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest
from tests.faults.test_work_kills import POINTS
from tests.support.fake_github import REPO, FakeGitHub
from tests.support.fault_fleet import wait_until
from tests.support.work_process import WorkProcess, check_server, github_in_thread, wait_until_closed

from herdbeat.store.location import PostgresLocation

FILES = 8


@pytest.fixture
def nodes(tmp_path: Path, database: PostgresLocation) -> Iterator[list[WorkProcess]]:
    """Two folders with the same fleet, one database and one inbox."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in range(FILES):
        (inbox / f"{number}.txt").write_text(f"task {number}", encoding="utf-8")
    nodes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        source = f"{{ type: directory, path: '{inbox}', attempts: 9 }}"
        store = f'store: "{database.url}"\nlease: 2s'
        nodes.append(WorkProcess.create(tmp_path / name, source, store=store, takes=0.3, max_concurrent=2))
    yield nodes
    for node in nodes:
        node.end()


def test_two_nodes_share_a_folder_and_a_killed_one_leaves_nothing_stuck(
    tmp_path: Path, nodes: list[WorkProcess]
) -> None:
    first, second = nodes
    first.start(applies=True)
    second.start()
    wait_until(lambda: len(first.read("starts") + second.read("starts")) >= 3, first.log)
    first.kill()
    interrupted = set(first.read("starts")) - set(first.read("ends"))

    done = tmp_path / "inbox" / "done"
    wait_until(lambda: done.exists() and len(list(done.glob("*.json"))) == FILES, second.log)

    starts = first.read("starts") + second.read("starts")
    repeated = {item for item in starts if starts.count(item) > 1}
    assert repeated <= interrupted, "only what the killed node was working on is repeated"
    assert len(starts) == len(set(starts)) + len(repeated)
    assert len(list(done.iterdir())) == 2 * FILES, "each file once, with its report"


def create_nodes(folder: Path, database: PostgresLocation, source: str) -> list[WorkProcess]:
    store = f'store: "{database.url}"\nlease: 2s'
    nodes = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        nodes.append(WorkProcess.create(folder / name, source, store=store, takes=0.1, max_concurrent=2))
    return nodes


def offer_until_it_dies(node: subprocess.Popen[bytes], github: FakeGitHub, numbers: Iterator[int]) -> None:
    """Offer issues until this node has taken one: its neighbour takes some, too."""
    end = time.monotonic() + 60
    while node.poll() is None and time.monotonic() < end:
        if not any("ready" in issue.labels for issue in list(github.issues.values())):
            github.add(next(numbers), "ready")
        time.sleep(0.05)
    assert node.poll() is not None, "it never came to this step"


def count_open_claims(database: PostgresLocation) -> int:
    with psycopg.connect(database.url) as connection:
        question = "SELECT count(*) FROM work_claim WHERE state IN ('claiming', 'claimed', 'ran')"
        return int((connection.execute(question).fetchone() or (0,))[0])


@pytest.mark.timeout(600)  # a node for every step, each waited for beside its neighbour
def test_a_node_that_is_killed_in_any_step_beside_another_loses_doubles_and_blocks_no_issue(
    tmp_path: Path, database: PostgresLocation
) -> None:
    numbers = count(1)
    with github_in_thread() as github:
        source = f"{{ type: github, repo: {REPO}, api_url: '{github.url}', attempts: 9 }}"
        first, second = create_nodes(tmp_path, database, source)
        with first, second:
            second.start(applies=True)
            for point in POINTS:
                offer_until_it_dies(first.start(crash_at=f"{point}:1:KILL"), github, numbers)
            github.clock.advance(timedelta(minutes=11))  # an issue without labels and without a claim is free after ten

            wait_until_closed(github, second)
            wait_until(lambda: count_open_claims(database) == 0, second.log)

        check_server(github)
        ends = Counter(first.read("ends") + second.read("ends"))
        starts = first.starts() + second.starts()
        assert set(ends) == {str(number) for number in github.issues}, "no issue is lost"
        repetitions = starts.total() - len(starts)
        assert repetitions <= len(POINTS), "only what a killed node worked on is repeated"
        winners = Counter(
            entry.path.split("/")[5] for entry in github.requests("DELETE", "/labels/ready") if entry.status == 200
        )
        assert all(starts[item] <= winners[item] for item in starts), "whoever works on an issue has removed its label"
