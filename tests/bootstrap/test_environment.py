"""`.env` beside the fleet file completes the environment of the node."""

from pathlib import Path

import pytest
from tests.support.fake_github import REPO, TOKEN
from tests.support.running_fleet import RunningFleet
from tests.support.work_process import github_in_thread

FLEET = """\
version: 1
commands:
  - name: shows
    command: [sh, -c, 'echo "$MINE $SET $OTHER." > seen']
    env: [MINE, SET]
    schedules: { now: { type: webhook } }
"""
WORKER = """\
version: 1
commands:
  - name: worker
    command: [cat]
    schedules:
      backlog: { type: webhook, work_source: { type: github, repo: %s, api_url: "%s" } }
"""


def test_a_variable_of_the_file_reaches_the_programs_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET", "really")
    fleet = RunningFleet(tmp_path)
    fleet.write(FLEET)
    (tmp_path / ".env").write_text("MINE=from-file\nSET=from-file\nOTHER=unnamed\n", encoding="utf-8")

    with fleet.up("--no-server"):
        fleet.call("run", "shows/now", "--wait")

    assert (tmp_path / "seen").read_text(encoding="utf-8") == "from-file really .\n"


def test_a_token_in_the_file_was_not_found_by_a_work_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    fleet = RunningFleet(tmp_path)
    (tmp_path / ".env").write_text(f"GITHUB_TOKEN={TOKEN}\n", encoding="utf-8")
    with github_in_thread() as github:
        github.add(1, "ready")
        fleet.write(WORKER % (REPO, github.url))

        with fleet.up("--no-server") as feed:
            offered = fleet.call("work", "--offered", "--json").stdout
            fleet.call("run", "worker/backlog")
            finished = feed.until("run_finished")

        assert finished["status"] == "succeeded"
        assert '"item": "1"' in offered
        assert not github.issues[1].has_label("ready")
