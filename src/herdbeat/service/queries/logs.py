"""The output of runs, past and live: from the log files, with the ledger to say which runs there are."""

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from herdbeat.domain.ids import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.records import RunDetails, RunRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.runners.run_log import (
    LogFollower,
    LogLine,
    RemoteLogFollower,
    find_log,
    locate_log,
    read_log,
    read_stored_log,
)
from herdbeat.service.queries.selectors import build_unknown_name_error, find_run, split_selector
from herdbeat.store.reader import Filter, Reader, ScheduleQuery
from herdbeat.store.state_lock import find_lock_holder

PAGE_SIZE = 50
MAX_NEW_RUNS = 1_000
LEDGER_POLL_INTERVAL = timedelta(seconds=1)


class LogEntryKind(StrEnum):
    """Where an entry comes from: the two streams of a run, our notes about it, or the ledger for its start and end."""

    OUT = "out"
    ERR = "err"
    NOTE = "note"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    at: datetime
    run: RunRecord
    kind: LogEntryKind
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSelection:
    """Whose output: these runs, schedules with these names, or all if neither is given."""

    names: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()

    def matches(self, run: RunRecord) -> bool:
        if not self.names and not self.runs:
            return True
        target, name = split_selector(run.schedule)
        patterns = [each if "/" in each else f"{each}/*" for each in self.names]
        full_name = f"{target}/{name or DEFAULT_SCHEDULE_NAME}"
        return run.id in self.runs or any(fnmatchcase(full_name, pattern) for pattern in patterns)


@dataclass(slots=True)
class _FollowedRun:
    """A run and its log. If another node runs it, the log is there, and the ledger has a copy of its end."""

    run: RunRecord
    stored_log: RemoteLogFollower
    local_log: LogFollower | None = None
    poll_at: datetime | None = None

    def should_poll_ledger(self, now: datetime) -> bool:
        """Whether it is time to read the ledger: once a second, and once more when the run has ended."""
        if self.run.status is RunStatus.RUNNING and self.poll_at is not None and now < self.poll_at:
            return False
        self.poll_at = now + LEDGER_POLL_INTERVAL
        return True


@dataclass(slots=True)
class LogFeed:
    """Returns past output once, then what is new at every poll. Use it from one thread."""

    reader: Reader
    state_dir: Path
    selection: LogSelection
    _followed: dict[int, _FollowedRun] = field(default_factory=dict)
    _newest_run_id: int = 0
    _version: int = -1

    @property
    def has_open_runs(self) -> bool:
        """Whether a followed run is still active."""
        return bool(self._followed)

    @property
    def silent_runs(self) -> list[RunRecord]:
        """Active runs without a log on this machine: they have printed nothing yet, or run on another node."""
        return [each.run for each in self._followed.values() if each.local_log is None]

    @property
    def is_over(self) -> bool:
        """Whether only certain runs are selected, and all of them have ended."""
        return bool(self.selection.runs) and not self.selection.names and not self._followed

    def past(self, now: datetime, *, since: datetime | None, lines: int | None) -> list[LogEntry]:
        """Return the last lines, or all since a moment, by time. Runs that are still active are followed."""
        self._newest_run_id = self.reader.newest_run()
        entries: list[LogEntry] = []
        for run in self._find_runs(since):
            entries += [each for each in self._open_run(run, now) if since is None or each.at >= since]
            if lines is not None and len(entries) >= lines and run.status is not RunStatus.RUNNING:
                break
        entries.sort(key=lambda each: each.at)
        return entries if lines is None else entries[-lines:]

    def poll(self, now: datetime) -> list[LogEntry]:
        """Return what is new since the last call."""
        entries: list[LogEntry] = []
        version = self.reader.version()
        is_changed, self._version = version != self._version, version
        if is_changed:
            entries += self._new_runs()
        running_ids = self.reader.filter_running(self._followed) if is_changed else set(self._followed)
        for run_id in list(self._followed):
            entries += self._read_entries(self._followed[run_id], now)
            if run_id not in running_ids:
                entries += self._close_run(run_id, now)
        return sorted(entries, key=lambda each: each.at)

    def _new_runs(self) -> Iterator[LogEntry]:
        while run_ids := self.reader.runs_after(self._newest_run_id, MAX_NEW_RUNS):
            self._newest_run_id = run_ids[-1]
            for run in map(self.reader.run, run_ids):
                if run is not None and self.selection.matches(run):
                    self._followed[run.id] = self._follow(run)
                    yield _build_start_entry(run)

    def _open_run(self, run: RunRecord, now: datetime) -> list[LogEntry]:
        followed_run = self._follow(run)
        entries = [_build_start_entry(run), *self._read_entries(followed_run, now)]
        if run.status is RunStatus.RUNNING:
            self._followed[run.id] = followed_run
            return entries
        return [*entries, *_read_remaining(followed_run), _build_end_entry(run)]

    def _read_entries(self, followed_run: _FollowedRun, now: datetime) -> list[LogEntry]:
        run = followed_run.run
        if followed_run.local_log is None:
            path = locate_log(self.state_dir, run.id, run.claimed_at, run.finished_at or now)
            followed_run.local_log = None if path is None else LogFollower(path)
        if followed_run.local_log is not None:
            return _build_entries(run, followed_run.local_log.poll())
        return _build_entries(run, followed_run.stored_log.poll()) if followed_run.should_poll_ledger(now) else []

    def _follow(self, run: RunRecord) -> _FollowedRun:
        return _FollowedRun(run, RemoteLogFollower(lambda: self.reader.run_output(run.id)))

    def _close_run(self, run_id: int, now: datetime) -> list[LogEntry]:
        """Read the log once more: a run writes its last output before its end is in the ledger."""
        followed_run, ended = self._followed.pop(run_id), self.reader.run(run_id)
        followed_run.run = ended or followed_run.run
        last = [*self._read_entries(followed_run, now), *_read_remaining(followed_run)]
        return last if ended is None else [*last, _build_end_entry(ended)]

    def _find_runs(self, since: datetime | None) -> Iterable[RunRecord]:
        """Newest first."""
        if self.selection.runs and not self.selection.names:
            runs = map(self.reader.run, sorted(self.selection.runs, reverse=True))
            return [run for run in runs if run is not None]
        return (run for run in self._newest_runs(since) if self.selection.matches(run))

    def _newest_runs(self, since: datetime | None) -> Iterator[RunRecord]:
        names = self.selection.names
        is_single = len(names) == 1 and "*" not in names[0]
        target, name = split_selector(names[0]) if is_single else (None, None)
        first = 0 if since is None else self.reader.first_run_since(since)
        before: int | None = None
        while page := self.reader.runs(Filter(target=target, name=name, before=before, limit=PAGE_SIZE)):
            matching = [run for run in page if run.id >= first]
            yield from matching
            if len(matching) < len(page) or len(page) < PAGE_SIZE:
                return
            before = page[-1].id


def _build_start_entry(run: RunRecord) -> LogEntry:
    text = " ".join(part for part in (run.source, run.origin) if part)
    return LogEntry(at=run.began_at, run=run, kind=LogEntryKind.STARTED, text=text)


def _build_end_entry(run: RunRecord) -> LogEntry:
    return LogEntry(at=run.finished_at or run.claimed_at, run=run, kind=LogEntryKind.ENDED, text=run.error or "")


def _read_remaining(followed_run: _FollowedRun) -> list[LogEntry]:
    return _build_entries(followed_run.run, (followed_run.local_log or followed_run.stored_log).flush())


def _build_entries(run: RunRecord, lines: Iterable[LogLine]) -> list[LogEntry]:
    return [LogEntry(at=line.at, run=run, kind=LogEntryKind(line.stream), text=line.text) for line in lines]


# One run, and what the words of a user mean.


POLLS_PER_LEDGER_READ = 10
"""Polls between two reads of the ledger for the output of a run on another node."""


class RunOutputFollower:
    """The output of a run while it is active. The log exists only once the run has printed something."""

    def __init__(self, reader: Reader, state_dir: Path, run_id: int) -> None:
        self._state_dir = state_dir
        self._run_id = run_id
        self._follower: LogFollower | None = None
        self._remote_follower = RemoteLogFollower(lambda: reader.run_output(run_id))
        self._poll_count = 0

    def poll(self) -> list[str]:
        """Return what it has said since the last call."""
        return [line.text for line in self._poll()]

    def _poll(self) -> Iterable[LogLine]:
        if self._follower is None:
            path = find_log(self._state_dir, self._run_id)
            self._follower = None if path is None else LogFollower(path)
        if self._follower is not None:
            return self._follower.poll()
        self._poll_count += 1
        return self._remote_follower.poll() if self._poll_count % POLLS_PER_LEDGER_READ == 0 else ()

    def flush(self) -> list[str]:
        """Return the rest, once the run has ended: what it said on another node is in the ledger by then."""
        texts = self.poll()
        follower = self._follower or self._remote_follower
        return [*texts, *(line.text for line in (*follower.poll(), *follower.flush()))]


def find_log_path(state_dir: Path, run_id: int) -> str | None:
    """Return the log file of a run; None if it printed nothing, ran on another node, or its log was pruned."""
    path = find_log(state_dir, run_id)
    return None if path is None else str(path)


def read_output(reader: Reader, state_dir: Path, run_id: int) -> list[LogLine]:
    """Return all lines of a run here, or the last ones of a run on another node, which the ledger keeps."""
    path = find_log(state_dir, run_id)
    if path is not None:
        return read_log(path)
    stored = reader.run_output(run_id)
    return [] if stored is None else read_stored_log(stored)


def resolve_log_selection(reader: Reader, words: Iterable[str], now: datetime) -> LogSelection:
    """Return the schedules and runs that the words name. Raises NotFound.

    A name comes before an id: a target may be called `beef`, which is also the id of a run.
    """
    names, runs = [], []
    for word in words:
        target, name = split_selector(word)
        if reader.find(ScheduleQuery(now=now, names=(f"{target}/{name or '*'}",), limit=1)):
            names.append(word)
        elif (run := find_run(reader, word)) is not None:
            runs.append(run.id)
        else:
            raise build_unknown_name_error(reader, word)
    return LogSelection(names=tuple(names), runs=tuple(runs))


def find_remote_runs(feed: LogFeed, limit: int) -> list[tuple[RunRecord, RunDetails]]:
    """Return the first active runs without output here that belong to another process."""
    here = (platform.node(), find_lock_holder(feed.state_dir))
    silent = [(run, feed.reader.details(run.id)) for run in feed.silent_runs[:limit]]
    return [(run, details) for run, details in silent if (details.host, details.pid) != here]
