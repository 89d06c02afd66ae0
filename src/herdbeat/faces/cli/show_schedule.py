"""A schedule, or a target with its schedules, as `show` tells it."""

from datetime import datetime
from pathlib import Path

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.target import AgentSpec, CallableSpec, CommandSpec, EndpointSpec, Target
from herdbeat.durations import format_duration, format_elapsed
from herdbeat.faces.cli.facts import print_fields, print_headline, print_section
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import RUN_STATUS_SYMBOLS, format_time
from herdbeat.faces.cli.state_marks import (
    format_beat_marks,
    format_last_run,
    format_next_run,
    format_state,
    format_trigger,
)
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.times import format_full_time, format_time_left
from herdbeat.service.hints import HintView
from herdbeat.service.listing import NextRunKind, ScheduleSummary
from herdbeat.service.showing import ScheduleView, TargetView

MAX_PROMPT_CHARS = 200


def show_target_details(terminal: Terminal, handle: FleetHandle, shown: TargetView) -> None:
    target = shown.target
    capacity_text = f"{shown.running} of {target.max_concurrent} running"
    print_headline(terminal, target.name, target.kind, capacity_text)
    budget = f"{shown.budget}, shared by its schedules" if shown.budget else ""
    print_fields(terminal, [*_target_fields(target), ("budget", budget), ("written", shown.written_at)])
    rows = [
        [
            printable(each.record.label),
            printable(format_trigger(each)),
            format_state(terminal, each),
            format_last_run(each, handle.now),
            format_next_run(each, handle.now, handle.zone),
            format_beat_marks(terminal, each.strip),
        ]
        for each in shown.schedules
    ]
    print_section(terminal, "SCHEDULES", rows, shrink=(1, 0))


def show_schedule_details(terminal: Terminal, handle: FleetHandle, shown: ScheduleView) -> None:
    listed = shown.summary
    print_headline(
        terminal,
        listed.record.label,
        format_state(terminal, listed),
        printable(format_trigger(listed)),
        format_beat_marks(terminal, listed.strip),
    )
    print_fields(terminal, [*_target_fields(shown.target), *_schedule_fields(handle, shown)])
    print_section(terminal, "NEXT", _next_rows(handle, shown))
    hints = [_hint_row(handle, each) for each in shown.hints]
    print_section(terminal, "HINTS", hints, shrink=(4,))
    print_section(terminal, "LAST RUNS", [format_run_row(terminal, handle, each) for each in shown.runs], shrink=(3, 4))
    rows = [
        [each.key, printable(each.text), terminal.style("default", "dim") if each.is_default else ""]
        for each in shown.policies
    ]
    print_section(terminal, "POLICIES", rows, shrink=(1,))


def format_run_row(terminal: Terminal, handle: FleetHandle, run: RunRecord) -> list[str]:
    glyph, word, colour = RUN_STATUS_SYMBOLS[run.status]
    spent = format_elapsed(run.elapsed(handle.now)) + ("" if run.finished_at else "…")
    error = f" {' '.join(printable(run.error).split())}" if run.error else ""
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return [
        format_short_id(run.id),
        format_time(run.began_at, handle.now, handle.zone),
        spent,
        terminal.style(f"{glyph} {word}{error}", colour),
        printable(f"{run.source} {run.origin}".strip() + attempt),
    ]


def _target_fields(target: Target) -> list[tuple[str, str]]:
    match target.spec:
        case CommandSpec() as spec:
            return [("command", " ".join(spec.command)), ("in", _format_folder(spec.working_directory))]
        case EndpointSpec() as spec:
            return [("request", f"{spec.method} {spec.url}")]
        case CallableSpec() as spec:
            return [("calls", spec.call)]
        case AgentSpec() as spec:
            runtime_text = f"{spec.runtime} {spec.model or ''}".strip()
            return [
                ("agent", runtime_text),
                ("command", " ".join(spec.command)),
                ("in", _format_folder(spec.working_directory)),
            ]


def _format_folder(written: str) -> str:
    """Each node has the fleet's folder in a place of its own, so that one is not named."""
    if Path(written).is_absolute():
        return written
    return "the fleet's folder" if written == "." else f"{written} (from the fleet's folder)"


def _schedule_fields(handle: FleetHandle, shown: ScheduleView) -> list[tuple[str, str]]:
    record = shown.summary.record
    failures = f"{record.failures} in a row: {record.last_error or 'no words'}" if record.failures else ""
    return [
        ("prompt", _truncate_prompt(shown.brief.prompt or "")),
        ("written", record.origin),
        ("paused", _format_pause(handle, shown.summary)),
        ("disabled", f"by {record.disabled_by}" if record.disabled_by else "" if record.enabled else "in its file"),
        ("broken", record.quarantine or ""),
        ("failures", failures),
        ("skips", _format_skips(shown.summary)),
        ("last", format_last_run(shown.summary, handle.now).strip("—")),
    ]


def _format_pause(handle: FleetHandle, each: ScheduleSummary) -> str:
    record = each.record
    if not record.paused:
        return ""
    until = format_next_run(each, handle.now, handle.zone) if record.paused_until else "it is resumed"
    reason = f": {record.paused_reason}" if record.paused_reason else ""
    return f"until {until}, by {record.paused_by or 'somebody'}{reason}"


def _format_skips(each: ScheduleSummary) -> str:
    record = each.record
    if not record.skips:
        return ""
    what = "the next beat" if record.skips == 1 else f"the next {record.skips} beats"
    return f"{what}, by {record.skips_by or 'somebody'}" + (f": {record.skips_reason}" if record.skips_reason else "")


def _next_rows(handle: FleetHandle, shown: ScheduleView) -> list[list[str]]:
    """Its next times; where there is none to know, the word for it."""
    listed = shown.summary
    if listed.next is not NextRunKind.AT:
        first = [[format_next_run(listed, handle.now, handle.zone), _format_optional_time(handle, listed.at), ""]]
        return (
            first
            if listed.next is not NextRunKind.RESUMES
            else [[*first[0][:2], "the pause ends"], *_upcoming_rows(handle, shown)]
        )
    return _upcoming_rows(handle, shown)


def _upcoming_rows(handle: FleetHandle, shown: ScheduleView) -> list[list[str]]:
    source = shown.summary.record.next_source or ""
    return [
        [
            format_time_left(at, handle.now),
            _format_optional_time(handle, at),
            "" if index or shown.summary.next is not NextRunKind.AT else source,
        ]
        for index, at in enumerate(shown.instants)
    ]


def _format_optional_time(handle: FleetHandle, at: datetime | None) -> str:
    return "" if at is None else format_full_time(at, handle.now, handle.zone)


def _hint_row(handle: FleetHandle, each: HintView) -> list[str]:
    hint = each.record
    what = (
        f"every {format_duration(hint.every)}"
        if hint.every is not None
        else f"at {_format_optional_time(handle, hint.at)}"
    )
    ends = f"until {format_time(hint.expires_at, handle.now, handle.zone)}"
    return [what, printable(hint.origin), ends, each.state, printable(hint.reason)]


def _truncate_prompt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_PROMPT_CHARS else f"{flat[:MAX_PROMPT_CHARS]}…"
