"""What runs printed: where the log of one is, its lines, and which runs or schedules the words of a user mean."""

import platform
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from herdbeat.domain.records import RunDetails, RunRecord
from herdbeat.runners.run_log import LogFollower, LogLine, RemoteLogFollower, find_log, read_log, read_stored_log
from herdbeat.service.queries.logs import LogFeed, LogSelection
from herdbeat.service.queries.selectors import find_run, no_such_name, split_selector
from herdbeat.store.reader import Reader, ScheduleQuery
from herdbeat.store.state_lock import find_lock_holder

POLLS_PER_LEDGER_READ = 10
"""Polls between two reads of the ledger for the output of a run on another node."""


class RunOutputFollower:
    """The output of a run while it goes on. Its log is there only once the run has said something."""

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
            raise no_such_name(reader, word)
    return LogSelection(names=tuple(names), runs=tuple(runs))


def find_remote_runs(feed: LogFeed, limit: int) -> list[tuple[RunRecord, RunDetails]]:
    """Return the first active runs without output here that belong to another process."""
    here = (platform.node(), find_lock_holder(feed.state_dir))
    silent = [(run, feed.reader.details(run.id)) for run in feed.silent_runs[:limit]]
    return [(run, details) for run, details in silent if (details.host, details.pid) != here]
