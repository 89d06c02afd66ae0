"""Statistics of one schedule over a window: outcomes, success rate, waits, durations, lateness, pace and cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord, planned_start
from herdbeat.domain.run_status import RunStatus
from herdbeat.errors import UsageError
from herdbeat.store.reader import Filter, Reader
from herdbeat.triggers import Interval

WINDOWS = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
MAX_ROWS = 10_000
"""Beats and runs that are counted, the newest ones. `is_complete` says whether there were more."""

_ENDED = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStats:
    """What happened to a schedule in a window. Spans are in seconds, as their median and their 95th percentile.

    A wait is the time from the due instant to the start, lateness what of it the beat's own plan does not explain. A
    percentile between two values is as far between them, so that the median of two is their middle.
    """

    schedule: str
    window: str
    since: datetime
    until: datetime
    beats: Mapping[str, int]
    runs: Mapping[str, int]
    success_rate: float | None
    wait_s: Mapping[str, float | None]
    duration_s: Mapping[str, float | None]
    lateness_s: Mapping[str, float | None]
    nominal_interval_s: float | None
    effective_interval_s: float | None
    cost_usd: float | None
    is_complete: bool


def read_stats(reader: Reader, record: ScheduleRecord, window: str, now: datetime) -> ScheduleStats:
    """Raises UsageError for an unknown window."""
    if window not in WINDOWS:
        raise UsageError(f'"{window[:20]}" is not a window.', hint=f"Use one of {', '.join(WINDOWS)}.")
    since = now - WINDOWS[window]
    where = Filter(target=record.target, name=record.name, since=since, limit=MAX_ROWS)
    beats, runs = reader.beats(where), reader.runs(where)
    first = [run for run in runs if run.started_at and run.attempt == 1]
    return ScheduleStats(
        schedule=record.label,
        window=window,
        since=since,
        until=now,
        beats=_count_outcomes(beats),
        runs=dict(Counter(str(run.status) for run in runs)),
        success_rate=_compute_success_rate(runs),
        wait_s=_compute_percentiles([_seconds(run.due_at, run.began_at) for run in first]),
        duration_s=_compute_percentiles(
            [_seconds(r.started_at, r.finished_at) for r in runs if r.started_at and r.finished_at]
        ),
        lateness_s=_compute_percentiles(_list_lateness(reader, record, first)),
        nominal_interval_s=_find_nominal_interval(record),
        effective_interval_s=_find_effective_interval(runs),
        cost_usd=_read_cost(reader, record, runs),
        is_complete=max(len(beats), len(runs)) < MAX_ROWS,
    )


def _compute_success_rate(runs: Sequence[RunRecord]) -> float | None:
    ended = [run.status for run in runs if run.status in _ENDED]
    return round(ended.count(RunStatus.SUCCEEDED) / len(ended), 4) if ended else None


def _compute_percentiles(values: Sequence[float]) -> dict[str, float | None]:
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p95": None}
    return {"p50": _percentile(ordered, 0.5), "p95": _percentile(ordered, 0.95)}


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = (len(ordered) - 1) * share
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 3)


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def _list_lateness(reader: Reader, record: ScheduleRecord, runs: Sequence[RunRecord]) -> list[float]:
    """Return how long after its planned start each beat began: each has a jitter of its own, as its decision says."""
    if not runs:
        return []
    first = min(run.beat_id for run in runs)
    traces = dict(reader.beat_traces(record.id, first - 1, 2 * MAX_ROWS))
    return [max(0.0, _seconds(planned_start(traces.get(run.beat_id), run.due_at), run.began_at)) for run in runs]


def _find_nominal_interval(record: ScheduleRecord) -> float | None:
    trigger = record.plan.trigger
    return trigger.every.total_seconds() if isinstance(trigger, Interval) else None


def _find_effective_interval(runs: Sequence[RunRecord]) -> float | None:
    """The median distance between the starts of two runs that followed each other."""
    starts = sorted(run.began_at for run in runs if run.attempt == 1)
    return _compute_percentiles([_seconds(one, other) for one, other in pairwise(starts)])["p50"]


def _read_cost(reader: Reader, record: ScheduleRecord, runs: Sequence[RunRecord]) -> float | None:
    """What the newest runs reported; None if none reported a cost."""
    reported = [usage.get("usd") for usage in reader.last_usage(record.id, len(runs))] if runs else []
    known = [float(usd) for usd in reported if isinstance(usd, int | float)]
    return round(sum(known), 6) if known else None


def _count_outcomes(beats: Sequence[BeatRecord]) -> dict[str, int]:
    """Return how many instants had each outcome."""
    counted: Counter[str] = Counter()
    for beat in beats:
        counted[beat.outcome] += beat.count
    return dict(counted)
