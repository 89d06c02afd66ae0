"""kill -9 during each change on GitHub, executed or not. The oracle reads what the server has seen."""

from pathlib import Path

import pytest
from tests.support.work_process import create_github_fleet, finish_github_work, github_in_thread

REQUESTS = [
    ("DELETE", "/labels/ready"),
    ("POST", "/comments"),
    ("POST", "/labels"),
    ("PATCH", "/issues/1"),
    ("DELETE", "/labels/agent-working"),
]


@pytest.mark.soak
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

        finish_github_work(work, github)
