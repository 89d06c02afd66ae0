"""`herdbeat show`: everything about one target, schedule, run or beat."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import assert_never

from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, is_cut_off, open_fleet_handle
from herdbeat.cli.output.details import field_lines, headline, section_lines
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.schedule_cells import format_last_run, format_next_run, schedule_row
from herdbeat.cli.output.symbols import CUT_OFF_SYMBOL, RUN_STATUS_SYMBOLS, beat_symbol, format_cause, format_time
from herdbeat.cli.output.terminal import Terminal, format_output_line, printable
from herdbeat.cli.output.time_format import format_full_time, format_time_left
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.agent_records import AgentRunRecord
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.outbox import DeliveryRecord
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.domain.target import AgentSpec, CallableSpec, CommandSpec, EndpointSpec, Target
from herdbeat.durations import format_duration, format_elapsed
from herdbeat.redaction import redact, redact_arguments
from herdbeat.service.queries.details import BeatView, DetailView, RunView, ScheduleView, TargetView, find_details
from herdbeat.service.queries.explain import describe_executor
from herdbeat.service.queries.gates import describe_skip
from herdbeat.service.queries.hints import HintView
from herdbeat.service.queries.logs import find_log_path, read_output
from herdbeat.service.queries.run_requests import describe_request
from herdbeat.service.queries.schedule_state import describe_window, is_fired
from herdbeat.service.queries.schedules import NextRunKind, ScheduleSummary
from herdbeat.service.serialize import JsonObject, serialize_details

MAX_PROMPT_CHARS = 200
MAX_RESPONSE_CHARS = 600
TAIL_LINES = 20

_STREAM_STYLES = {"out": (" ", ""), "err": ("!", "yellow"), "note": (" ", "dim")}


def run_show(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    has_live_node = handle.holder_pid is not None
    view = find_details(handle.require_reader(), args.positionals[0], handle.now, has_live_node=has_live_node)
    return Output(json=lambda: _details_object(handle, view), lines=_detail_lines(context.terminal, handle, view))


def _detail_lines(terminal: Terminal, handle: FleetHandle, view: DetailView) -> Iterator[str]:
    match view:
        case TargetView():
            return _target_lines(terminal, handle, view)
        case ScheduleView():
            return _schedule_lines(terminal, handle, view)
        case RunView():
            return _run_lines(terminal, handle, view)
        case BeatView():
            return _beat_lines(terminal, handle, view)
        case never:
            assert_never(never)


def _details_object(handle: FleetHandle, view: DetailView) -> JsonObject:
    log = {"log": find_log_path(handle.state_dir, view.run.id)} if isinstance(view, RunView) else {}
    return {**serialize_details(view), **log}


def _target_lines(terminal: Terminal, handle: FleetHandle, view: TargetView) -> Iterator[str]:
    target = view.target
    yield from headline(terminal, target.name, target.kind, f"{view.running} of {target.max_concurrent} running")
    budget = f"{view.budget}, shared by its schedules" if view.budget else ""
    yield from field_lines(terminal, [*_target_fields(target), ("budget", budget), ("defined in", view.written_at)])
    rows = [schedule_row(terminal, each, handle.now, handle.zone) for each in view.schedules]
    yield from section_lines(terminal, "SCHEDULES", rows, shrink=(1, 0))


def _schedule_lines(terminal: Terminal, handle: FleetHandle, view: ScheduleView) -> Iterator[str]:
    label, trigger, state, _, _, marks = schedule_row(terminal, view.summary, handle.now, handle.zone)
    yield from headline(terminal, label, state, trigger, marks)
    yield from field_lines(terminal, [*_target_fields(view.target), *_schedule_fields(handle, view)])
    yield from section_lines(terminal, "NEXT", _next_rows(handle, view))
    hints = [_hint_row(handle, each) for each in view.hints]
    yield from section_lines(terminal, "HINTS", hints, shrink=(4,))
    yield from _runs_section(terminal, handle, "LAST RUNS", view.runs)
    default = terminal.style("default", "dim")
    rows = [[each.key, printable(each.text), default if each.is_default else ""] for each in view.policies]
    yield from section_lines(terminal, "POLICIES", rows, shrink=(1,))


def _runs_section(terminal: Terminal, handle: FleetHandle, title: str, runs: Sequence[RunRecord]) -> Iterator[str]:
    return section_lines(terminal, title, [_run_row(terminal, handle, run) for run in runs], shrink=(4, 3))


def _run_row(terminal: Terminal, handle: FleetHandle, run: RunRecord) -> list[str]:
    is_lost = is_cut_off(handle, run)
    glyph, word, colour = CUT_OFF_SYMBOL if is_lost else RUN_STATUS_SYMBOLS[run.status]
    spent = "" if is_lost else format_elapsed(run.elapsed(handle.now)) + ("" if run.finished_at else "…")
    error = f" {' '.join(printable(run.error).split())}" if run.error else ""
    began = format_time(run.began_at, handle.now, handle.zone)
    result = terminal.style(f"{glyph} {word}{error}", colour)
    return [format_short_id(run.id), began, spent, result, printable(_format_run_cause(run))]


def _target_fields(target: Target) -> list[tuple[str, str]]:
    match target.spec:
        case CommandSpec() | AgentSpec() as spec:
            agent = f"{spec.runtime} {spec.model or ''}".strip() if isinstance(spec, AgentSpec) else ""
            folder = _format_folder(spec.working_directory)
            return [
                ("agent", agent),
                ("command", " ".join(map(str, redact_arguments(spec.command)))),
                ("folder", folder),
            ]
        case EndpointSpec() as spec:
            return [("request", f"{spec.method} {redact(spec.url)}")]
        case CallableSpec() as spec:
            return [("calls", spec.call)]


def _format_folder(written: str) -> str:
    """Return the folder; a relative one is not resolved, because each node has the fleet's folder elsewhere."""
    if Path(written).is_absolute():
        return written
    return "the fleet's folder" if written == "." else f"{written} (relative to the fleet's folder)"


def _schedule_fields(handle: FleetHandle, view: ScheduleView) -> list[tuple[str, str]]:
    record = view.summary.record
    failures = f"{record.failures} in a row: {record.last_error or 'no error message'}" if record.failures else ""
    failures = f"cannot start: {record.last_error}" if record.is_unable else failures
    return [
        ("prompt", _truncate(redact(" ".join((view.brief.prompt or "").split())), MAX_PROMPT_CHARS)),
        ("defined in", record.origin),
        ("paused", _format_pause(handle, view.summary)),
        *(("planned pause", describe_window(each, handle.zone)) for each in record.windows if each.until > handle.now),
        ("enabled", _format_fired(view.summary)),
        ("disabled", f"by {record.disabled_by}" if record.disabled_by else "" if record.enabled else "in its file"),
        ("broken", record.quarantine or ""),
        ("failures", failures),
        ("error", record.last_error or "" if record.retry_attempt is not None else ""),
        ("skips", _format_skips(view.summary)),
        ("last", format_last_run(view.summary, handle.now).strip("—")),
    ]


def _format_fired(each: ScheduleSummary) -> str:
    if not is_fired(each.record, each.state):
        return ""
    return f"false: it has fired. Re-arm it with: herdbeat enable {each.record.label}"


def _format_pause(handle: FleetHandle, each: ScheduleSummary) -> str:
    record = each.record
    if not record.paused:
        return ""
    until = format_next_run(each, handle.now, handle.zone) if record.paused_until else "resumed"
    reason = f": {record.paused_reason}" if record.paused_reason else ""
    return f"until {until}, by {record.paused_by or 'unknown'}{reason}"


def _format_skips(each: ScheduleSummary) -> str:
    record = each.record
    if not record.skips:
        return ""
    what = "the next beat" if record.skips == 1 else f"the next {record.skips} beats"
    return f"{what}, by {record.skips_by or 'unknown'}" + (f": {record.skips_reason}" if record.skips_reason else "")


def _next_rows(handle: FleetHandle, view: ScheduleView) -> list[list[str]]:
    """Return the next times; without one, the word for why not."""
    summary = view.summary
    if summary.next is NextRunKind.AT:
        return _upcoming_rows(handle, view)
    is_resuming = summary.next is NextRunKind.RESUMES
    when, at = format_next_run(summary, handle.now, handle.zone), _format_time(handle, summary.at)
    first = [when, at, "end of the pause" if is_resuming else ""]
    return [first, *(_upcoming_rows(handle, view) if is_resuming else [])]


def _upcoming_rows(handle: FleetHandle, view: ScheduleView) -> list[list[str]]:
    rows = [[format_time_left(at, handle.now), _format_time(handle, at), ""] for at in view.instants]
    if rows and view.summary.next is NextRunKind.AT:
        rows[0][2] = _format_next_cause(view.summary.record)
    return rows


def _format_next_cause(record: ScheduleRecord) -> str:
    return format_cause(record.next_source, record.next_origin or "") if record.next_source else ""


def _hint_row(handle: FleetHandle, view: HintView) -> list[str]:
    hint = view.record
    what = f"at {_format_time(handle, hint.at)}" if hint.every is None else f"every {format_duration(hint.every)}"
    ends = f"until {format_time(hint.expires_at, handle.now, handle.zone)}"
    return [what, printable(hint.origin), ends, view.state, printable(hint.reason)]


def _run_lines(terminal: Terminal, handle: FleetHandle, view: RunView) -> Iterator[str]:
    run = view.run
    is_lost = is_cut_off(handle, run)
    glyph, word, colour = CUT_OFF_SYMBOL if is_lost else RUN_STATUS_SYMBOLS[run.status]
    spent = format_elapsed(run.elapsed(handle.now))
    took = "" if is_lost else f"took {spent}" if run.finished_at else f"for {spent}"
    status = terminal.style(f"{glyph} {word}", colour)
    yield from headline(terminal, f"{format_short_id(run.id)}  {run.schedule}", status, took)
    yield from field_lines(terminal, _run_fields(handle, view))
    yield from _answer_lines(terminal, view.agent)
    yield from section_lines(terminal, "HOOKS", [_hook_row(handle, each) for each in view.hooks], shrink=(4,))
    if len(view.attempts) > 1:
        yield from _runs_section(terminal, handle, "ATTEMPTS", view.attempts)
    yield from _output_tail_lines(terminal, handle, run)
    yield ""
    yield terminal.style(f"why: herdbeat explain {format_short_id(run.id)}", "dim")


def _describe_open(handle: FleetHandle, run: RunRecord) -> str:
    return "with its node; the next start records it as interrupted" if is_cut_off(handle, run) else "still running"


def _hook_row(handle: FleetHandle, hook: DeliveryRecord) -> list[str]:
    tries = "" if hook.attempts <= 1 else f"{hook.attempts} attempts"
    when = format_time(hook.ended_at, handle.now, handle.zone) if hook.ended_at else ""
    return [
        printable(hook.name),
        str(hook.spec.get("type") or ""),
        str(hook.state),
        tries or when,
        printable(hook.error),
    ]


def _run_fields(handle: FleetHandle, view: RunView) -> list[tuple[str, str]]:
    run, details = view.run, view.details
    started, delay = run.began_at, max(run.began_at - run.due_at, timedelta(0))
    response = "" if details.response is None else json.dumps(details.response, ensure_ascii=False)
    node = f"{details.host} (pid {details.pid}), herdbeat {details.version}" if details.host else ""
    return [
        ("why", _format_run_cause(run)),
        *describe_request(view.request),
        ("item", _format_item(view)),
        ("due", _format_time(handle, run.due_at)),
        ("started", f"{_format_time(handle, started)}, {format_elapsed(delay)} after due time"),
        ("ended", _format_time(handle, run.finished_at) or _describe_open(handle, run)),
        ("code", "" if run.code is None else str(run.code)),
        ("error", run.error or ""),
        ("summary", run.summary or ""),
        ("note", details.note),
        ("needs you", "; ".join(run.open_needs)),
        ("used", ", ".join(f"{name} {number:,g}" for name, number in details.usage.items())),
        ("cost", _format_cost(run)),
        ("session", details.session),
        *_agent_fields(view.agent),
        ("response", _truncate(response, MAX_RESPONSE_CHARS)),
        ("beat", f"{format_short_id(run.beat_id)}, {run.dedup_id}"),
        ("runs on", describe_executor(details)),
        ("node", node),
        ("log", find_log_path(handle.state_dir, run.id) or _explain_missing_log(handle, view)),
    ]


def _format_cost(run: RunRecord) -> str:
    """Return `$0.12 (reported)`; a subscription's is what it would have cost."""
    if run.spend_source is None:
        return ""
    usd = run.usage.get("usd")
    notional = ", notional: the login is a subscription" if run.is_notional else ""
    return "unknown" if usd is None else f"${usd:,.4f} ({run.spend_source}{notional})"


def _agent_fields(agent: AgentRunRecord | None) -> list[tuple[str, str]]:
    if agent is None:
        return []
    calls = len(agent.steps) + agent.steps_left_out
    words = [word for word, is_set in (("quiet", agent.quiet), ("empty answer", agent.empty_answer)) if is_set]
    return [
        ("model", agent.model),
        ("account", agent.account),
        ("branch", agent.branch),
        ("error code", agent.error_code),
        ("turns", "" if agent.turns is None else str(agent.turns)),
        ("tool calls", str(calls) if calls else ""),
        ("marked", ", ".join(words)),
        ("prompt", _truncate(" ".join(agent.prompt.split()), MAX_PROMPT_CHARS)),
    ]


def _answer_lines(terminal: Terminal, agent: AgentRunRecord | None) -> Iterator[str]:
    if agent is None or not agent.answer:
        return
    yield ""
    yield terminal.style("ANSWER", "bold")
    for line in agent.answer.strip().splitlines():
        yield f"  {printable(line)}"


def _format_item(view: RunView) -> str:
    """Return the work item of the run, with its attempt; empty if it has none."""
    if view.item is None:
        return ""
    claim = view.item.claim
    attempt = f"attempt {claim.attempt} of {claim.max_attempts}"
    named = " ".join(text for text in (claim.item, claim.title if claim.title != claim.item else "") if text)
    return f"{printable(named)} ({claim.source}), {claim.state}, {attempt}"


def _format_run_cause(run: RunRecord) -> str:
    return format_cause(run.source, run.origin) + (f", attempt {run.attempt}" if run.attempt > 1 else "")


def _beat_lines(terminal: Terminal, handle: FleetHandle, view: BeatView) -> Iterator[str]:
    beat = view.beat
    glyph, colour = beat_symbol(beat)
    many = f" x{beat.count}" if beat.count > 1 else ""
    outcome = terminal.style(f"{glyph} {beat.outcome}{many}", colour)
    yield from headline(terminal, f"beat {format_short_id(beat.id)}  {beat.schedule}", outcome)
    fields = [
        ("due", _format_time(handle, beat.due_at)),
        ("to", _format_time(handle, beat.last_due_at) if beat.count > 1 else ""),
        ("result", beat.result or ""),
        ("reason", _format_reason(beat)),
        ("why", format_cause(beat.source, beat.origin)),
        *describe_request(view.request),
        ("dedup", beat.dedup_id),
        ("settled", _format_time(handle, beat.settled_at) or "not yet"),
    ]
    yield from field_lines(terminal, fields)
    yield from _runs_section(terminal, handle, "RUNS", view.runs)


def _explain_missing_log(handle: FleetHandle, view: RunView) -> str:
    if handle.require_reader().run_output(view.run.id) is None:
        return "no output" + (" yet" if view.run.finished_at is None else "")
    return f"the full log is on {view.details.host}"


def _output_tail_lines(terminal: Terminal, handle: FleetHandle, run: RunRecord) -> Iterator[str]:
    lines = read_output(handle.require_reader(), handle.state_dir, run.id)
    if not lines:
        return
    left_out = f" (last {TAIL_LINES} of {len(lines)} lines)" if len(lines) > TAIL_LINES else ""
    yield ""
    yield terminal.style(f"OUTPUT{left_out}", "bold")
    for line in lines[-TAIL_LINES:]:
        mark, colour = _STREAM_STYLES[line.stream]
        text = f"  {mark} {format_output_line(line.text)}"
        yield terminal.style(text, colour) if colour else text


def _format_reason(beat: BeatRecord) -> str:
    words = describe_skip(beat.reason)
    return beat.reason if words == beat.reason else f"{beat.reason}: {words}"


def _format_time(handle: FleetHandle, moment: datetime | None) -> str:
    return "" if moment is None else format_full_time(moment, handle.now, handle.zone)


def _truncate(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"
