"""`herdbeat workspaces`: what runs have left, and its removal, with a real git."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.runners.agents.git import run_git
from herdbeat.runners.agents.workspace import open_workspaces
from herdbeat.testing.command_line import CommandLine

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)

AGENT = """\
version: 1
agents:
  - name: scout
    runtime: fake
    workspace: worktree
    budget: { runs_per_day: 9 }
    schedules:
      notes: { type: webhook, prompt: 'fake:metadata={"a":1}' }
  - name: plain
    runtime: command
    command: [touch, new]
    workspace: worktree
    schedules: { files: { type: webhook } }
"""


@pytest.fixture
def kept(cli: CommandLine) -> Path:
    """A workspace with a change, of a run of an hour ago."""
    cli.environ = {**cli.environ, "XDG_CACHE_HOME": str(cli.folder / "cache")}
    (cli.folder / "herdbeat.yaml").write_text("version: 1\ncommands: [{ name: a, command: [ls], every: 1h }]\n")
    app = cli.folder / "app"
    app.mkdir()
    run_git(app, "init", "--quiet", "-b", "main")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    run_git(app, *identity, "commit", "--quiet", "--allow-empty", "-m", "Begin")
    folders = open_workspaces(cli.folder / ".herdbeat", cli.environ)
    begun = NOW - timedelta(hours=1)
    spec = WorkspaceSpec(type=WorkspaceType.WORKTREE)
    opened = folders.create(spec, app, target="scout", run="7f3k", now=begun)
    (opened.folder / "notes.txt").write_text("half done")
    opened.close(begun)
    return opened.folder


def test_workspaces_are_listed_with_branch_and_path(cli: CommandLine, kept: Path) -> None:
    heading, row = cli.run("workspaces").lines()

    assert heading.split() == ["RUN", "TARGET", "STATE", "CHANGED", "CREATED", "BRANCH", "PATH"]
    assert row.split()[:4] == ["7f3k", "scout", "kept", "yes"]
    assert "herdbeat/scout/7f3k" in row
    assert kept.name in row


def test_the_json_has_path_branch_run_change_age_and_host(cli: CommandLine, kept: Path) -> None:
    (item,) = cli.run("workspaces", "--json").json()["items"]

    assert item["path"] == str(kept)
    assert (item["branch"], item["run"], item["changed"]) == ("herdbeat/scout/7f3k", "7f3k", True)
    assert item["age_s"] == 3600
    assert item["host"]


def test_prune_leaves_what_is_young(cli: CommandLine, kept: Path) -> None:
    result = cli.run("workspaces", "prune")

    assert "Nothing to remove." in result.err + result.out
    assert kept.is_dir()


def test_prune_all_removes_it(cli: CommandLine, kept: Path) -> None:
    result = cli.run("workspaces", "prune", "--all")

    assert str(kept) in result.out
    assert not kept.exists()


def test_without_workspaces_it_says_so(cli: CommandLine) -> None:
    cli.environ = {**cli.environ, "XDG_CACHE_HOME": str(cli.folder / "cache")}
    (cli.folder / "herdbeat.yaml").write_text("version: 1\ncommands: [{ name: a, command: [ls], every: 1h }]\n")

    result = cli.run("workspaces")

    assert "No workspaces on this host." in result.err + result.out


def test_show_names_the_branch_that_git_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "home"
    home.mkdir()
    fleet = RunningFleet(home)
    fleet.write(AGENT)
    run_git(home, "init", "--quiet", "-b", "main")
    run_git(home, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "--allow-empty", "-m", "a")

    with fleet.up():
        fleet.call("run", "scout/notes", "--wait")
        told = json.loads(fleet.call("show", "0001", "--json").stdout)["branch"]
        shown = fleet.call("show", "0001").stdout
        (listed,) = json.loads(fleet.call("runs", "--json").stdout)["items"]

    assert run_git(home, "branch", "--list", "herdbeat/*", "--format=%(refname:short)") == told == listed["branch"]
    assert f"branch      {told}\n" in shown


def test_the_branch_of_a_plain_program_was_told_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "home"
    home.mkdir()
    fleet = RunningFleet(home)
    fleet.write(AGENT)
    run_git(home, "init", "--quiet", "-b", "main")
    run_git(home, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "--allow-empty", "-m", "a")

    with fleet.up():
        fleet.call("run", "plain/files", "--wait")
        note = json.loads(fleet.call("show", "0001", "--json").stdout)["note"]

    branch = run_git(home, "branch", "--list", "herdbeat/*", "--format=%(refname:short)")
    assert note == f"Changes on branch {branch}."
