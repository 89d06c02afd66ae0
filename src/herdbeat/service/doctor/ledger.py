"""Checks of the ledger and its folder: can it be read and written, is it sound, what did the last day cost."""

import os
import shutil
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.durations import spoken_duration
from herdbeat.errors import HerdbeatError, StoreUnavailable
from herdbeat.service.doctor.finding import Finding, problem, warning, well
from herdbeat.store.lock import holder_of
from herdbeat.store.opening import audit_at, clock_at, reader_at, try_writing
from herdbeat.store.places import LedgerPlace, PostgresPlace, state_dir_of
from herdbeat.store.reader import Filter
from herdbeat.store.vitals import read_vitals

DAY = timedelta(days=1)
WORTH_TELLING = timedelta(seconds=2)
_SCARCE = 200 * 1024 * 1024
"""Bytes that should be free: a ledger that cannot grow starts nothing."""

_NAPS = (MissedReason.SLEPT, MissedReason.CLOCK_JUMPED)


def check_ledger(path: LedgerPlace, clock: Clock) -> Iterator[Finding]:
    if not isinstance(path, Path):
        yield from _database(path, clock)
        return
    now = clock.now()
    folder = path.parent
    if not path.exists():
        yield well("store", f"{path} is not there yet; the first herdbeat up makes it")
        yield from _folder(folder if folder.exists() else _nearest(folder))
        return
    yield from _folder(folder)
    try:
        yield _soundness(path)
        yield from _quarantine(path)
        yield from _last_day(path, now)
    except HerdbeatError as error:
        yield problem("store", error.message, error.hint)


def _database(place: PostgresPlace, own: Clock) -> Iterator[Finding]:
    try:
        clock = clock_at(place, own)
        if clock is None:
            yield well("store", f"{place.shown} is empty yet; the first herdbeat up --apply fills it")
            return
        now = clock.now()
        damage = audit_at(place).damage()
        if damage:
            yield problem("store", f"{place.shown}: {damage[0]}", "herdbeat db check")
        try_writing(place)
        yield well("store", f"{place.shown} answers, and can be written")
        yield from _nodes(place, now)
        yield from _difference(own.now() - now)
        yield from _quarantine(place)
        yield from _last_day(place, now)
    except HerdbeatError as error:
        yield problem("store", error.message, error.hint)


def _nodes(place: PostgresPlace, now: datetime) -> Iterator[Finding]:
    reader = reader_at(place)
    try:
        alive = reader.nodes(100, now)
    finally:
        reader.close()
    if alive:
        yield well("nodes", ", ".join(f"{each.host} (pid {each.pid})" for each in alive))
        if not any(each.works for each in alive):
            yield warning("nodes", "none of them works (--no-workers); its beats are being missed", "herdbeat up")
    else:
        yield warning("nodes", "no node runs this fleet; its beats are being missed", "herdbeat up")


def _difference(ahead: timedelta) -> Iterator[Finding]:
    """Harmless, for the database's time counts; and still a sign that something is wrong with this machine."""
    if abs(ahead) > WORTH_TELLING:
        where = "ahead of" if ahead > timedelta(0) else "behind"
        told = f"this machine is {spoken_duration(abs(ahead))} {where} the database, whose time counts"
        yield warning("time", told, "Let this machine's clock be set by the network (NTP).")


def check_state(path: LedgerPlace) -> Iterator[Finding]:
    """Whether there can be a node here at all. What stands in the way is told, and nothing more can be asked then."""
    try:
        holder_of(state_dir_of(path))
    except StoreUnavailable as error:
        yield problem("state", error.message, error.hint)


def check_node(path: LedgerPlace) -> Iterator[Finding]:
    """Whether anybody runs the fleet here."""
    pid = holder_of(state_dir_of(path))
    if pid is not None:
        yield well("scheduler", f"running (pid {pid})")
    elif isinstance(path, Path) and path.exists():
        yield warning("scheduler", "nothing runs this fleet; its beats are being missed", "herdbeat up")


def _nearest(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())


def _folder(folder: Path) -> Iterator[Finding]:
    if not os.access(folder, os.W_OK | os.X_OK):
        yield problem("state", f"{folder} cannot be written by this user", f"chown or chmod {folder}")
        return
    if folder.name.startswith(".") and stat.S_IMODE(folder.stat().st_mode) & 0o022:
        yield warning("state", f"others may write into {folder}", f"chmod go-w {folder}")
    free = shutil.disk_usage(folder).free
    if free < _SCARCE:
        yield warning("disk", f"{free // 1024 // 1024} MB are free for {folder}", "Make room: a full disk stops all.")


def _soundness(path: Path) -> Finding:
    vitals = read_vitals(path)
    size = f"{max(vitals.size / 1024 / 1024, 0.1):.1f} MB"
    if vitals.damage:
        mend = "Keep the file, and restore a backup: herdbeat db restore FILE"
        return problem("store", f"{path} is damaged: {vitals.damage}", mend)
    told = f"{path}  {vitals.journal.upper()}, {size}, schema {vitals.schema}"
    if vitals.schema > vitals.newest:
        return problem("store", f"{told}: written by a newer herdbeat", "Use that version.")
    if vitals.schema < vitals.newest:
        return warning("store", f"{told}; the next start brings it to {vitals.newest}", "herdbeat db backup first")
    return well("store", told)


def _quarantine(path: LedgerPlace) -> Iterator[Finding]:
    for label, why in audit_at(path).quarantined():
        yield problem("schedule", f"{label} is quarantined: {why}", f"Edit it, or: herdbeat reset {label}")


def _last_day(path: LedgerPlace, now: datetime) -> Iterator[Finding]:
    reader = reader_at(path)
    try:
        gaps = reader.gaps(now - DAY)
        missed = reader.beats(Filter(outcome=BeatOutcome.MISSED, since=now - DAY, limit=10_000))
    finally:
        reader.close()
    naps = [gap for gap in gaps if gap.reason in _NAPS]
    lost = sum((gap.until - max(gap.from_at, now - DAY) for gap in gaps), timedelta(0))
    count = sum(beat.count for beat in missed)
    if not count:
        yield well("sleep", "no beat was missed in the last 24 h")
        return
    how = f"this machine slept {_times(len(naps))}" if naps else f"nothing ran {_times(len(gaps))}"
    told = f"{how} in 24 h ({spoken_duration(lost)} in all); {count} beat{'' if count == 1 else 's'} missed"
    yield warning("sleep", told, "catchup: once makes up for it; see: herdbeat beats --outcome missed --since 24h")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
