"""The page of one schedule: why it runs when it does, what it did, and how to change it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice, pairwise, zip_longest
from zoneinfo import ZoneInfo

from markupsafe import Markup

from herdbeat.bootstrap.handle import Filter
from herdbeat.bootstrap.remote_specs import FilePatch, read_timing_patch
from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import (
    STRIP_MARKS,
    Band,
    ChartSpan,
    Point,
    Threshold,
    draw_cadence,
    draw_durations,
    draw_field,
    format_value,
)
from herdbeat.dashboard.edit_actions import describe_stored, load_stored, write_timing
from herdbeat.dashboard.labels import STATUS_LABELS, mark_of_status
from herdbeat.dashboard.pages.schedules import draw_beat_strip
from herdbeat.dashboard.render import PageFrame, render
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import HintRecord, RunRecord, ScheduleRecord
from herdbeat.domain.target import TargetKind, is_unmanaged
from herdbeat.durations import format_elapsed, humanize_short
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.service.queries.details import ScheduleView, find_details
from herdbeat.service.queries.explain import Explanation, load_instant_explanation, load_next_explanation
from herdbeat.service.queries.expressions import UpcomingRun, parse_expression
from herdbeat.service.queries.hints import classify_hints
from herdbeat.service.queries.response_fields import (
    find_thresholds,
    list_number_fields,
    list_rules,
    read_field_series,
)
from herdbeat.service.queries.schedules import summarize_schedules
from herdbeat.service.queries.selectors import find_changes, find_schedule
from herdbeat.service.queries.stats import WINDOWS, read_stats
from herdbeat.service.queries.status import estimate_duration
from herdbeat.service.queries.upcoming import iter_edited_runs, load_upcoming
from herdbeat.timestamps import parse_timestamp

CHARTED_RUNS = 120
SHOWN_RUNS = 12
SHOWN_BEATS = 12
PREVIEWED_RUNS = 5
MIN_SPAN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTable:
    """A chart, and the same as a table."""

    title: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    other_fields: tuple[str, ...] = ()
    """Fields of the responses that could be drawn instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePreview:
    """Another timing, before it is written: the next runs as they are and as they would be, and the patch.

    `error` says what is wrong with the timing, `refusal` why there is no patch.
    """

    text: str
    before: tuple[UpcomingRun, ...] = ()
    after: tuple[UpcomingRun, ...] = ()
    patch: FilePatch | None = None
    error: str = ""
    refusal: str = ""

    @property
    def rows(self) -> list[tuple[UpcomingRun | None, UpcomingRun | None]]:
        return list(zip_longest(self.before, self.after))


def show_schedule(context: PageContext) -> str:
    frame, reader, now = context.frame, context.reader, context.frame.now
    record = find_schedule(reader, f"{context.path['target']}/{context.path['name']}")
    view = find_details(reader, f"{record.target}/{record.name}", now)
    assert isinstance(view, ScheduleView)
    runs = reader.runs(Filter(target=record.target, name=record.name, limit=CHARTED_RUNS, include_declined=False))
    window = context.query.get("window", "24h")
    (summary,) = summarize_schedules(reader, [record], now, strip_length=STRIP_MARKS)
    why = load_next_explanation(reader, record, now, has_live_node=context.is_running)
    return render(
        "schedule.html",
        frame,
        view=view,
        record=record,
        summary=summary,
        why=why,
        because=_shorten_reason(why),
        past=_explain_past(context, record),
        strip=draw_beat_strip(summary.strip, record.label),
        charts=_draw_charts(context, record, runs),
        stats=read_stats(reader, record, window if window in WINDOWS else "24h", now),
        windows=tuple(WINDOWS),
        runs=runs[:SHOWN_RUNS],
        unusual=_find_unusual(context, record),
        hints=classify_hints(reader.hints([record.id], ended_since=now - timedelta(days=1), limit=20), now),
        rules=list_rules(record),
        rule_steps=reader.rule_steps(record.id),
        changes=find_changes(reader, f"{record.target}/{record.name}", since=None, before=None, limit=8),
        preview=_preview_change(context, record, context.query.get("timing", "")[:200]),
        form=describe_stored(load_stored(context.handle, record)) if is_unmanaged(record.origin) else None,
        has_prompt=view.target.kind is TargetKind.AGENT or bool(view.brief.prompt),
        timing=write_timing(record.plan.trigger),
    )


def _shorten_reason(why: Explanation) -> str:
    """Return why the next run is when it is. The panel's head has its time, which a script keeps current."""
    what, because, reason = why.text.partition(" because of ")
    has_head = why.next_run_at is not None and why.has_live_node
    return f"because of {reason}" if because and has_head and what.startswith("next run") else why.text


def _explain_past(context: PageContext, record: ScheduleRecord) -> object:
    """Return the explanation of the moment that the address asks about; None if it asks about none."""
    text = context.query.get("at", "")
    if not text:
        return None
    at = parse_timestamp(text)
    return load_instant_explanation(context.reader, record, at, context.frame.now, context.handle.zone)


def _find_unusual(context: PageContext, record: ScheduleRecord) -> list[object]:
    """Return the newest beats that did not run: no run shows them."""
    beats: list[object] = []
    for outcome in (BeatOutcome.MISSED, BeatOutcome.SKIPPED):
        where = Filter(target=record.target, name=record.name, outcome=outcome, limit=SHOWN_BEATS)
        beats += context.reader.beats(where)
    return sorted(beats, key=lambda beat: getattr(beat, "due_at"), reverse=True)[:SHOWN_BEATS]  # noqa: B009


def _draw_charts(context: PageContext, record: ScheduleRecord, runs: Sequence[RunRecord]) -> list[ChartTable]:
    frame, reader = context.frame, context.reader
    if not runs:
        return []
    span = ChartSpan(min(runs[-1].began_at, frame.now - MIN_SPAN), frame.now)
    hints = reader.hints([record.id], ended_since=span.start, limit=100)
    cadence = _draw_cadence(frame, record, runs, hints, span)
    # One run has no distance to another: its chart would be an empty frame.
    charts = [*([cadence] if cadence.rows else []), _draw_durations(frame, runs, span)]
    past = reader.past_runs(record.id, limit=CHARTED_RUNS)
    fields, thresholds = list_number_fields(past), find_thresholds(record)
    asked = context.query.get("field", "")
    ruled = [each.path for each in thresholds if each.path in fields]
    path = asked if asked in fields else next(iter([*ruled, *fields]), "")
    if path:
        series = read_field_series(past, path)
        lines = [Threshold(each.value, each.label) for each in thresholds if each.path == path]
        points = [Point(each.at, each.value, f"{frame.clock(each.at)}: {format_value(each.value)}") for each in series]
        alt = f"{path} over the last {len(points)} runs" + (
            f", with the thresholds {', '.join(f'{format_value(each.value)} ({each.label})' for each in lines)}"
            if lines
            else ""
        )
        svg = draw_field(points, lines, span, frame.zone, alt)
        charts.insert(
            0,
            ChartTable(
                title=path,
                svg=Markup(svg),  # noqa: S704 -- svg.py escapes every text
                columns=("time", path),
                rows=tuple((frame.clock(each.at), format_value(each.value)) for each in reversed(series)),
                other_fields=tuple(each for each in fields if each != path),
            ),
        )
    return charts


def _draw_cadence(
    frame: PageFrame,
    record: ScheduleRecord,
    runs: Sequence[RunRecord],
    hints: Sequence[HintRecord],
    span: ChartSpan,
) -> ChartTable:
    starts = sorted(run.began_at for run in runs if run.attempt == 1)
    points = [Point(one, max((other - one).total_seconds(), 0.001)) for one, other in pairwise(starts)]
    bands = [
        Band(
            each.created_at, min(each.ended_at or each.expires_at, span.end), f"{each.origin}: {each.reason or 'hint'}"
        )
        for each in hints
        if each.every is not None
    ]
    alt = f"Time between the runs of {record.label}, with hints as bands"
    svg = draw_cadence(points, bands, span, frame.zone, alt)
    rows = tuple((frame.clock(each.at), humanize_short(timedelta(seconds=each.value))) for each in reversed(points))
    note = "bands are hints" if bands else ""
    return ChartTable(title="cadence", svg=Markup(svg), columns=("run", "until the next"), rows=rows, note=note)  # noqa: S704


def _draw_durations(frame: PageFrame, runs: Sequence[RunRecord], span: ChartSpan) -> ChartTable:
    ended = [run for run in reversed(runs) if run.finished_at is not None]
    points = [
        Point(
            run.began_at,
            run.elapsed(frame.now).total_seconds(),
            f"{format_short_id(run.id)} {STATUS_LABELS[run.status].word} {format_elapsed(run.elapsed(frame.now))}",
            mark_of_status(run.status),
        )
        for run in ended
    ]
    usual = estimate_duration(ended)
    band = None if usual is None else (usual[0].total_seconds(), usual[1].total_seconds())
    svg = draw_durations(points, band, span, frame.zone, "Duration of each run; the band is the usual range")
    rows = tuple(
        (frame.clock(run.began_at), STATUS_LABELS[run.status].word, format_elapsed(run.elapsed(frame.now)))
        for run in reversed(ended)
    )
    return ChartTable(title="took", svg=Markup(svg), columns=("run", "result", "took"), rows=rows)  # noqa: S704


def _preview_change(context: PageContext, record: ScheduleRecord, text: str) -> ChangePreview | None:
    """Return what another timing would do, and the patch of the file that has it."""
    if not text.strip():
        return None
    now, zone = context.frame.now, record.plan.policies.zone
    try:
        trigger = parse_expression(text, ZoneInfo(zone.key))
    except HerdbeatError as error:
        return ChangePreview(text=text, error=f"{error.message} {error.hint}")
    if trigger is None:
        return ChangePreview(text=text, error='Write a duration such as "10m", or cron such as "0 9 * * 1-5".')
    name = f"{record.target}/{record.name}"
    upcoming = load_upcoming(
        context.reader, name, now, start=now, count=PREVIEWED_RUNS, has_live_node=context.is_running
    )
    plan = replace(record.plan, trigger=trigger)
    after = tuple(islice(iter_edited_runs(name, plan, now), PREVIEWED_RUNS))
    preview = ChangePreview(text=text, before=upcoming.instants, after=after)
    if not context.frame.visitor.can_operate:
        return preview  # the patch shows lines of the file
    try:
        patch = read_timing_patch(record.origin, trigger.kind.value, text.strip(), context.host.config_source)
    except UsageError as error:
        return replace(preview, refusal=f"{error.message} {error.hint}")
    return replace(preview, patch=patch)
