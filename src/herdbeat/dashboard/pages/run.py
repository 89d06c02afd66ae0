"""The page of one run: what it said first, then why it ran, what happened inside, its log, its response, its cost."""

import json
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from markupsafe import Markup

from herdbeat.dashboard.app import PageContext
from herdbeat.dashboard.charts import Bar, ChartSpan, MarkState, Row, draw_waterfall
from herdbeat.dashboard.hidden_prompts import show_prompt
from herdbeat.dashboard.render import PageFrame, first_line, format_count, render, render_ansi
from herdbeat.domain.agent_run import AgentStep
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.errors import NotFound
from herdbeat.redaction import redact
from herdbeat.service.queries.agents import read_sessions
from herdbeat.service.queries.details import RunView, find_details, find_target
from herdbeat.service.queries.explain import load_run_explanation
from herdbeat.service.queries.logs import read_output
from herdbeat.service.queries.response_fields import ResponseRow, iter_tree
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.service.queries.status import find_record

MAX_LOG_LINES = 2_000
MAX_FIELDS = 300
MAX_STEPS = 60
MAX_SESSIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLogLine:
    number: int
    stream: str
    html: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseField:
    """A row of a response. `before` is what the run before it answered there, if that differs."""

    key: str
    depth: int
    value: str
    parts: int
    before: str | None
    is_gone: bool


def show_run(context: PageContext) -> str:
    frame, reader = context.frame, context.reader
    run_id = context.path["run"]
    view = find_details(reader, f"run:{run_id}", frame.now)
    if not isinstance(view, RunView):
        raise NotFound(f'There is no run "{run_id[:20]}".', hint="It may have been pruned.")
    run = view.run
    lines, left_out = _read_log(context, run)
    fields, has_before = _compare_responses(context, view)
    schedule = find_record(reader, run.schedule)
    return render(
        "run.html",
        frame,
        view=view,
        run=run,
        why=load_run_explanation(reader, run, frame.now, context.handle.zone),
        lines=lines,
        left_out=left_out,
        is_running=run.status is RunStatus.RUNNING and context.is_running,
        waterfall=_draw_steps(view, frame),
        max_steps=MAX_STEPS,
        fields=fields[:MAX_FIELDS],
        is_cut=len(fields) > MAX_FIELDS,
        changed=sum(each.before is not None for each in fields),
        has_before=has_before,
        session_command=_find_session_command(context, view),
        record=schedule,
        kind="" if schedule is None else find_target(reader, schedule.target, frame.now).target.kind,
        again_prompt="" if schedule is None else _find_prompt(context, view, schedule),
    )


def _read_log(context: PageContext, run: RunRecord) -> tuple[list[ShownLogLine], int]:
    """Return the last lines of the log, and how many come before them."""
    output = read_output(context.reader, context.handle.state_dir, run.id)
    left_out = max(0, len(output) - MAX_LOG_LINES)
    lines = [
        ShownLogLine(number=number, stream=str(line.stream), html=render_ansi(redact(line.text)))
        for number, line in enumerate(output[left_out:], start=left_out + 1)
    ]
    return lines, left_out


def _draw_steps(view: RunView, frame: PageFrame) -> Markup | None:
    steps = view.agent.steps if view.agent is not None else ()
    if not steps:
        return None
    end = view.run.finished_at or frame.now
    span = ChartSpan(view.run.began_at, max(end, view.run.began_at + timedelta(milliseconds=100)))
    rows = [_build_step_row(step, end) for step in steps[:MAX_STEPS]]
    alt = f"{format_count(len(steps), 'step')} of the run: {', '.join(step.name for step in steps[:10])}"
    return Markup(draw_waterfall(rows, span, frame.zone, alt))  # noqa: S704 -- svg.py escapes every text


def _build_step_row(step: AgentStep, end: datetime) -> Row:
    ended = step.ended_at or end
    state = MarkState.FAILED if step.ok is False else MarkState.OK if step.ended_at else MarkState.RUNNING
    detail = first_line(redact(step.detail), 80)
    title = f"{step.name} {detail} {format_elapsed(max(ended - step.started_at, timedelta(0)))}"
    return Row(f"{step.name} {detail}".strip(), (Bar(step.started_at, ended, state, title),))


def _compare_responses(context: PageContext, view: RunView) -> tuple[list[ResponseField], bool]:
    """Return the response as the rows of a tree with what differs from the run before, and whether there was one."""
    response = view.details.response
    if response is None:
        return [], False
    schedule = find_schedule(context.reader, view.run.schedule)
    previous = context.reader.past_runs(schedule.id, before=view.run.id, limit=1)
    has_before = bool(previous) and previous[0].response is not None
    rows = iter_tree(response, previous[0].response if has_before else response)
    return [_describe_row(row) for row in islice(rows, 1, MAX_FIELDS + 2)], has_before


def _describe_row(row: ResponseRow) -> ResponseField:
    value = "" if row.is_gone or row.parts else _format(row.value)
    before = None
    if row.differs:
        before = "was not there" if row.is_new else _format(row.before)
    return ResponseField(key=row.key, depth=row.depth, value=value, parts=row.parts, before=before, is_gone=row.is_gone)


def _format(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return redact(text if len(text) <= 2_000 else f"{text[:2_000]}…")


def _find_session_command(context: PageContext, view: RunView) -> str:
    if not view.run.session:
        return ""
    sessions = read_sessions(
        context.reader, view.run.schedule, MAX_SESSIONS, state_dir=context.handle.state_dir, environ=os.environ
    )
    return next((each.open_command for each in sessions if each.record.session_id == view.run.session), "")


def _find_prompt(context: PageContext, view: RunView, schedule: ScheduleRecord) -> str:
    """Return what to run again: the prompt that was given for this run, or that of its schedule. Both are templates."""
    if view.request is not None and view.request.prompt:
        return show_prompt(view.request.prompt)
    return show_prompt(context.reader.run_specs([schedule.id])[schedule.id].prompt or "")
