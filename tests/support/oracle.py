"""The oracle: computes every due instant with a second cron implementation, and compares the ledger with it.

It shares no code with the scheduler: its only inputs are the schedules in the files, and the rows of the ledger. No
instant may be missing, none may be recorded twice, and every one that did not run has its reason.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from croniter import croniter

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import ActiveHours
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.store.reader import Filter, Reader

SETTLED_OUTCOMES = {BeatOutcome.RAN, BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED}
MANUAL_DEDUP_PREFIXES = ("manual:", "backfill:")
"""The prefixes of dedup ids of beats that the clock did not make."""

OUTCOMES_WITH_REASON = {BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED, BeatOutcome.PENDING}


@dataclass(frozen=True, slots=True)
class CronExpectation:
    """A cron schedule in UTC that was configured from one time to another."""

    schedule: str
    expression: str
    since: datetime
    until: datetime

    def instants(self) -> list[datetime]:
        """Return the instants in (since, until], in whole seconds."""
        return _open_walk(self.expression, self.since.astimezone(UTC)).find_until(self.until)


class _Walk:
    """The instants of a cron after a time, as far as they were asked for. A state machine asks after every step."""

    def __init__(self, expression: str, since: datetime) -> None:
        self._walk = croniter(expression, since)
        self._found: list[datetime] = [self._walk.get_next(datetime)]

    def find_until(self, end: datetime) -> list[datetime]:
        while self._found[-1] <= end:
            self._found.append(self._walk.get_next(datetime))
        return self._found[: bisect_right(self._found, end)]


_open_walk = lru_cache(maxsize=256)(_Walk)


def all_beats(reader: Reader, schedule: str) -> list[BeatRecord]:
    target, _, name = schedule.partition("/")
    return reader.beats(Filter(target=target, name=name or "default", limit=1_000_000))[::-1]


def all_runs(reader: Reader) -> list[RunRecord]:
    return reader.runs(Filter(limit=1_000_000))


def check_cron(reader: Reader, promise: CronExpectation) -> None:
    """Check that every instant is in exactly one row, and that every row consists of instants."""
    all_of_it = [beat for beat in all_beats(reader, promise.schedule) if promise.since < beat.due_at <= promise.until]
    instants = promise.instants()
    beats = [beat for beat in all_of_it if not beat.dedup_id.startswith(MANUAL_DEDUP_PREFIXES)]
    one_shots = [beat for beat in beats if _is_one_shot(beat) and beat.due_at not in instants]
    assert all(beat.count == 1 for beat in one_shots), f"{promise.schedule}: a hint counts as several instants"
    beats = [beat for beat in beats if beat not in one_shots]
    covered: Counter[datetime] = Counter()
    for beat in beats:
        inside = [instant for instant in instants if beat.due_at <= instant <= beat.last_due_at]
        assert len(inside) == beat.count, f"{promise.schedule}: {beat} counts {beat.count}, there are {len(inside)}"
        covered.update(inside)
    missing = [instant for instant in instants if not covered[instant]]
    doubled = [instant for instant in instants if covered[instant] > 1]
    assert not missing, f"{promise.schedule}: nothing says what became of {missing[:3]}"
    assert not doubled, f"{promise.schedule}: accounted for twice: {doubled[:3]}"


def _is_one_shot(beat: BeatRecord) -> bool:
    """Return whether a hint asked for this beat. One that came late is caught up: only its origin tells then."""
    return beat.source is Source.AI_ONESHOT or (beat.source is Source.CATCH_UP and beat.origin != "")


def check_reasons(reader: Reader, schedule: str) -> None:
    for beat in all_beats(reader, schedule):
        assert beat.reason or beat.outcome not in OUTCOMES_WITH_REASON, f"{beat} has no reason"


_UNCONDITIONAL_REASONS = frozenset(
    {SkipReason.PAUSED, SkipReason.DISABLED, SkipReason.BY_REQUEST, SkipReason.CONFIG_ERROR}
)
"""Reasons that occur inside the active hours and outside."""


def check_hours(reader: Reader, schedule: str, hours: ActiveHours) -> None:
    """Check that instants outside the active hours did not run and were not missed, and those inside were not skipped.

    The window is computed again from the wall clock, without ActiveHours. A single instant may have been due inside
    and waited until the hours were over.
    """
    for beat in all_beats(reader, schedule):
        is_inside = [_is_within_hours(hours, instant) for instant in (beat.due_at, beat.last_due_at)]
        if beat.reason == SkipReason.INACTIVE_HOURS:
            assert not any(is_inside) or beat.count == 1, f"{beat} lay inside"
        elif beat.source.is_clock and beat.reason not in _UNCONDITIONAL_REASONS:
            assert all(is_inside), f"{beat} lay outside, and was not skipped as inactive_hours"


def _is_within_hours(hours: ActiveHours, instant: datetime) -> bool:
    local = instant.astimezone(hours.zone)
    minute, opens, closes = (each.hour * 60 + each.minute for each in (local, hours.opens, hours.closes))
    return (minute - opens) % 1_440 < ((closes - opens) % 1_440 or 1_440)


def check_interval(reader: Reader, schedule: str, every: timedelta) -> None:
    """Check that each beat but the first is due its interval (or its backoff) after an earlier one was settled."""
    beats = all_beats(reader, schedule)
    for earlier, later in pairwise(beats):
        assert earlier.outcome in SETTLED_OUTCOMES, f"{earlier} is open, and {later} follows"
        assert earlier.settled_at is not None
        assert later.due_at - earlier.settled_at >= every, f"{later} was due too soon after {earlier} was settled"


UNCERTAIN_STATUSES = {RunStatus.INTERRUPTED, RunStatus.CANCELLED}
"""Runs that were cut off: the ledger has them before their program starts, so the target may not have seen them."""


def check_starts(reader: Reader, schedule: str, starts: Iterable[str]) -> None:
    """Check that as many instants are called `ran` as the target has started, and that no other instant was started.

    `starts` are the lines of the target: the key of a beat and its attempt, for every start of any schedule.
    """
    target, _, name = schedule.partition("/")
    prefix = f"{target}/{name or 'default'}:"
    seen = Counter(start.removeprefix(prefix) for start in starts if start.startswith(prefix))
    runs = {run.id: run for run in all_runs(reader)}
    for beat in all_beats(reader, schedule):
        attempts = [runs[run_id] for run_id in beat.runs]
        started = [run for run in attempts if seen.pop(f"{run.dedup_id} {run.attempt}", 0)]
        certain = [run for run in attempts if run.status not in UNCERTAIN_STATUSES | {RunStatus.SKIPPED}]
        unseen = [run for run in certain if run not in started]
        assert not unseen, f"the target never saw {unseen[0]} of {beat}"
        if beat.outcome is BeatOutcome.RAN:
            assert beat.count == 1, f"{beat} calls {beat.count} instants ran, and the target saw {len(started)} starts"
            assert started or len(certain) < len(attempts), f"{beat} is called ran, and the target never saw it"
        elif beat.outcome in SETTLED_OUTCOMES:
            assert not started, f"{beat} was started all the same"
    assert not seen, f"{schedule}: the ledger knows nothing of {list(seen)[:3]}"


def check_runs(reader: Reader) -> None:
    """Check that there is at most one run per attempt at a beat, and that a beat with a run is one instant."""
    ranges = [beat for beat in reader.beats(Filter(limit=1_000_000)) if beat.count > 1]
    with_runs = [beat for beat in ranges if beat.runs or beat.outcome not in SETTLED_OUTCOMES]
    assert not with_runs, f"one run stands for several instants: {with_runs[:3]}"
    attempts = Counter((run.beat_id, run.attempt) for run in all_runs(reader))
    doubled = [pair for pair, count in attempts.items() if count > 1]
    assert not doubled, f"started twice: {doubled[:3]}"
