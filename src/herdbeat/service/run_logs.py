"""What runs have printed, one run after the other or side by side: from the log files, with the ledger to say whose."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import DEFAULT_NAME
from herdbeat.moments import format_moment
from herdbeat.runners.log_reader import Line, LogFollower, SharedLog, place_of_log
from herdbeat.service.objects import Json
from herdbeat.service.selecting import parts_of
from herdbeat.store.looking import LookReader
from herdbeat.store.reader import Filter

PAGE = 50
MANY = 1_000
ASK_EVERY = timedelta(seconds=1)


class Voice(StrEnum):
    """Who speaks: the run on its two streams, we about the run, or the ledger about its beginning and end."""

    OUT = "out"
    ERR = "err"
    NOTE = "note"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    at: datetime
    run: RunRecord
    voice: Voice
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whose output: of these runs, of schedules with these names, or of all if neither is given."""

    names: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()

    def means(self, run: RunRecord) -> bool:
        if not self.names and not self.runs:
            return True
        target, name = parts_of(run.schedule)
        full = f"{target}/{name or DEFAULT_NAME}"
        return run.id in self.runs or any(
            fnmatchcase(full, each if "/" in each else f"{each}/*") for each in self.names
        )


@dataclass(slots=True)
class _Following:
    """A run and its log, if that lies here. Of one that another node runs, the ledger has the end, which it renews."""

    run: RunRecord
    kept: SharedLog
    here: LogFollower | None = None
    ask_at: datetime | None = None

    def is_to_ask(self, now: datetime) -> bool:
        """The ledger is asked once a second, and once more when the run has ended."""
        is_time = self.run.status is not RunStatus.RUNNING or self.ask_at is None or now >= self.ask_at
        if is_time:
            self.ask_at = now + ASK_EVERY
        return is_time


@dataclass(slots=True)
class LogFeed:
    """First what was, then, whenever it is asked, what has come since. Used from one thread."""

    reader: LookReader
    state_dir: Path
    wanted: Wanted
    _open: dict[int, _Following] = field(default_factory=dict)
    _newest: int = 0
    _version: int = -1

    @property
    def is_watching(self) -> bool:
        """Whether a run is going whose words are waited for."""
        return bool(self._open)

    @property
    def unheard(self) -> list[RunRecord]:
        """Runs that are going and of which nothing lies here: they have said nothing yet, or say it elsewhere."""
        return [each.run for each in self._open.values() if each.here is None]

    @property
    def is_over(self) -> bool:
        """Whether only certain runs are wanted, and all of them have ended."""
        return bool(self.wanted.runs) and not self.wanted.names and not self._open

    def past(self, now: datetime, *, since: datetime | None, lines: int | None) -> list[Entry]:
        """The last lines, or all since a moment, in the order of their time. Runs that still go on are followed."""
        self._newest = self.reader.newest_run()
        found: list[Entry] = []
        for run in self._runs(since):
            entries = self._begin(run, now)
            found += [each for each in entries if since is None or each.at >= since]
            if lines is not None and len(found) >= lines and run.status is not RunStatus.RUNNING:
                break
        found.sort(key=lambda each: each.at)
        return found if lines is None else found[-lines:]

    def more(self, now: datetime) -> list[Entry]:
        """What has come since it was last asked."""
        found: list[Entry] = []
        version = self.reader.version()
        is_changed, self._version = version != self._version, version
        if is_changed:
            found += self._new_runs()
        going = self.reader.still_running(self._open) if is_changed else set(self._open)
        for number in list(self._open):
            found += self._said(self._open[number], now)
            if number not in going:
                found += self._end(number, now)
        return sorted(found, key=lambda each: each.at)

    def _new_runs(self) -> Iterator[Entry]:
        while numbers := self.reader.runs_after(self._newest, MANY):
            self._newest = numbers[-1]
            for run in (self.reader.run(number) for number in numbers):
                if run is not None and self.wanted.means(run):
                    self._open[run.id] = self._following(run)
                    yield _started(run)

    def _begin(self, run: RunRecord, now: datetime) -> list[Entry]:
        following = self._following(run)
        entries = [_started(run), *self._said(following, now)]
        if run.status is RunStatus.RUNNING:
            self._open[run.id] = following
            return entries
        return [*entries, *_rest(following), _ended(run)]

    def _said(self, following: _Following, now: datetime) -> list[Entry]:
        run = following.run
        if following.here is None:
            path = place_of_log(self.state_dir, run.id, run.claimed_at, run.finished_at or now)
            following.here = None if path is None else LogFollower(path)
        if following.here is not None:
            return _entries(run, following.here.more())
        return _entries(run, following.kept.more()) if following.is_to_ask(now) else []

    def _following(self, run: RunRecord) -> _Following:
        return _Following(run, SharedLog(lambda: self.reader.output_of(run.id)))

    def _end(self, number: int, now: datetime) -> list[Entry]:
        """Its last words lie in the file before its end lies in the ledger, so they are asked for once more."""
        following, ended = self._open.pop(number), self.reader.run(number)
        following.run = ended or following.run
        last = [*self._said(following, now), *_rest(following)]
        return last if ended is None else [*last, _ended(ended)]

    def _runs(self, since: datetime | None) -> Iterable[RunRecord]:
        """The newest first."""
        if self.wanted.runs and not self.wanted.names:
            found = (self.reader.run(number) for number in sorted(self.wanted.runs, reverse=True))
            return [run for run in found if run is not None]
        return (run for run in self._newest_runs(since) if self.wanted.means(run))

    def _newest_runs(self, since: datetime | None) -> Iterator[RunRecord]:
        target, name = parts_of(self.wanted.names[0]) if _is_single(self.wanted.names) else (None, None)
        first = 0 if since is None else self.reader.first_run_since(since)
        before: int | None = None
        while page := self.reader.runs(Filter(target=target, name=name, before=before, limit=PAGE)):
            fitting = [run for run in page if run.id >= first]
            yield from fitting
            if len(fitting) < len(page) or len(page) < PAGE:
                return
            before = page[-1].id


def entry_object(entry: Entry) -> Json:
    return {
        "at": format_moment(entry.at),
        "schedule": entry.run.schedule,
        "run": short_id(entry.run.id),
        "stream": entry.voice,
        "text": entry.text,
    }


def _is_single(names: tuple[str, ...]) -> bool:
    return len(names) == 1 and "*" not in names[0]


def _started(run: RunRecord) -> Entry:
    text = " ".join(part for part in (run.source, run.origin) if part)
    return Entry(at=run.began_at, run=run, voice=Voice.STARTED, text=text)


def _ended(run: RunRecord) -> Entry:
    return Entry(at=run.finished_at or run.claimed_at, run=run, voice=Voice.ENDED, text=run.error or "")


def _rest(following: _Following) -> list[Entry]:
    return _entries(following.run, (following.here or following.kept).rest())


def _entries(run: RunRecord, lines: Iterable[Line]) -> list[Entry]:
    return [Entry(at=line.at, run=run, voice=Voice(line.stream), text=line.text) for line in lines]
