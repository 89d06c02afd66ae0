"""A timeline: what each schedule did in the last hours, read from the ledger, and drawn as a row of cells."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.records import ScheduleRecord, TimelineSpan
from herdbeat.domain.run_status import RunStatus
from herdbeat.service.queries.schedule_search import ScheduleSearch, find_outlines, load_records
from herdbeat.service.queries.schedules import find_schedules
from herdbeat.store.reader import Reader, ScheduleQuery

MAX_SCHEDULES = 10_000
MAX_SPANS = 50_000
MAX_COUNTED_FAILURES = 5_000
"""Failed runs of a period that are looked at, the newest; as many missed beats."""
MAX_DRAWN_FAILURES = 1_000
MAX_RUNS_OF_ROW = 50
"""Runs of one schedule that a timeline of many reads. Earlier ones are counted, not drawn."""


class Cell(StrEnum):
    """What a cell shows. If several things fall into one cell, the later member wins."""

    EMPTY = "empty"
    DOWN = "down"  # no scheduler ran
    SKIPPED = "skipped"
    MISSED = "missed"
    WAITING = "waiting"
    RAN = "ran"
    CUT_OFF = "cut_off"  # cancelled or interrupted
    RUNNING = "running"
    OVERLAP = "overlap"  # two runs of one schedule at the same time
    FAILED = "failed"
    NOW = "now"  # the end of a run that is still active


_CELL_PRIORITY = {cell: rank for rank, cell in enumerate(Cell)}
_CELL_BY_OUTCOME = {
    BeatOutcome.SKIPPED: Cell.SKIPPED,
    BeatOutcome.MERGED: Cell.SKIPPED,
    BeatOutcome.MISSED: Cell.MISSED,
    BeatOutcome.PENDING: Cell.WAITING,
}
_CELL_BY_STATUS = {
    RunStatus.FAILED: Cell.FAILED,
    RunStatus.TIMED_OUT: Cell.FAILED,
    RunStatus.CANCELLED: Cell.CUT_OFF,
    RunStatus.INTERRUPTED: Cell.CUT_OFF,
    RunStatus.SKIPPED: Cell.SKIPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A period, divided into cells of equal length."""

    since: datetime
    until: datetime
    cells: int

    def find_cell(self, moment: datetime) -> int:
        """Return the cell of a moment; one outside the period belongs to the first or the last cell."""
        share = (moment - self.since) / (self.until - self.since)
        return min(self.cells - 1, max(0, int(share * self.cells)))

    def covers(self, start: datetime, end: datetime) -> bool:
        return start <= self.until and end >= self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened since a moment. `left_out` counts the schedules beyond `max_rows`.

    `current_gap` is the time since the last node stopped, if none runs now.
    """

    since: datetime
    schedules: list[ScheduleRecord]
    spans: dict[int, list[TimelineSpan]]
    gaps: list[Gap]
    current_gap: Gap | None
    left_out: int
    is_cut: bool

    def list_spans(self, record: ScheduleRecord) -> list[TimelineSpan]:
        return self.spans.get(record.id, [])


def load_timeline(
    reader: Reader, names: Sequence[str], *, since: datetime, now: datetime, max_rows: int | None, has_live_node: bool
) -> Timeline:
    """Return what happened to the named schedules, or without names to all that were active. Raises NotFound."""
    if names:
        found = find_schedules(reader, ScheduleQuery(now=now, names=tuple(names), limit=MAX_SCHEDULES))
    else:
        found = reader.schedules_by_id(reader.active_schedules(since, MAX_SCHEDULES))
    records = found[:max_rows]
    newest_first = reader.spans((record.id for record in records), since, now, MAX_SPANS)
    current_gap = None if has_live_node else _find_current_gap(reader, now)
    spans: dict[int, list[TimelineSpan]] = {}
    for span in newest_first:
        spans.setdefault(span.schedule, []).append(_end_with_node(span, current_gap))
    return Timeline(
        since=since,
        schedules=[record for record in records if names or record.id in spans],
        spans=spans,
        gaps=[*reader.gaps(since), *([current_gap] if current_gap else [])],
        current_gap=current_gap,
        left_out=len(found) - len(records),
        is_cut=len(newest_first) >= MAX_SPANS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTimeline:
    """The schedules that had the most trouble since a moment, then the latest. `total` counts all that did something.

    `busy` says from when to when a schedule ran more often than its `spans` show.
    """

    schedules: list[ScheduleRecord]
    spans: dict[int, list[TimelineSpan]]
    busy: dict[int, tuple[datetime, datetime]]
    gaps: list[Gap]
    total: int


def load_worst_timeline(
    reader: Reader,
    search: ScheduleSearch,
    *,
    since: datetime,
    now: datetime,
    max_rows: int,
    has_live_node: bool,
    until: datetime | None = None,
) -> WorstTimeline:
    """Return at most `max_rows` schedules that a search finds, the worst first, however many there are.

    The worst had the most failed runs and missed instants; then come those that started something last. A period with
    an `until` is over: nothing that came later is in it.
    """
    failures = reader.failures_since(since, MAX_COUNTED_FAILURES, until)
    if until is None:
        latest = reader.latest_schedules(since, MAX_SCHEDULES)
    else:
        latest = reader.schedules_between(since, until, MAX_SCHEDULES)
    ranked = sorted(failures, key=lambda schedule: -failures[schedule])
    found = list(dict.fromkeys((*ranked, *latest)))
    if search.terms:
        wanted = {each.id for each in find_outlines(reader, search, now, has_live_node=has_live_node)}
        found = [each for each in found if each in wanted]
    records = load_records(reader, found[:max_rows], has_live_node=has_live_node)
    newest_first, cut = reader.recent_spans(
        [each.id for each in records], since, until, each=MAX_RUNS_OF_ROW, limit=MAX_DRAWN_FAILURES
    )
    spans: dict[int, list[TimelineSpan]] = {}
    for span in newest_first:
        spans.setdefault(span.schedule, []).append(span)
    current_gap = None if has_live_node else _find_current_gap(reader, now)
    first_runs = reader.first_runs(cut) if cut else {}
    return WorstTimeline(
        schedules=records,
        spans=spans,
        busy={each: (max(since, began), _find_oldest_success(spans[each])) for each, began in first_runs.items()},
        gaps=[
            gap
            for gap in (*reader.gaps(since), *([current_gap] if current_gap else []))
            if until is None or gap.from_at < until
        ],
        total=len(found),
    )


def _find_oldest_success(spans: Sequence[TimelineSpan]) -> datetime:
    """Failures are complete; of the others only the newest are there."""
    succeeded = [each.due_at for each in spans if each.status is RunStatus.SUCCEEDED]
    return min(succeeded, default=spans[-1].due_at)


def iter_thinned_spans(
    spans: Iterable[TimelineSpan], since: datetime, until: datetime, places: int
) -> Iterator[TimelineSpan]:
    """Yield one short span for each place of a row and outcome: hundreds of runs that share a pixel look like one."""
    width = (until - since) / places
    drawn: set[tuple[int, BeatOutcome, RunStatus | None]] = set()
    for span in spans:
        start = span.started_at or span.due_at
        end = (span.finished_at or until) if span.started_at else span.last_due_at
        place = (int((start - since) / width), span.outcome, span.status)
        if end - start < width and place in drawn:
            continue
        drawn.add(place)
        yield span


def _end_with_node(span: TimelineSpan, gap: Gap | None) -> TimelineSpan:
    """Return the run as the next start records it, if it is one that died with the last node."""
    if gap is None or span.status is not RunStatus.RUNNING or span.started_at is None:
        return span
    return span._replace(status=RunStatus.INTERRUPTED, finished_at=max(span.started_at, gap.from_at))


def _find_current_gap(reader: Reader, now: datetime) -> Gap | None:
    """Return the gap that the next start will record: it began when the last node stopped."""
    node = reader.last_node()
    if node is None:
        return None
    return Gap(from_at=node.stopped_at or node.seen_at, until=now, reason=MissedReason.SCHEDULER_DOWN)


def draw_row(spans: Iterable[TimelineSpan], scale: Scale, gaps: Sequence[Gap] = ()) -> list[Cell]:
    """Return the row of one schedule."""
    row = [Cell.EMPTY] * scale.cells
    for gap in gaps:
        _fill_cells(row, scale, gap.from_at, gap.until, Cell.DOWN)
    runs = []
    for span in spans:
        if span.started_at is not None and span.status is not None:
            runs.append((span.started_at, span.finished_at or scale.until))
            _draw_run(row, scale, span, span.started_at, span.status)
        elif span.outcome in _CELL_BY_OUTCOME:
            end = scale.until if span.outcome is BeatOutcome.PENDING else span.last_due_at
            _fill_cells(row, scale, span.due_at, end, _CELL_BY_OUTCOME[span.outcome])
    for (_, end), (start, other_end) in pairwise(sorted(runs)):
        if start < end:
            _fill_cells(row, scale, start, min(end, other_end), Cell.OVERLAP)
    return row


def choose_tick_step(length: timedelta, max_ticks: int) -> timedelta:
    """Return the shortest round distance between ticks that gives at most `max_ticks` of them."""
    minutes = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080)
    steps = [*(timedelta(seconds=each) for each in (5, 10, 15, 30)), *(timedelta(minutes=each) for each in minutes)]
    return next((step for step in steps if length / step <= max_ticks), length)


def _draw_run(row: list[Cell], scale: Scale, span: TimelineSpan, start: datetime, status: RunStatus) -> None:
    """Draw a bar as long as the run. Its last cell shows the result."""
    is_going = status is RunStatus.RUNNING
    end = scale.until if is_going else span.finished_at or start
    if not scale.covers(start, end):
        return
    _fill_cells(row, scale, start, end, Cell.RUNNING if is_going else Cell.RAN)
    _set_cell(row, scale.find_cell(end), Cell.NOW if is_going else _CELL_BY_STATUS.get(status, Cell.RAN))


def _fill_cells(row: list[Cell], scale: Scale, start: datetime, end: datetime, cell: Cell) -> None:
    if scale.covers(start, end):
        for index in range(scale.find_cell(start), scale.find_cell(end) + 1):
            _set_cell(row, index, cell)


def _set_cell(row: list[Cell], index: int, cell: Cell) -> None:
    if _CELL_PRIORITY[cell] > _CELL_PRIORITY[row[index]]:
        row[index] = cell
