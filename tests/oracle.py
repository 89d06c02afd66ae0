"""The oracle: recomputes every due instant by a second cron implementation, and reads the ledger against it.

It knows nothing of the engine: only what was written in the file, when, and what the ledger says became of it.
Nothing may be missing, nothing may be there twice, and every absence has its reason.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from croniter import croniter

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.store.reader import Filter, SqliteReader

SETTLED = {BeatOutcome.RAN, BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED}
NEEDS_REASON = {BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED, BeatOutcome.PENDING}


@dataclass(frozen=True, slots=True)
class CronPromise:
    """A cron schedule in UTC that stood in the file from one moment to another."""

    schedule: str
    expression: str
    since: datetime
    until: datetime

    def instants(self) -> list[datetime]:
        """(since, until], whole seconds."""
        found: list[datetime] = []
        walk = croniter(self.expression, self.since.astimezone(UTC))
        while (instant := walk.get_next(datetime)) <= self.until:
            found.append(instant)
        return found


def all_beats(reader: SqliteReader, schedule: str) -> list[BeatRecord]:
    target, _, name = schedule.partition("/")
    return reader.beats(Filter(target=target, name=name or "default", limit=1_000_000))[::-1]


def all_runs(reader: SqliteReader) -> list[RunRecord]:
    return reader.runs(Filter(limit=1_000_000))


def check_cron(reader: SqliteReader, promise: CronPromise) -> None:
    """Every instant is in exactly one row, and every row is made of instants."""
    beats = [beat for beat in all_beats(reader, promise.schedule) if promise.since < beat.due_at <= promise.until]
    instants = promise.instants()
    covered: Counter[datetime] = Counter()
    for beat in beats:
        inside = [instant for instant in instants if beat.due_at <= instant <= beat.last_due_at]
        assert len(inside) == beat.count, f"{promise.schedule}: {beat} counts {beat.count}, there are {len(inside)}"
        covered.update(inside)
    missing = [instant for instant in instants if not covered[instant]]
    doubled = [instant for instant in instants if covered[instant] > 1]
    assert not missing, f"{promise.schedule}: nothing says what became of {missing[:3]}"
    assert not doubled, f"{promise.schedule}: accounted for twice: {doubled[:3]}"


def check_reasons(reader: SqliteReader, schedule: str) -> None:
    for beat in all_beats(reader, schedule):
        assert beat.reason or beat.outcome not in NEEDS_REASON, f"{beat} has no reason"


def check_interval(reader: SqliteReader, schedule: str, every: timedelta) -> None:
    """Each beat but the first is due its interval (or its backoff) after an earlier one was over, never before."""
    beats = all_beats(reader, schedule)
    for earlier, later in pairwise(beats):
        assert earlier.outcome in SETTLED, f"{earlier} is open, and {later} follows"
        assert earlier.settled_at is not None
        assert later.due_at >= earlier.settled_at, f"{later} was due before {earlier} was settled"
        assert later.due_at - earlier.settled_at >= min(every, later.due_at - earlier.settled_at)


def check_runs(reader: SqliteReader) -> None:
    """At most one run per attempt at a beat, and no run without its beat."""
    attempts = Counter((run.beat_id, run.attempt) for run in all_runs(reader))
    doubled = [pair for pair, count in attempts.items() if count > 1]
    assert not doubled, f"started twice: {doubled[:3]}"
