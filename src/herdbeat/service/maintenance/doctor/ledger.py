"""Checks of the ledger and its folder: whether it is readable, writable and sound, and what the last day missed."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.durations import humanize
from herdbeat.errors import HerdbeatError, StoreUnavailable, truncate_for_message
from herdbeat.runners.run_log import LOGS_FOLDER
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning
from herdbeat.store.location import (
    PostgresLocation,
    StoreLocation,
    check_writable,
    name_ledger,
    open_audit,
    open_reader,
    resolve_state_dir,
    select_clock,
)
from herdbeat.store.reader import Filter
from herdbeat.store.sqlite.connection import to_store_unavailable
from herdbeat.store.state_lock import find_lock_holder, require_private_dir
from herdbeat.store.statements import load_migrations

ONE_DAY = timedelta(days=1)
MIN_REPORTED_CLOCK_DRIFT = timedelta(seconds=2)
_MIN_FREE_BYTES = 200 * 1024 * 1024
"""A ledger that cannot grow starts nothing."""

_MAX_DAMAGE_CHARS = 200
_SLEEP_REASONS = (MissedReason.SLEPT, MissedReason.CLOCK_JUMPED)


def check_ledger(path: StoreLocation, clock: Clock) -> Iterator[DoctorFinding]:
    if not isinstance(path, Path):
        yield from _check_database(path, clock)
        return
    folder = path.parent
    if not path.exists():
        yield report_ok("store", f"{path} does not exist yet; herdbeat up creates it")
        yield from _check_folder(next(each for each in (folder, *folder.parents) if each.exists()))
        return
    yield from _check_folder(folder)
    try:
        yield _check_integrity(path)
        yield from _check_quarantine(path)
        yield from _check_missed_beats(path, clock.now())
    except HerdbeatError as error:
        yield report_problem("store", error.message, error.hint)


def _check_database(location: PostgresLocation, own: Clock) -> Iterator[DoctorFinding]:
    try:
        clock = select_clock(location, own)
        if clock is None:
            yield report_ok("store", f"{location.display_url} is still empty; herdbeat up --apply initializes it")
            return
        now = clock.now()
        if damage := open_audit(location).damage():
            yield report_problem("store", f"{location.display_url}: {damage[0]}", "herdbeat db check")
        check_writable(location)
        yield report_ok("store", f"{location.display_url} reachable and writable")
        yield from _check_nodes(location, now)
        yield from _check_clock_drift(own.now() - now)
        yield from _check_quarantine(location)
        yield from _check_missed_beats(location, now)
    except HerdbeatError as error:
        yield report_problem("store", error.message, error.hint)


def _check_nodes(location: PostgresLocation, now: datetime) -> Iterator[DoctorFinding]:
    with closing(open_reader(location)) as reader:
        alive = reader.nodes(100, now)
    if alive:
        yield report_ok("nodes", ", ".join(f"{each.host} (pid {each.pid})" for each in alive))
    if not any(each.works for each in alive):
        what = "none of the nodes runs beats (--no-workers)" if alive else "no node runs this fleet"
        yield report_warning("nodes", f"{what}; nothing runs until one does", "herdbeat up")


def _check_clock_drift(drift: timedelta) -> Iterator[DoctorFinding]:
    """Harmless, because the database's time counts, but a sign that something is wrong with this machine."""
    if abs(drift) > MIN_REPORTED_CLOCK_DRIFT:
        where = "ahead of" if drift > timedelta(0) else "behind"
        text = f"this machine is {humanize(abs(drift))} {where} the database; the database's time is used"
        yield report_warning("time", text, "Enable time synchronization (NTP) on this machine.")


def check_state_dir(path: StoreLocation) -> Iterator[DoctorFinding]:
    """Report what prevents a node from running here. If anything does, no other check of the ledger can run."""
    state_dir = resolve_state_dir(path)
    try:
        find_lock_holder(state_dir)
        if state_dir.exists():
            require_private_dir(state_dir)
    except StoreUnavailable as error:
        yield report_problem("state", error.message, error.hint)


def check_logs_folder(path: StoreLocation) -> Iterator[DoctorFinding]:
    """Report what prevents a node from keeping the output of runs."""
    if (logs := resolve_state_dir(path) / LOGS_FOLDER).is_symlink():
        text = f"{logs} is a symbolic link, which herdbeat does not follow: the output of runs is not kept"
        yield report_problem("state", text, f"Check who created it, then remove it: rm {logs}")


def check_node(path: StoreLocation) -> Iterator[DoctorFinding]:
    """Report whether a node runs the fleet here."""
    pid = find_lock_holder(resolve_state_dir(path), name_ledger(path))
    if pid is not None:
        yield report_ok("scheduler", f"running (pid {pid})")
    elif isinstance(path, Path) and path.exists():
        yield report_warning("scheduler", "no scheduler is running; nothing runs until one starts", "herdbeat up")


def _check_folder(folder: Path) -> Iterator[DoctorFinding]:
    if not os.access(folder, os.W_OK | os.X_OK):
        yield report_problem("state", f"{folder} is not writable for this user", f"chown or chmod {folder}")
        return
    free = shutil.disk_usage(folder).free
    if free < _MIN_FREE_BYTES:
        text = f"{free // 1024 // 1024} MB free for {folder}"
        yield report_warning("disk", text, "Free disk space: no runs start while the disk is full.")


def _check_integrity(path: Path) -> DoctorFinding:
    """Check schema and pages. It is quick: indexes are not compared with their tables. Raises StoreUnavailable."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            pragmas = ("user_version", "journal_mode", "quick_check(1)")
            schema, journal, check = (connection.execute(f"PRAGMA {each}").fetchone()[0] for each in pragmas)
    except sqlite3.Error as error:
        raise to_store_unavailable(path, error) from error
    if check != "ok":
        damage = truncate_for_message(check.removeprefix("*** in database main ***"), _MAX_DAMAGE_CHARS)
        fix = "Keep the file and restore a backup: herdbeat db restore FILE"
        return report_problem("store", f"{path} is damaged: {damage}", fix)
    text = f"{path}  {journal.upper()}, {max(path.stat().st_size / 1024 / 1024, 0.1):.1f} MB, schema {schema}"
    newest = load_migrations()[-1][0]
    if schema > newest:
        return report_problem("store", f"{text}: created by a newer version of herdbeat", "Use that version.")
    if schema < newest:
        return report_warning(
            "store", f"{text}; the next start upgrades it to {newest}", "Make a backup first: herdbeat db backup"
        )
    return report_ok("store", text)


def _check_quarantine(path: StoreLocation) -> Iterator[DoctorFinding]:
    for label, why in open_audit(path).quarantined():
        yield report_problem("schedule", f"{label} is quarantined: {why}", f"Edit it, or: herdbeat reset {label}")


def _check_missed_beats(path: StoreLocation, now: datetime) -> Iterator[DoctorFinding]:
    with closing(open_reader(path)) as reader:
        gaps = reader.gaps(now - ONE_DAY)
        missed = reader.beats(Filter(outcome=BeatOutcome.MISSED, since=now - ONE_DAY, limit=10_000))
    sleeps = [gap for gap in gaps if gap.reason in _SLEEP_REASONS]
    lost = sum((gap.until - max(gap.from_at, now - ONE_DAY) for gap in gaps), timedelta(0))
    count = sum(beat.count for beat in missed)
    if not count:
        yield report_ok("sleep", "no beats missed in the last 24 h")
        return
    cause = (
        f"this machine was asleep {_format_times(len(sleeps))}"
        if sleeps
        else f"no scheduler was running {_format_times(len(gaps))}"
    )
    text = f"{cause} in 24 h ({humanize(lost)} in all); {count} beat{'' if count == 1 else 's'} missed"
    fix = "Set catchup: once to run missed beats later. List them: herdbeat beats --outcome missed --since 24h"
    yield report_warning("sleep", text, fix)


def _format_times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
