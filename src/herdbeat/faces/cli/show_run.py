"""A run, or a beat with its runs, as `show` tells it."""

import json
from datetime import datetime, timedelta

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.durations import format_elapsed
from herdbeat.faces.cli.facts import print_fields, print_headline, print_section
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import RUN_STATUS_SYMBOLS, beat_symbol
from herdbeat.faces.cli.show_schedule import format_run_row
from herdbeat.faces.cli.terminal import Terminal, format_output_line
from herdbeat.faces.cli.times import format_full_time
from herdbeat.runners.log import LogStream
from herdbeat.runners.log_reader import LogLine, find_log, read_log, read_stored_log
from herdbeat.service.reasons import describe_skip
from herdbeat.service.showing import BeatView, RunView

TAIL_LINES = 20
MAX_RESPONSE_CHARS = 600


def show_run_details(terminal: Terminal, handle: FleetHandle, shown: RunView) -> None:
    run, details = shown.run, shown.details
    glyph, word, colour = RUN_STATUS_SYMBOLS[run.status]
    start, spent = run.began_at, format_elapsed(run.elapsed(handle.now))
    took = f"took {spent}" if run.finished_at else f"for {spent}"
    print_headline(
        terminal, f"{format_short_id(run.id)}  {run.schedule}", terminal.style(f"{glyph} {word}", colour), took
    )
    node = f"{details.host} (pid {details.pid}), herdbeat {details.version}" if details.host else ""
    facts = [
        ("why", f"{run.source} {run.origin}".strip() + (f", attempt {run.attempt}" if run.attempt > 1 else "")),
        ("due", _format_time(handle, run.due_at)),
        (
            "started",
            f"{_format_time(handle, start)}, {format_elapsed(max(start - run.due_at, timedelta(0)))} after that",
        ),
        ("ended", _format_time(handle, run.finished_at) if run.finished_at else "still going"),
        ("code", "" if run.code is None else str(run.code)),
        ("error", run.error or ""),
        ("summary", run.summary or ""),
        ("note", details.note),
        ("used", ", ".join(f"{name} {number:g}" for name, number in details.usage.items())),
        ("session", details.session),
        (
            "response",
            _truncate_response(json.dumps(details.response, ensure_ascii=False))
            if details.response is not None
            else "",
        ),
        ("beat", f"{format_short_id(run.beat_id)}, {run.dedup_id}"),
        ("node", node),
        ("log", find_log_path(handle, run) or _explain_missing_log(handle, shown)),
    ]
    print_fields(terminal, facts)
    if len(shown.attempts) > 1:
        print_section(
            terminal, "ATTEMPTS", [format_run_row(terminal, handle, each) for each in shown.attempts], shrink=(3, 4)
        )
    _show_output_tail(terminal, handle, run)
    terminal.print()
    terminal.print(terminal.style(f"why?  herdbeat explain {format_short_id(run.id)}", "dim"))


def show_beat_details(terminal: Terminal, handle: FleetHandle, shown: BeatView) -> None:
    beat = shown.beat
    glyph, colour = beat_symbol(beat)
    many = f" x{beat.count}" if beat.count > 1 else ""
    outcome = terminal.style(f"{glyph} {beat.outcome}{many}", colour)
    print_headline(terminal, f"beat {format_short_id(beat.id)}  {beat.schedule}", outcome)
    print_fields(
        terminal,
        [
            ("due", _format_time(handle, beat.due_at)),
            ("to", _format_time(handle, beat.last_due_at) if beat.count > 1 else ""),
            ("reason", _format_reason(beat)),
            ("why", f"{beat.source} {beat.origin}".strip()),
            ("dedup", beat.dedup_id),
            ("settled", _format_time(handle, beat.settled_at) if beat.settled_at else "not yet"),
        ],
    )
    print_section(terminal, "RUNS", [format_run_row(terminal, handle, each) for each in shown.runs], shrink=(3, 4))


def find_log_path(handle: FleetHandle, run: RunRecord) -> str | None:
    """None for a run that has printed nothing, or whose log was pruned."""
    path = find_log(handle.state_dir, run.id)
    return None if path is None else str(path)


def _explain_missing_log(handle: FleetHandle, shown: RunView) -> str:
    if handle.require_reader().run_output(shown.run.id) is None:
        return "it has printed nothing" + (" yet" if shown.run.finished_at is None else "")
    return f"all of it is on {shown.details.host}"


def _show_output_tail(terminal: Terminal, handle: FleetHandle, run: RunRecord) -> None:
    lines = _read_output(handle, run)
    if not lines:
        return
    left_out = f", the last {TAIL_LINES} of {len(lines)} lines" if len(lines) > TAIL_LINES else ""
    terminal.print()
    terminal.print(terminal.style(f"OUTPUT{left_out}", "bold"))
    for line in lines[-TAIL_LINES:]:
        colour = {LogStream.ERR: "yellow", LogStream.NOTE: "dim"}.get(line.stream)
        mark = "!" if line.stream is LogStream.ERR else " "
        text = f"  {mark} {format_output_line(line.text)}"
        terminal.print(terminal.style(text, colour) if colour else text)


def _read_output(handle: FleetHandle, run: RunRecord) -> list[LogLine]:
    path = find_log(handle.state_dir, run.id)
    if path is not None:
        return read_log(path)
    kept = handle.require_reader().run_output(run.id)  # of a run of another node
    return [] if kept is None else read_stored_log(kept)


def _format_reason(beat: BeatRecord) -> str:
    words = describe_skip(beat.reason)
    return beat.reason if words == beat.reason else f"{beat.reason}: {words}"


def _format_time(handle: FleetHandle, moment: datetime) -> str:
    return format_full_time(moment, handle.now, handle.zone)


def _truncate_response(text: str) -> str:
    return text if len(text) <= MAX_RESPONSE_CHARS else f"{text[:MAX_RESPONSE_CHARS]}…"
