"""Workspaces on this host: a git worktree for each run, kept if it has changes, and removed by age.

`$XDG_CACHE_HOME/herdbeat/<store>/` has for each workspace its folder, a `.json` file that describes it, and a `.lock`
file that its node holds during the run. The description is written first, so what a killed node leaves behind is found:
a workspace that is described as active and that nobody holds.
"""

import fcntl
import hashlib
import json
import logging
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit

from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.workspace import KeepPolicy, Workspace, WorkspaceSpec, WorkspaceState, branch_name
from herdbeat.runners.agents.git import GitError, GitMissing, run_git, succeeds
from herdbeat.runners.settings import identify_store

log = logging.getLogger(__name__)

MAX_NAME_ATTEMPTS = 1_000
_LOCKS_FOLDER = "locks"


class WorkspaceUnusable(Exception):
    """The configuration asks for a workspace that cannot exist, for example outside of a git repository."""


class WorkspaceFailed(Exception):
    """A workspace could not be made this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceResult:
    """The result of a workspace. `branch` is empty if nothing of the run is left in the repository."""

    branch: str = ""
    path: str = ""
    changed: bool = False
    note: str = ""


@dataclass(slots=True)
class OpenWorkspace:
    """A workspace during its run. `folder` is the working directory in it. Its lock is held until `close`."""

    workspace: Workspace
    folder: Path
    _lock: int
    _folders: "WorkspaceFolders"

    def close(self, now: datetime) -> WorkspaceResult:
        """Keep or remove it, and release it. Blocks while git works. Raises nothing: what fails is in the note."""
        try:
            return self._folders.settle(self.workspace, now)
        finally:
            os.close(self._lock)


class WorkspaceFolders:
    """The workspaces of one store on this host. Every method blocks: call it in a thread."""

    def __init__(self, root: Path, host: str) -> None:
        self.root = root
        self._host = host

    # --- during a run

    def create(
        self, spec: WorkspaceSpec, folder: Path, *, target: str, run: str, now: datetime, is_isolated: bool = False
    ) -> OpenWorkspace:
        """Make the workspace of a run for the repository that `folder` lies in, and hold it.

        An isolated run gets a clone instead of a worktree: a worktree needs the repository's `.git`, whose hooks and
        settings would let the agent out. Raises WorkspaceUnusable and WorkspaceFailed.
        """
        repository, prefix = find_repository(folder)
        try:
            base = _resolve_base(repository, spec.base)
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock_repository(repository):
                name, branch = self._free_names(repository, target, run)
                workspace = Workspace(
                    run=run,
                    target=target,
                    path=str(self.root / name),
                    branch=branch,
                    repository=str(repository),
                    base=base,
                    host=self._host,
                    created_at=now,
                    prune_after=spec.prune_after,
                    keep=spec.keep,
                    is_clone=is_isolated,
                )
                lock = self._hold(name)
                try:
                    self._write(workspace)
                    if is_isolated:
                        _make_clone(workspace, self._saved_config(workspace))
                    else:
                        _make_worktree(workspace)
                except (GitError, OSError):
                    os.close(lock)
                    self._discard(workspace)
                    raise
        except GitMissing as error:
            raise WorkspaceUnusable(str(error)) from error
        except (GitError, OSError) as error:
            raise WorkspaceFailed(f"The workspace could not be made. {error}") from error
        return OpenWorkspace(workspace, Path(workspace.path) / prefix, lock, self)

    def settle(self, workspace: Workspace, now: datetime) -> WorkspaceResult:
        """Keep or remove a workspace whose run has ended, as its policy says; return what is left of it."""
        path = Path(workspace.path)
        try:
            with self._lock_repository(Path(workspace.repository)):
                if workspace.is_clone and path.is_dir():
                    _restore_settings(path, self._saved_config(workspace))
                    _bring_back(workspace)
                changed = _has_changes(workspace)
                kept = replace(workspace, state=WorkspaceState.KEPT, changed=changed, ended_at=now)
                if path.is_dir() and _is_kept(workspace.keep, changed=changed):
                    self._write(kept)
                    return WorkspaceResult(branch=workspace.branch, path=workspace.path, changed=changed)
                left = self._discard(workspace)
        except (GitError, OSError) as error:
            # Nothing is removed that could not be looked at: it stays, and is listed.
            log.warning("workspace kept path=%s error=%s", path, error)
            with suppress(OSError):
                self._write(replace(workspace, state=WorkspaceState.KEPT, ended_at=now))
            return WorkspaceResult(branch=workspace.branch, path=workspace.path, changed=True, note=str(error))
        return WorkspaceResult(branch=workspace.branch if left else "", changed=changed)

    # --- afterwards

    def list_workspaces(self) -> list[Workspace]:
        """Return all workspaces of this host, oldest first, also those that a killed node left behind."""
        found = [workspace for file in self._descriptions() if (workspace := self._read(file)) is not None]
        return sorted(found, key=lambda each: (each.created_at, each.path))

    def prune(self, now: datetime, *, all_kept: bool = False) -> list[Workspace]:
        """Remove workspaces that are old enough, or all that no run works in; return those that were removed.

        What a killed node left is settled first: one without changes is removed at once. A branch with commits that no
        remote has stays in its repository.
        """
        removed = []
        for workspace in self.list_workspaces():
            if workspace.state is WorkspaceState.ACTIVE:
                continue
            try:
                lock = self._hold(Path(workspace.path).name)
            except BlockingIOError:
                continue  # another process removes it now
            try:
                if self._prune_one(workspace, now, all_kept=all_kept):
                    removed.append(workspace)
            finally:
                os.close(lock)
        return removed

    def _prune_one(self, workspace: Workspace, now: datetime, *, all_kept: bool) -> bool:
        if workspace.state is WorkspaceState.ABANDONED:
            # Its age counts from its start: when its run ended is not known.
            self.settle(replace(workspace, state=WorkspaceState.ACTIVE), workspace.created_at)
            settled = self._read(self._description(workspace))
            if settled is None:
                return True
            workspace = settled
        if not (all_kept or workspace.is_prunable(now)):
            return False
        try:
            with self._lock_repository(Path(workspace.repository)):
                self._discard(workspace)
        except (GitError, OSError) as error:
            log.warning("workspace not removed path=%s error=%s", workspace.path, error)
            return False
        return True

    # --- files

    def _descriptions(self) -> list[Path]:
        return sorted(self.root.glob("*.json")) if self.root.is_dir() else []

    def _description(self, workspace: Workspace) -> Path:
        path = Path(workspace.path)
        return path.with_name(f"{path.name}.json")

    def _saved_config(self, workspace: Workspace) -> Path:
        """The settings of a clone as they were before its run, where its agent cannot reach them."""
        path = Path(workspace.path)
        return path.with_name(f"{path.name}.gitconfig")

    def _write(self, workspace: Workspace) -> None:
        file = self._description(workspace)
        new = file.with_name(f"{file.name}.new")
        new.write_text(json.dumps(to_json(workspace), indent=1), encoding="utf-8")
        new.replace(file)

    def _read(self, file: Path) -> Workspace | None:
        """Return the workspace; None if its description was removed meanwhile, or is not one of ours."""
        try:
            workspace = from_json(Workspace, json.loads(file.read_text(encoding="utf-8")), _no_trigger)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, OSError) as error:
            log.warning("workspace not readable file=%s error=%s", file, error)
            return None
        if workspace.state is WorkspaceState.ACTIVE and not self._is_held(file.stem):
            return replace(workspace, state=WorkspaceState.ABANDONED)
        return workspace

    def _hold(self, name: str) -> int:
        """Return the locked file of a workspace. Raises BlockingIOError if another process holds it."""
        lock = os.open(self.root / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return lock

    def _is_held(self, name: str) -> bool:
        try:
            lock = os.open(self.root / f"{name}.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # Shared, so that two commands that list at the same time do not take each other for a node.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    @contextmanager
    def _lock_repository(self, repository: Path) -> Iterator[None]:
        """One git call of ours at a time per repository: two `worktree add` at once fail on git's own locks."""
        folder = self.root.parent / _LOCKS_FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(os.fsencode(repository)).hexdigest()[:16]
        lock = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _free_names(self, repository: Path, target: str, run: str) -> tuple[str, str]:
        """Return a folder name and a branch that are free. A new ledger begins again with the first run."""
        for number in range(1, MAX_NAME_ATTEMPTS):
            suffix = "" if number == 1 else f"-{number}"
            name, branch = f"{target}-{run}{suffix}", branch_name(target, run) + suffix
            is_taken = any((self.root / f"{name}{ending}").exists() for ending in ("", ".json"))
            if not is_taken and not succeeds(repository, "show-ref", "--quiet", f"refs/heads/{branch}"):
                return name, branch
        raise GitError(f'There are {MAX_NAME_ATTEMPTS} branches like "{branch_name(target, run)}". Delete some.')

    def _discard(self, workspace: Workspace) -> bool:
        """Remove folder, branch and description; return whether the branch stays because of commits on no remote."""
        path, repository = Path(workspace.path), Path(workspace.repository)
        has_repository = repository.is_dir()
        if has_repository and not workspace.is_clone and path.exists():
            with suppress(GitError):
                run_git(repository, "worktree", "remove", "--force", "--force", str(path))
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            raise GitError(f'"{path}" could not be removed. Check its permissions.')
        is_left = False
        if has_repository:
            if not workspace.is_clone:
                run_git(repository, "worktree", "prune")
            is_left = _delete_branch(repository, workspace.branch, workspace.base)
        self._description(workspace).unlink(missing_ok=True)
        self._saved_config(workspace).unlink(missing_ok=True)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        return is_left


def workspaces_root(environ: Mapping[str, str], store_id: str) -> Path:
    """Return the folder of a store's workspaces: in the cache, never in the state directory."""
    cache = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    base = Path(cache) if Path(cache).is_absolute() else (Path(home) if home else Path.home()) / ".cache"
    return base / "herdbeat" / store_id


def open_workspaces(state_dir: Path, environ: Mapping[str, str]) -> WorkspaceFolders:
    """Return the workspaces of a fleet on this host. Nothing is created before the first one is."""
    return WorkspaceFolders(workspaces_root(environ, identify_store(state_dir)), platform.node())


def _no_trigger(kind: object, options: object) -> NoReturn:
    raise ValueError(f"a workspace has no trigger: {kind} {options}")


def _is_kept(keep: KeepPolicy, *, changed: bool) -> bool:
    return keep is KeepPolicy.ALWAYS or (keep is KeepPolicy.CHANGED and changed)


# --- git


def find_repository(folder: Path) -> tuple[Path, str]:
    """Return the top folder of the repository, and where in it the folder lies. Raises WorkspaceUnusable."""
    try:
        top, _, prefix = run_git(folder, "rev-parse", "--show-toplevel", "--show-prefix").partition("\n")
    except GitMissing as error:
        raise WorkspaceUnusable(str(error)) from error
    except GitError as error:
        if not folder.is_dir():
            message = f'The working directory "{folder}" does not exist. Create it, or correct working_directory.'
        elif succeeds(folder, "rev-parse", "--is-bare-repository"):
            message = f'"{folder}" is a git repository without a checkout. Use a clone of it.'
        else:
            message = (
                f'"{folder}" is not in a git repository. Run git init there, or write workspace: shared. ({error})'
            )
        raise WorkspaceUnusable(message) from error
    return Path(top), prefix


def _resolve_base(repository: Path, base: str) -> str:
    try:
        return run_git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    except GitMissing:
        raise
    except GitError as error:
        message = f'"{base}" is not a commit of {repository}. Commit something, or correct workspace.base.'
        raise GitError(message) from error


def _make_worktree(workspace: Workspace) -> None:
    repository = Path(workspace.repository)
    run_git(repository, "worktree", "add", "--no-track", "-b", workspace.branch, "--", workspace.path, workspace.base)


def _make_clone(workspace: Workspace, saved_config: Path) -> None:
    """Clone only the history of the base, and save the settings of the clone as they are before the run.

    With `--no-local` git copies what can be reached from the branch, and not everything in the object store, such as
    stashes and deleted commits.
    """
    repository, path = Path(workspace.repository), Path(workspace.path)
    run_git(repository, "branch", "--no-track", workspace.branch, workspace.base)
    run_git(
        repository,
        *("clone", "--quiet", "--no-local", "--no-hardlinks", "--single-branch", "--no-tags"),
        *("--branch", workspace.branch, "--", str(repository), str(path)),
    )
    run_git(path, "branch", "--unset-upstream")
    origin = _origin_url(repository)
    if origin:
        run_git(path, "remote", "set-url", "origin", origin)
        run_git(path, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
        run_git(path, "update-ref", "-d", f"refs/remotes/origin/{workspace.branch}")
    else:
        run_git(path, "remote", "remove", "origin")
    for key in ("user.name", "user.email"):
        with suppress(GitError):  # unset, which git reports as a failure
            run_git(path, "config", key, run_git(repository, "config", key))
    shutil.copyfile(path / ".git" / "config", saved_config)


def _origin_url(repository: Path) -> str:
    """Return where the repository was cloned from, without a password: the agent reads this file."""
    try:
        url = run_git(repository, "remote", "get-url", "origin")
    except GitError:
        return ""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https") and "@" in parts.netloc:
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return url


def _has_changes(workspace: Workspace) -> bool:
    """Changed: another commit than the base, on its branch or checked out, or files that are not committed."""
    path = Path(workspace.path)
    if not path.is_dir():
        return _tip(Path(workspace.repository), workspace.branch) not in ("", workspace.base)
    if run_git(path, "rev-parse", "HEAD") != workspace.base or _tip(path, workspace.branch) not in ("", workspace.base):
        return True
    return bool(run_git(path, "status", "--porcelain", "--ignore-submodules=dirty"))


def _tip(folder: Path, branch: str) -> str:
    try:
        return run_git(folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    except GitMissing:
        raise
    except GitError:
        return ""


def _bring_back(workspace: Workspace) -> None:
    """Copy the branches of a clone to the repository, as far as they have new commits."""
    path = Path(workspace.path)
    for name in run_git(path, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines():
        _fetch_branch(workspace, f"refs/heads/{name}", name)
    if not succeeds(path, "symbolic-ref", "--quiet", "HEAD"):
        _fetch_branch(workspace, "HEAD", "HEAD")


def _fetch_branch(workspace: Workspace, source: str, name: str) -> None:
    """Copy one branch. The agent may have made others; the repository may have branches of the same name already."""
    path = Path(workspace.path)
    if not run_git(path, "rev-list", "-n1", source, "--not", workspace.base):
        return
    suffix = "" if name == workspace.branch else "-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")
    refs = f"+{source}:refs/heads/{workspace.branch}{suffix}"
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    run_git(Path(workspace.repository), "-c", "fetch.fsckObjects=true", "fetch", *options, "--", str(path), refs)


def _restore_settings(path: Path, saved_config: Path) -> None:
    """Undo what an isolated agent may have written for our git to run: settings can name programs, links lead away.

    Raises GitError if the clone is no repository of its own any more.
    """
    git_dir = path / ".git"
    for folder in (git_dir, *(git_dir / name for name in ("info", "objects", "objects/info", "refs"))):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()) or not git_dir.is_dir():
            raise GitError(f'"{folder}" was replaced during the run. The workspace is kept as it is.')
    for name in ("config", "config.worktree", "commondir", "info/attributes", "objects/info/alternates"):
        file = git_dir / name
        if file.is_symlink() or not file.is_dir():
            file.unlink(missing_ok=True)
        else:
            shutil.rmtree(file)
    if not saved_config.exists():
        raise GitError(f'The clone "{path}" was not complete when its node was killed.')
    shutil.copyfile(saved_config, git_dir / "config", follow_symlinks=False)


def _delete_branch(repository: Path, branch: str, base: str) -> bool:
    """Delete the branch, unless it has commits of its own that no remote has; return whether it stays."""
    tip = _tip(repository, branch)
    if not tip:
        return False
    if tip != base and run_git(repository, "rev-list", "-n1", tip, "--not", "--remotes", base):
        return True
    run_git(repository, "branch", "--quiet", "-D", "--", branch)
    return False
