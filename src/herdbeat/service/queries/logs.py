"""What runs have printed, one run after the other or side by side: from the log files, with the ledger to say whose."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME
from herdbeat.runners.run_log import LogFollower, LogLine, RemoteLogFollower, locate_log
from herdbeat.service.queries.selectors import split_selector
from herdbeat.service.serialize import JsonObject
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_timestamp

PAGE_SIZE = 50
MAX_NEW_RUNS = 1_000
LEDGER_POLL_INTERVAL = timedelta(seconds=1)


class LogEntryKind(StrEnum):
    """Who speaks: the run on its two streams, we about the run, or the ledger about its beginning and end."""

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
    """Whose output: of these runs, of schedules with these names, or of all if neither is given."""

    names: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()

    def matches(self, run: RunRecord) -> bool:
        if not self.names and not self.runs:
            return True
        target, name = split_selector(run.schedule)
        full = f"{target}/{name or DEFAULT_SCHEDULE_NAME}"
        return run.id in self.runs or any(
            fnmatchcase(full, each if "/" in each else f"{each}/*") for each in self.names
        )


@dataclass(slots=True)
class _FollowedRun:
    """A run and its log, if that lies here. Of one that another node runs, the ledger has the end, which it renews."""

    run: RunRecord
    stored_log: RemoteLogFollower
    local_log: LogFollower | None = None
    poll_at: datetime | None = None

    def should_poll_ledger(self, now: datetime) -> bool:
        """The ledger is asked once a second, and once more when the run has ended."""
        is_time = self.run.status is not RunStatus.RUNNING or self.poll_at is None or now >= self.poll_at
        if is_time:
            self.poll_at = now + LEDGER_POLL_INTERVAL
        return is_time


@dataclass(slots=True)
class LogFeed:
    """First what was, then, whenever it is asked, what has come since. Used from one thread."""

    reader: Reader
    state_dir: Path
    selection: LogSelection
    _followed: dict[int, _FollowedRun] = field(default_factory=dict)
    _newest_run_id: int = 0
    _version: int = -1

    @property
    def has_open_runs(self) -> bool:
        """Whether a run is going whose words are waited for."""
        return bool(self._followed)

    @property
    def silent_runs(self) -> list[RunRecord]:
        """Runs that are going and of which nothing lies here: they have said nothing yet, or say it elsewhere."""
        return [each.run for each in self._followed.values() if each.local_log is None]

    @property
    def is_over(self) -> bool:
        """Whether only certain runs are wanted, and all of them have ended."""
        return bool(self.selection.runs) and not self.selection.names and not self._followed

    def past(self, now: datetime, *, since: datetime | None, lines: int | None) -> list[LogEntry]:
        """The last lines, or all since a moment, in the order of their time. Runs that still go on are followed."""
        self._newest_run_id = self.reader.newest_run()
        found: list[LogEntry] = []
        for run in self._find_runs(since):
            entries = self._open_run(run, now)
            found += [each for each in entries if since is None or each.at >= since]
            if lines is not None and len(found) >= lines and run.status is not RunStatus.RUNNING:
                break
        found.sort(key=lambda each: each.at)
        return found if lines is None else found[-lines:]

    def poll(self, now: datetime) -> list[LogEntry]:
        """What has come since it was last asked."""
        found: list[LogEntry] = []
        version = self.reader.version()
        is_changed, self._version = version != self._version, version
        if is_changed:
            found += self._new_runs()
        running_ids = self.reader.filter_running(self._followed) if is_changed else set(self._followed)
        for number in list(self._followed):
            found += self._read_entries(self._followed[number], now)
            if number not in running_ids:
                found += self._close_run(number, now)
        return sorted(found, key=lambda each: each.at)

    def _new_runs(self) -> Iterator[LogEntry]:
        while numbers := self.reader.runs_after(self._newest_run_id, MAX_NEW_RUNS):
            self._newest_run_id = numbers[-1]
            for run in (self.reader.run(number) for number in numbers):
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

    def _close_run(self, number: int, now: datetime) -> list[LogEntry]:
        """Its last words lie in the file before its end lies in the ledger, so they are asked for once more."""
        followed_run, ended = self._followed.pop(number), self.reader.run(number)
        followed_run.run = ended or followed_run.run
        last = [*self._read_entries(followed_run, now), *_read_remaining(followed_run)]
        return last if ended is None else [*last, _build_end_entry(ended)]

    def _find_runs(self, since: datetime | None) -> Iterable[RunRecord]:
        """The newest first."""
        if self.selection.runs and not self.selection.names:
            found = (self.reader.run(number) for number in sorted(self.selection.runs, reverse=True))
            return [run for run in found if run is not None]
        return (run for run in self._newest_runs(since) if self.selection.matches(run))

    def _newest_runs(self, since: datetime | None) -> Iterator[RunRecord]:
        target, name = (
            split_selector(self.selection.names[0]) if _is_single_name(self.selection.names) else (None, None)
        )
        first = 0 if since is None else self.reader.first_run_since(since)
        before: int | None = None
        while page := self.reader.runs(Filter(target=target, name=name, before=before, limit=PAGE_SIZE)):
            matching = [run for run in page if run.id >= first]
            yield from matching
            if len(matching) < len(page) or len(page) < PAGE_SIZE:
                return
            before = page[-1].id


def serialize_log_entry(entry: LogEntry) -> JsonObject:
    return {
        "at": format_timestamp(entry.at),
        "schedule": entry.run.schedule,
        "run": format_short_id(entry.run.id),
        "stream": entry.kind,
        "text": entry.text,
    }


def _is_single_name(names: tuple[str, ...]) -> bool:
    return len(names) == 1 and "*" not in names[0]


def _build_start_entry(run: RunRecord) -> LogEntry:
    text = " ".join(part for part in (run.source, run.origin) if part)
    return LogEntry(at=run.began_at, run=run, kind=LogEntryKind.STARTED, text=text)


def _build_end_entry(run: RunRecord) -> LogEntry:
    return LogEntry(at=run.finished_at or run.claimed_at, run=run, kind=LogEntryKind.ENDED, text=run.error or "")


def _read_remaining(followed_run: _FollowedRun) -> list[LogEntry]:
    return _build_entries(followed_run.run, (followed_run.local_log or followed_run.stored_log).flush())


def _build_entries(run: RunRecord, lines: Iterable[LogLine]) -> list[LogEntry]:
    return [LogEntry(at=line.at, run=run, kind=LogEntryKind(line.stream), text=line.text) for line in lines]
