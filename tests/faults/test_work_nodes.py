"""Several nodes on one PostgreSQL and one folder: no file is worked on twice, whichever node dies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fault_fleet import wait_until
from tests.support.work_process import WorkProcess

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
