"""A folder as a queue: one file is one item, and a rename claims it.

    inbox/fix-login.md                    offered
    inbox/working/fix-login~m7f3k.md      claimed by the run with that marker
    inbox/done/fix-login~m7f3k.md         with fix-login~m7f3k.md.json, which says how the run ended
    inbox/failed/…                        after the last attempt

A rename within one file system is atomic: of several nodes on one folder, also a shared one, one succeeds. Symbolic
links, hard links, folders, hidden files and files that are still being written are not items and are left alone.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.errors import truncate_for_message
from herdbeat.threads import call_in_thread
from herdbeat.work.base import (
    MAX_BODY_LENGTH,
    MAX_LISTED_ITEMS,
    MAX_TITLE_LENGTH,
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    WorkClaim,
    WorkClaimResult,
    WorkSourceFailed,
    build_item,
    check_run_marker,
    is_valid_id,
)

WORKING_FOLDER, DONE_FOLDER, FAILED_FOLDER = "working", "done", "failed"
_UNFINISHED_SUFFIXES = (".tmp", ".part", ".partial", ".swp", ".crdownload", "~")
_MAX_FILE_BYTES = 4 * MAX_BODY_LENGTH
_MAX_NAME_BYTES = 255
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """A `work_source:` of type directory. Without `offers_failed_again`, a failed item goes to failed/ at once."""

    path: Path
    offers_failed_again: bool = True


class DirectorySource:
    """Implements WorkSource. Its file operations run in a thread: a folder may be on a slow network."""

    def __init__(self, settings: DirectorySettings) -> None:
        self._path = settings.path
        self._folder = _Folder(settings.path)
        self._offers_failed_again = settings.offers_failed_again

    @property
    def key(self) -> str:
        return f"directory:{self._path}"

    @property
    def claims_remotely(self) -> bool:
        return True

    @property
    def is_local(self) -> bool:
        return True

    async def list(self, limit: int = MAX_LISTED_ITEMS) -> tuple[WorkItem, ...]:
        """Return the files, the oldest first."""
        return await call_in_thread(self._folder.list, min(limit, MAX_LISTED_ITEMS))

    async def find_problems(self) -> tuple[str, ...]:
        """Return the files that somebody may have meant as items, and why they are none."""
        return await call_in_thread(self._folder.find_problems)

    async def claim(self, item: WorkItem, run_marker: str) -> WorkClaimResult:
        return await call_in_thread(self._folder.claim, item.id, check_run_marker(run_marker))

    async def report(self, claim: WorkClaim, report: Report) -> None:
        name, marker = claim.item.id, check_run_marker(claim.run_marker)
        offers_again = report.offers_again and self._offers_failed_again
        await call_in_thread(self._folder.report, name, marker, report, offers_again)

    async def release(self, claim: WorkClaim) -> ReleaseStatus:
        """Move the file back. Its name in working/ has the run's marker, so it is certainly ours."""
        name, marker = claim.item.id, check_run_marker(claim.run_marker)
        is_ours = await call_in_thread(self._folder.put_back, name, marker)
        return ReleaseStatus.RELEASED if is_ours else ReleaseStatus.NOT_OURS

    async def close(self) -> None:
        """Nothing stays open."""


class _Folder:
    """The file operations, all relative to open folders: none of them follows a symbolic link out of the queue."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list(self, limit: int) -> tuple[WorkItem, ...]:
        with self._open() as root, _explained(self._path):
            found = sorted(_find_items(root))[:limit]
            items = (_read_item(root, name, name) for _, name in found)
            return tuple(item for item in items if item is not None)

    def find_problems(self) -> tuple[str, ...]:
        with self._open() as root, _explained(self._path), os.scandir(root) as entries:
            names = [each.name for each in entries if _is_offered_name(each.name) and not is_valid_id(each.name)]
        if not names:
            return ()
        first = truncate_for_message(ascii(min(names)))
        which = f"The file {first} is" if len(names) == 1 else f"{first} and {len(names) - 1} more files are"
        return (f"{which} not offered: a name must be printable, without spaces around it, of at most 200 characters.",)

    def claim(self, name: str, marker: str) -> WorkClaimResult:
        taken = taken_name(name, marker)
        with self._open() as root, self._open(root, WORKING_FOLDER) as working, _explained(self._path):
            if not _exists(working, taken):
                # Looked at again just before the rename: whatever lies there by now must still be a plain file.
                if not is_item_name(name) or not _is_item_file(root, name):
                    return WorkClaimResult(status=ClaimStatus.LOST)
                try:
                    os.rename(name, taken, src_dir_fd=root, dst_dir_fd=working)
                except FileNotFoundError:
                    return WorkClaimResult(status=ClaimStatus.LOST)
                os.fsync(working)
            item = _read_item(working, taken, name)
        if item is not None:
            return WorkClaimResult(status=ClaimStatus.CLAIMED, item=item)
        self.put_back(name, marker)
        return WorkClaimResult(status=ClaimStatus.GONE, reason=f"{truncate_for_message(name)} cannot be read.")

    def report(self, name: str, marker: str, report: Report, offers_again: bool) -> None:
        if offers_again:
            self.put_back(name, marker)
            return
        taken, end = taken_name(name, marker), DONE_FOLDER if report.succeeded else FAILED_FOLDER
        with self._open() as root, self._open(root, WORKING_FOLDER) as working, _explained(self._path):
            if not _exists(working, taken):
                return  # moved by this report before, or by a person
            with self._open(root, end) as folder:
                # The sidecar first: a file in done/ always has one.
                _write_sidecar(folder, f"{taken}.json", name, marker, report)
                with suppress(FileNotFoundError):
                    os.rename(taken, taken, src_dir_fd=working, dst_dir_fd=folder)
                os.fsync(folder)

    def put_back(self, name: str, marker: str) -> bool:
        """Offer a file of ours again. False if it is not there.

        A new file with its name may lie in the queue by now, and a rename would overwrite it. A link does not. A node
        that dies between link and unlink leaves a file with two links, which is no item until this is repeated.
        """
        taken = taken_name(name, marker)
        with self._open() as root, self._open(root, WORKING_FOLDER) as working, _explained(self._path):
            try:
                links = os.stat(taken, dir_fd=working, follow_symlinks=False).st_nlink
            except FileNotFoundError:
                return False
            if links > 1 or _link_back(taken, name, working, root):
                os.unlink(taken, dir_fd=working)
            os.fsync(root)
            return True

    @contextmanager
    def _open(self, root: int | None = None, name: str = "") -> Iterator[int]:
        """Open the queue, or a folder in it, which is made if it is missing. A symbolic link is refused."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            if root is None:
                opened = os.open(self._path, flags)
            else:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o777, dir_fd=root)
                opened = os.open(name, flags | os.O_NOFOLLOW, dir_fd=root)
        except OSError as error:
            raise _failed(self._path / name, error) from error
        try:
            yield opened
        finally:
            os.close(opened)


def is_item_name(name: str) -> bool:
    """True if a file of this name may be an item: one printable line, neither hidden nor unfinished.

    A name such as `-rf` is as good as others: it is a part of the prompt, and no argument of any program.
    """
    return is_valid_id(name) and "/" not in name and _is_offered_name(name)


def _is_offered_name(name: str) -> bool:
    """True unless the name says that the file is hidden, unfinished, or one of our folders."""
    is_unfinished = name.lower().endswith(_UNFINISHED_SUFFIXES)
    return (
        not name.startswith((".", "~"))
        and not is_unfinished
        and name not in (WORKING_FOLDER, DONE_FOLDER, FAILED_FOLDER)
    )


def taken_name(name: str, marker: str) -> str:
    """Return the name in working/, done/ and failed/: "a.md" of run m becomes "a~m.md"."""
    stem, dot, suffix = name.rpartition(".")
    ending = f"~{marker}{dot}{suffix}" if stem else f"~{marker}"
    kept = (stem or name).encode()[: _MAX_NAME_BYTES - len(ending.encode()) - len(".json.tmp")]
    return kept.decode(errors="ignore") + ending


def _find_items(root: int) -> Iterator[tuple[int, str]]:
    """Yield the time and the name of every item."""
    with os.scandir(root) as entries:
        for entry in entries:
            # A name that is not UTF-8 has surrogates, which are not printable.
            if not is_item_name(entry.name):
                continue
            with suppress(FileNotFoundError):  # claimed by another node
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                    yield found.st_mtime_ns, entry.name


def _is_item_file(root: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _exists(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _read_item(folder: int, file: str, name: str) -> WorkItem | None:
    """Return the item; None if its file is gone or cannot be read. It is a plain file: a pipe would block."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        text = stream.read(_MAX_FILE_BYTES).decode(errors="replace")
    return build_item(name, title=find_title(text, name), body=text)


def find_title(text: str, name: str) -> str:
    """Return the first heading if the text begins with one, else the name of the file without its ending."""
    first = text.lstrip("\ufeff").lstrip().partition("\n")[0][:MAX_TITLE_LENGTH].strip()
    heading = first.lstrip("#").strip() if first.startswith("#") else ""
    return heading or Path(name).stem


def _link_back(source: str, name: str, working: int, root: int) -> bool:
    """Link the file back. If its name is in use, it keeps the one that it has in working/.

    Returns False on a file system without hard links: there it is renamed, and nothing is left to unlink.
    """
    for target in (name, source):
        try:
            os.link(source, target, src_dir_fd=working, dst_dir_fd=root, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.rename(source, source if _exists(root, name) else name, src_dir_fd=working, dst_dir_fd=root)
            return False
        return True
    raise FileExistsError(errno.EEXIST, "its name is in use")


def _write_sidecar(folder: int, name: str, item: str, marker: str, report: Report) -> None:
    data = {
        "item": item,
        "run": marker,
        "outcome": "succeeded" if report.succeeded else "failed",
        "summary": report.summary,
        "error": report.error,
        "attempt": report.attempt,
        "max_attempts": report.max_attempts,
    }
    temporary = f"{name}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder), "w", encoding="utf-8") as stream:
        json.dump(data, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failed(path, error) from error


def _failed(path: Path, error: OSError) -> WorkSourceFailed:
    if isinstance(error, FileNotFoundError):
        text, cause = f"The folder {path} does not exist.", FailureCause.NOT_FOUND
    elif isinstance(error, PermissionError):
        text, cause = f"The folder {path} may not be used: {error.strerror}.", FailureCause.PERMISSION
    else:
        text, cause = f"The folder {path} cannot be used: {error.strerror}.", FailureCause.UNAVAILABLE
    return WorkSourceFailed(text, cause=cause, hint="Check path: under work_source.")
