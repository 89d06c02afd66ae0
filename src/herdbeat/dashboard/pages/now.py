"""The page Now: what runs, what is late, what failed, what needs a person, what comes next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from herdbeat.bootstrap.handle import Filter, Reader
from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import Bar, ChartSpan, MarkState, Row, draw_timeline
from herdbeat.dashboard.labels import OUTCOME_LABELS, STATUS_LABELS, mark_of_beat
from herdbeat.dashboard.render import PageFrame, render
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import RunRecord, ScheduleRecord, TimelineSpan
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.service.queries.attention import AttentionCause, AttentionItem, read_attention
from herdbeat.service.queries.status import FleetStatus, RunInProgress, read_status

MAX_UPCOMING = 10
MAX_SHOWN = 10
"""Lines of a list; the rest is counted, with a link to all of it."""
MAX_HOUR_ROWS = 10
MAX_HOUR_SPANS = 2_000
MAX_ANSWERS = 5
ANSWER_SCAN_RUNS = 100
LAST_HOUR = timedelta(hours=1)
MIN_HOUR_PART = timedelta(minutes=2)
PLANNED_SHARE = 1 / 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """An active run. `percent` is its share of the longest usual duration; None while that is unknown."""

    run: RunRecord
    elapsed: timedelta
    usual: str
    percent: int | None

    @property
    def is_over(self) -> bool:
        return self.percent is not None and self.percent > 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGroup:
    cause: AttentionCause
    items: tuple[AttentionItem, ...]
    total: int


def show_now(context: PageContext) -> str:
    frame, reader = context.frame, context.reader
    status = read_status(
        reader, frame.now, context.handle.holder_pid, zone=context.handle.zone, max_upcoming=MAX_UPCOMING
    )
    attention = read_attention(reader, status)
    groups = [
        AttentionGroup(cause=cause, items=found[:MAX_SHOWN], total=len(found))
        for cause in AttentionCause
        if (found := attention.of(cause))
    ]
    answers = _find_answers(reader)
    hour, hour_rows = _draw_hour(reader, status, frame)
    return render(
        "now.html",
        frame,
        status=status,
        groups=groups,
        missed=attention.missed,
        needs=len(attention.of(AttentionCause.NEEDS_YOU)),
        running=[_measure_progress(each, frame.now) for each in status.running[:MAX_SHOWN]],
        answers=answers,
        newest_run=max((each.id for each in answers), default=0),
        hour=hour,
        hour_rows=hour_rows,
        last_problem=attention.last_problem,
        all_paused=bool(status.held) and not reader.has_startable_schedule(frame.now),
    )


def _measure_progress(progress: RunInProgress, now: datetime) -> RunProgress:
    elapsed, typical = progress.run.elapsed(now), progress.typical_duration
    if typical is None:
        return RunProgress(run=progress.run, elapsed=elapsed, usual="", percent=None)
    low, high = (format_elapsed(each) for each in typical)
    usual = low if low == high else f"{low} to {high}"
    percent = round(100 * elapsed / max(typical[1], timedelta(milliseconds=1)))
    return RunProgress(run=progress.run, elapsed=elapsed, usual=usual, percent=percent)


def _find_answers(reader: Reader) -> list[RunRecord]:
    """Return the newest runs of agents that have something to say. Quiet ones are folded, failed ones are above."""
    runs = reader.runs(Filter(limit=ANSWER_SCAN_RUNS, include_declined=False))
    said = (each for each in runs if each.is_agent and each.summary and not each.quiet)
    return [each for each in said if each.status is RunStatus.SUCCEEDED][:MAX_ANSWERS]


def _draw_hour(reader: Reader, status: FleetStatus, frame: PageFrame) -> tuple[Markup, list[Row]]:
    now, since = status.now, status.now - LAST_HOUR
    records = _choose_rows(reader, status, since)
    found = reader.spans([each.id for each in records], since, now, MAX_HOUR_SPANS)
    if len(found) >= MAX_HOUR_SPANS:
        since = max(since, found[-1].due_at)  # a part without bars would say that nothing ran
    # The first minutes of a fleet should not be a thin line at the end of an empty hour.
    oldest = min((span.started_at or span.due_at for span in found), default=now)
    since = max(since, min(oldest, now - MIN_HOUR_PART))
    spans: dict[int, list[TimelineSpan]] = {}
    for span in found:
        spans.setdefault(span.schedule, []).append(span)
    rows = [build_row(record, spans.get(record.id, ()), frame) for record in records]
    period = ChartSpan(since, now + (now - since) * PLANNED_SHARE)
    alt = f"Runs since {frame.clock(since)}, {len(rows)} schedules; planned runs on the right of the line"
    return Markup(draw_timeline(rows, (), period, now, frame.zone, alt)), rows  # noqa: S704 -- svg.py escapes every text


def _choose_rows(reader: Reader, status: FleetStatus, since: datetime) -> list[ScheduleRecord]:
    """Return what fails and what runs next first: a chart of everything would show nothing."""
    wanted = [each.id for each in (*status.failing, *status.upcoming)]
    wanted += reader.active_schedules(since, MAX_HOUR_ROWS)
    ids = list(dict.fromkeys(wanted))[:MAX_HOUR_ROWS]
    found = {each.id: each for each in reader.schedules_by_id(ids)}
    return [found[each] for each in ids if each in found]


def build_row(record: ScheduleRecord, spans: Sequence[TimelineSpan], frame: PageFrame) -> Row:
    """Return the row of a schedule: what it did, and when it runs next."""
    bars = [*_build_bars(spans, frame)]
    if record.next_run_at is not None and record.next_run_at > frame.now:
        bars.append(_build_planned(record.next_run_at, frame))
    return Row(record.label, tuple(bars), frame.schedule_url(record.label))


def _build_planned(at: datetime, frame: PageFrame) -> Bar:
    return Bar(at, at, MarkState.PLANNED, f"planned {frame.clock(at)}")


def _build_bars(spans: Sequence[TimelineSpan], frame: PageFrame) -> Iterator[Bar]:
    for span in spans:
        state = mark_of_beat(span.outcome, span.status)
        if span.started_at is not None and span.status is not None:
            end = span.finished_at or frame.now
            word, took = STATUS_LABELS[span.status].word, format_elapsed(max(end - span.started_at, timedelta(0)))
            link = "" if span.run is None else frame.run_url(span.run)
            yield Bar(span.started_at, end, state, f"{frame.clock(span.started_at)} {word} {took}", link)
        elif span.outcome is not BeatOutcome.RUNNING:
            many = f" {span.number} times" if span.number > 1 else ""
            title = f"{frame.clock(span.due_at)} {OUTCOME_LABELS[span.outcome].word}{many}"
            yield Bar(span.due_at, max(span.last_due_at, span.due_at), state, title)
