"""A night with Claude Code: it works through the issues of a repository, within a budget, isolated, each in a worktree.

The fleet is that of the documentation. What the GitHub-shaped server, git and the model server saw is asked.
"""

import subprocess
from pathlib import Path

import pytest
from tests.support.fake_github import REPO, TOKEN
from tests.support.fault_fleet import wait_until
from tests.support.work_process import check_server, github_in_thread
from tests.system.agent_clis import CLAUDE, MADE_FILE, AgentHome
from tests.system.agent_fleet import PASSED_ON, AgentFleet
from tests.system.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("claude", "bubblewrap")]
PROMPT = f"Fix the issue. Open a pull request.\nmodel: {CLAUDE.shell_call}\nmodel: say Fixed.\nmodel: tokens 1000 200"


def run_git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def is_out_of_budget(fleet: AgentFleet) -> bool:
    return any(beat["reason"] == "budget_exceeded" for beat in fleet.ask("beats")["items"])


def test_issues_are_worked_through_until_the_dollars_of_the_day_are_spent(home: AgentHome, model: ModelServer) -> None:
    fleet = AgentFleet(home)
    with github_in_thread() as github:
        for number in (1, 2, 3):
            github.add(number, "ready", title=f"Login {number} fails")
        (fleet.folder / ".env").write_text(f"GITHUB_TOKEN={TOKEN}\n", encoding="utf-8")
        run_git(fleet.folder, "commit", "-q", "--allow-empty", "-m", "Begin")
        fleet.write(
            {
                "name": "triage",
                "runtime": "claude",
                "model": "sonnet",
                "account": "team",
                "workspace": "worktree",
                "isolation": {"type": "bwrap", "network": True},
                "permission_mode": "bypassPermissions",
                "env": [*PASSED_ON, "ANTHROPIC_BASE_URL"],
                "budget": {"usd_per_day": 0.03},
                "schedules": {
                    "backlog": {
                        "every": "1s",
                        "prompt": PROMPT,
                        "work_source": {"type": "github", "repo": REPO, "api_url": github.url},
                    }
                },
            }
        )
        with fleet.up():
            wait_until(lambda: is_out_of_budget(fleet), lambda: str(fleet.ask("beats")))
            started, spent = len(fleet.runs("triage")), fleet.ask("cost")["total"]["usd"]
            wait_until(lambda: not fleet.ask("work")["items"], lambda: str(fleet.ask("work")))
        closed = [number for number, issue in github.issues.items() if issue.state == "closed"]
        left = {number for number, issue in github.issues.items() if issue.labels == ["ready"]}
        comments = [comment["body"] for number in closed for comment in github.issues[number].comments]
        for number in left:
            del github.issues[number]
        check_server(github)

    runs = fleet.runs("triage")
    assert closed == list(range(1, started + 1))
    assert left == {1, 2, 3} - set(closed)
    assert left, "the budget stopped the next start"
    assert [run["answer"] for run in runs] == ["Fixed."] * started
    assert sum("Fixed." in comment for comment in comments) == started
    one = max(run["usage"]["usd"] for run in runs)
    assert spent <= 0.03 < spent + one, "one more run would have been too much"
    branches = run_git(fleet.folder, "branch", "--list", "herdbeat/*", "--format=%(refname:short)").splitlines()
    assert sorted(branches) == sorted(run["branch"] for run in runs)
    assert not (fleet.folder / MADE_FILE).exists()
    assert [run["item"]["item"] for run in runs] == [str(number) for number in closed]
    assert fleet.agent_processes() == []
