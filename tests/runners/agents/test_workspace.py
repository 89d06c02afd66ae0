"""Workspaces, with a real git: what a run gets, what is left of it, and what is never lost."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.workspace import KeepPolicy, WorkspaceSpec, WorkspaceState, WorkspaceType
from herdbeat.runners.agents.git import SAFE_OPTIONS, run_git
from herdbeat.runners.agents.workspace import (
    OpenWorkspace,
    WorkspaceFailed,
    WorkspaceFolders,
    WorkspaceUnusable,
    workspaces_root,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORKTREE = WorkspaceSpec(type=WorkspaceType.WORKTREE)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    return run_git(folder, *identity, *arguments)


def commit(folder: Path, name: str, text: str = "text") -> str:
    (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", f"Add {name}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    git(folder, "init", "--quiet", "-b", "main")
    commit(folder, "README.md")
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> WorkspaceFolders:
    return WorkspaceFolders(tmp_path / "cache" / "herdbeat" / "store", "ant")


def create(
    folders: WorkspaceFolders,
    repository: Path,
    run: str = "0001",
    spec: WorkspaceSpec = WORKTREE,
    *,
    is_isolated: bool = False,
) -> OpenWorkspace:
    return folders.create(spec, repository, target="scout", run=run, now=NOON, is_isolated=is_isolated)


def branches(repository: Path) -> list[str]:
    return git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_run_gets_a_fresh_checkout_on_its_own_branch(
    folders: WorkspaceFolders, repository: Path, *, is_isolated: bool
) -> None:
    opened = create(folders, repository, is_isolated=is_isolated)

    assert opened.folder == folders.root / "scout-0001"
    assert (opened.folder / "README.md").read_text() == "text"
    assert git(opened.folder, "branch", "--show-current") == "herdbeat/scout/0001"


@pytest.mark.parametrize("is_isolated", [False, True])
def test_nothing_is_left_of_a_run_that_changed_nothing(
    folders: WorkspaceFolders, repository: Path, *, is_isolated: bool
) -> None:
    opened = create(folders, repository, is_isolated=is_isolated)

    result = opened.close(NOON)

    assert (result.branch, result.path, result.changed) == ("", "", False)
    assert names_in(folders.root) == []
    assert branches(repository) == ["main"]
    assert git(repository, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("is_isolated", [False, True])
def test_commits_of_a_run_stay_on_its_branch_in_the_repository(
    folders: WorkspaceFolders, repository: Path, *, is_isolated: bool
) -> None:
    opened = create(folders, repository, is_isolated=is_isolated)
    made = commit(opened.folder, "fix.py")

    result = opened.close(NOON)

    assert (result.branch, result.changed) == ("herdbeat/scout/0001", True)
    assert git(repository, "rev-parse", "herdbeat/scout/0001") == made
    (kept,) = folders.list_workspaces()
    assert (kept.state, kept.changed, kept.host, kept.run) == (WorkspaceState.KEPT, True, "ant", "0001")


@pytest.mark.parametrize("is_isolated", [False, True])
def test_files_that_were_not_committed_count_as_a_change(
    folders: WorkspaceFolders, repository: Path, *, is_isolated: bool
) -> None:
    opened = create(folders, repository, is_isolated=is_isolated)
    (opened.folder / "notes.txt").write_text("half done")

    result = opened.close(NOON)

    assert result.changed
    assert (Path(result.path) / "notes.txt").read_text() == "half done"


@pytest.mark.parametrize(
    ("keep", "makes_change", "is_kept"),
    [
        (KeepPolicy.CHANGED, False, False),
        (KeepPolicy.CHANGED, True, True),
        (KeepPolicy.ALWAYS, False, True),
        (KeepPolicy.ALWAYS, True, True),
        (KeepPolicy.NEVER, False, False),
        (KeepPolicy.NEVER, True, False),
    ],
)
def test_keep_decides_which_folders_stay(
    folders: WorkspaceFolders, repository: Path, keep: KeepPolicy, *, makes_change: bool, is_kept: bool
) -> None:
    opened = create(folders, repository, spec=WorkspaceSpec(type=WorkspaceType.WORKTREE, keep=keep))
    if makes_change:
        (opened.folder / "notes.txt").write_text("half done")

    opened.close(NOON)

    assert opened.folder.is_dir() is is_kept


def test_keep_never_does_not_delete_commits_that_no_remote_has(folders: WorkspaceFolders, repository: Path) -> None:
    opened = create(folders, repository, spec=WorkspaceSpec(type=WorkspaceType.WORKTREE, keep=KeepPolicy.NEVER))
    made = commit(opened.folder, "fix.py")

    result = opened.close(NOON)

    assert not opened.folder.exists()
    assert result.branch == "herdbeat/scout/0001"
    assert git(repository, "rev-parse", result.branch) == made


def test_a_branch_that_a_remote_has_is_deleted_with_its_workspace(
    folders: WorkspaceFolders, repository: Path, tmp_path: Path
) -> None:
    git(repository, "init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    git(repository, "remote", "add", "origin", str(tmp_path / "remote.git"))
    opened = create(folders, repository)
    commit(opened.folder, "fix.py")
    git(opened.folder, "push", "--quiet", "origin", "HEAD")
    opened.close(NOON)

    removed = folders.prune(NOON + timedelta(days=8))

    assert [each.run for each in removed] == ["0001"]
    assert branches(repository) == ["main"]


def test_workspaces_are_pruned_by_age_and_their_unpushed_branches_stay(
    folders: WorkspaceFolders, repository: Path
) -> None:
    opened = create(folders, repository)
    commit(opened.folder, "fix.py")
    opened.close(NOON)

    early = folders.prune(NOON + timedelta(days=6))
    late = folders.prune(NOON + timedelta(days=7))

    assert early == []
    assert [each.run for each in late] == ["0001"]
    assert names_in(folders.root) == []
    assert branches(repository) == ["herdbeat/scout/0001", "main"]


def test_a_workspace_is_not_pruned_while_its_run_is_active(folders: WorkspaceFolders, repository: Path) -> None:
    opened = create(folders, repository)

    removed = folders.prune(NOON + timedelta(days=365), all_kept=True)

    assert removed == []
    assert [each.state for each in folders.list_workspaces()] == [WorkspaceState.ACTIVE]
    assert opened.folder.is_dir()


def test_two_runs_never_share_a_workspace(folders: WorkspaceFolders, repository: Path) -> None:
    first = create(folders, repository, "0001")
    second = create(folders, repository, "0002")
    (first.folder / "mine.txt").write_text("first")

    assert first.folder != second.folder
    assert not (second.folder / "mine.txt").exists()


def test_a_run_whose_id_was_used_before_gets_another_branch(folders: WorkspaceFolders, repository: Path) -> None:
    old = create(folders, repository, "0001")
    made = commit(old.folder, "fix.py")
    old.close(NOON)

    new = create(folders, repository, "0001")

    assert new.workspace.branch == "herdbeat/scout/0001-2"
    assert git(repository, "rev-parse", "herdbeat/scout/0001") == made


def test_a_working_directory_below_the_top_of_the_repository_is_the_same_folder_of_the_workspace(
    folders: WorkspaceFolders, repository: Path
) -> None:
    (repository / "docs").mkdir()
    commit(repository, "docs/index.md")

    opened = create(folders, repository / "docs")

    assert opened.folder == folders.root / "scout-0001" / "docs"
    assert names_in(opened.folder) == ["index.md"]


def test_the_base_can_be_another_branch(folders: WorkspaceFolders, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "branch", "release")
    commit(repository, "later.py")

    opened = create(folders, repository, spec=WorkspaceSpec(type=WorkspaceType.WORKTREE, base="release"))

    assert opened.workspace.base == first
    assert not (opened.folder / "later.py").exists()


def test_outside_of_a_git_repository_the_configuration_is_wrong(folders: WorkspaceFolders, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()

    with pytest.raises(WorkspaceUnusable, match="is not in a git repository"):
        create(folders, plain)

    run_git(plain, "init", "--quiet", "--bare")
    with pytest.raises(WorkspaceUnusable, match="without a checkout"):
        create(folders, plain)


@pytest.mark.parametrize("base", ["nowhere", "--upload-pack=touch /tmp/x", ""])
def test_a_base_that_is_no_commit_fails_the_run(folders: WorkspaceFolders, repository: Path, base: str) -> None:
    with pytest.raises(WorkspaceFailed, match=r"correct workspace\.base"):
        create(folders, repository, spec=WorkspaceSpec(type=WorkspaceType.WORKTREE, base=base))


def test_a_repository_without_a_commit_fails_the_run(folders: WorkspaceFolders, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")

    with pytest.raises(WorkspaceFailed, match="Commit something"):
        create(folders, empty)


def test_nothing_is_left_of_a_workspace_that_could_not_be_made(folders: WorkspaceFolders, repository: Path) -> None:
    folders.root.mkdir(parents=True)
    # A branch of this name prevents every branch below it.
    git(repository, "branch", "herdbeat")

    with pytest.raises(WorkspaceFailed, match="could not be made"):
        create(folders, repository)

    assert names_in(folders.root) == []
    assert branches(repository) == ["herdbeat", "main"]


def test_hooks_of_the_repository_do_not_run(folders: WorkspaceFolders, repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)

    create(folders, repository).close(NOON)

    assert not (tmp_path / "ran").exists()


KILLED_NODE = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.runners.agents.workspace import WorkspaceFolders

root, repository, isolated, file = sys.argv[1:]
folders = WorkspaceFolders(Path(root), "ant")
spec = WorkspaceSpec(type=WorkspaceType.WORKTREE)
now = datetime(2026, 3, 1, 12, tzinfo=UTC)
opened = folders.create(spec, Path(repository), target="scout", run="0001", now=now, is_isolated=isolated == "yes")
if file:
    (opened.folder / file).write_text("half done")
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_node_in_workspace(folders: WorkspaceFolders, repository: Path, isolated: str, file: str) -> None:
    argv = (sys.executable, "-c", KILLED_NODE, str(folders.root), str(repository), isolated, file)
    done = subprocess.run(argv, check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("isolated", ["no", "yes"])
def test_what_a_killed_node_left_is_listed_and_removed_if_it_has_no_changes(
    folders: WorkspaceFolders, repository: Path, isolated: str
) -> None:
    kill_node_in_workspace(folders, repository, isolated, "")

    listed = folders.list_workspaces()
    removed = folders.prune(NOON)

    assert [(each.run, each.state, each.changed) for each in listed] == [("0001", WorkspaceState.ABANDONED, None)]
    assert [each.run for each in removed] == ["0001"]
    assert branches(repository) == ["main"]
    assert names_in(folders.root) == []


@pytest.mark.parametrize("isolated", ["no", "yes"])
def test_changes_that_a_killed_node_left_stay_until_they_are_old(
    folders: WorkspaceFolders, repository: Path, isolated: str
) -> None:
    kill_node_in_workspace(folders, repository, isolated, "notes.txt")

    early = folders.prune(NOON + timedelta(days=1))
    (kept,) = folders.list_workspaces()
    late = folders.prune(NOON + timedelta(days=8))

    assert early == []
    assert (kept.state, kept.changed) == (WorkspaceState.KEPT, True)
    assert [each.run for each in late] == ["0001"]


def test_a_node_killed_before_git_was_called_leaves_a_description_that_is_removed(
    folders: WorkspaceFolders, repository: Path
) -> None:
    opened = create(folders, repository)
    description = (folders.root / "scout-0001.json").read_text()
    opened.close(NOON)
    (folders.root / "scout-0001.json").write_text(description)

    removed = folders.prune(NOON)

    assert [each.run for each in removed] == ["0001"]
    assert names_in(folders.root) == []


def test_a_description_that_is_cut_off_hides_no_other(folders: WorkspaceFolders, repository: Path) -> None:
    create(folders, repository)
    (folders.root / "scout-0009.json").write_text('{"run": "00')

    assert [each.run for each in folders.list_workspaces()] == ["0001"]


# --- clones of isolated runs


def test_a_clone_shares_no_file_with_the_repository(folders: WorkspaceFolders, repository: Path) -> None:
    opened = create(folders, repository, is_isolated=True)

    files = [path for path in (opened.folder / ".git" / "objects").rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_nlink for path in files} == {1}
    assert not (opened.folder / ".git" / "objects" / "info" / "alternates").exists()


def test_a_clone_does_not_hold_what_its_branch_cannot_reach(folders: WorkspaceFolders, repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "private")
    secret = commit(repository, "secret.txt")
    git(repository, "checkout", "--quiet", "main")

    opened = create(folders, repository, is_isolated=True)

    probe = subprocess.run(("git", "cat-file", "-e", secret), cwd=opened.folder, check=False, capture_output=True)
    assert probe.returncode != 0


def test_the_origin_of_a_clone_is_that_of_the_repository_without_its_password(
    folders: WorkspaceFolders, repository: Path
) -> None:
    git(repository, "remote", "add", "origin", "https://me:hunter2@example.com/app.git")

    opened = create(folders, repository, is_isolated=True)

    assert git(opened.folder, "remote", "get-url", "origin") == "https://example.com/app.git"
    assert "hunter2" not in (opened.folder / ".git" / "config").read_text()


def test_branches_that_an_isolated_agent_made_are_brought_back_too(folders: WorkspaceFolders, repository: Path) -> None:
    opened = create(folders, repository, is_isolated=True)
    git(opened.folder, "checkout", "--quiet", "-b", "main")
    made = commit(opened.folder, "fix.py")

    opened.close(NOON)

    assert git(repository, "rev-parse", "herdbeat/scout/0001-main") == made
    assert git(repository, "log", "-1", "--format=%s", "main") == "Add README.md"


@pytest.mark.parametrize(
    "settings",
    [
        '[filter "x"]\n\tclean = touch {proof}\n',
        "[core]\n\tfsmonitor = touch {proof}\n",
        "[core]\n\tsshCommand = touch {proof}\n[uploadpack]\n\tpackObjectsHook = touch {proof}\n",
        "[include]\n\tpath = {evil}\n",
    ],
)
def test_settings_that_an_isolated_agent_wrote_do_not_run_programs_outside(
    folders: WorkspaceFolders, repository: Path, tmp_path: Path, settings: str
) -> None:
    proof, evil = tmp_path / "escaped", tmp_path / "evil"
    evil.write_text(f'[filter "x"]\n\tclean = touch {proof}\n')
    opened = create(folders, repository, is_isolated=True)
    git(opened.folder, "checkout", "--quiet", "-b", "other")  # to be fetched
    commit(opened.folder, "fix.py")
    git(opened.folder, "checkout", "--quiet", opened.workspace.branch)
    (opened.folder / ".gitattributes").write_text("* filter=x\n")
    (opened.folder / "README.md").write_text("tEXT")  # of the same length, so that git has to compare it
    with (opened.folder / ".git" / "config").open("a") as file:
        file.write(settings.format(proof=proof, evil=evil))
    hook = opened.folder / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
    hook.chmod(0o755)

    result = opened.close(NOON)

    assert not proof.exists()
    assert (result.changed, result.note) == (True, "")


def test_a_clone_whose_git_folder_was_replaced_is_kept_and_not_looked_at(
    folders: WorkspaceFolders, repository: Path, tmp_path: Path
) -> None:
    opened = create(folders, repository, is_isolated=True)
    (opened.folder / ".git").rename(tmp_path / "elsewhere")
    (opened.folder / ".git").symlink_to(tmp_path / "elsewhere")

    result = opened.close(NOON)

    assert "was replaced during the run" in result.note
    assert opened.folder.is_dir()


def test_every_call_of_git_is_without_hooks_and_monitors() -> None:
    assert SAFE_OPTIONS == ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/ada"}, "/cache/herdbeat/5f"),
        ({"HOME": "/home/ada"}, "/home/ada/.cache/herdbeat/5f"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/ada"}, "/home/ada/.cache/herdbeat/5f"),
    ],
)
def test_workspaces_lie_in_the_cache(environ: dict[str, str], root: str) -> None:
    assert workspaces_root(environ, "5f") == Path(root)
