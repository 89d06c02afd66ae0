"""What runs printed: where the log of one is, its lines, and which runs or schedules the words of a user mean."""

import platform
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from herdbeat.domain.records import RunDetails, RunRecord
from herdbeat.runners.run_log import LogLine, find_log, read_log, read_stored_log
from herdbeat.service.queries.logs import LogFeed, LogSelection
from herdbeat.service.queries.selectors import find_run, no_such_name, split_selector
from herdbeat.store.reader import Reader, ScheduleQuery
from herdbeat.store.state_lock import find_lock_holder


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
