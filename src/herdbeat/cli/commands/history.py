"""`herdbeat changes`: who changed what, the newest first."""

import json
import re
from functools import partial

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle
from herdbeat.cli.output.pages import ListingSpec, PageRequest, parse_choice, show_page
from herdbeat.cli.output.symbols import (
    RUN_STATUS_SYMBOLS,
    beat_symbol,
    format_cause,
    format_run_result,
    format_time,
    short_label,
)
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.service.queries.selectors import find_changes, resolve_history_filter
from herdbeat.service.serialize import serialize_beat, serialize_change, serialize_run
from herdbeat.store.reader import Filter
from herdbeat.timestamps import parse_timestamp

# `herdbeat beats`: every due instant and what became of it, the newest first.


def run_beats(args: ParsedArgs, context: Context) -> int:
    outcome = parse_choice(flags.OUTCOME, args.value(flags.OUTCOME), BeatOutcome)
    spec = ListingSpec(
        noun="beats",
        find=partial(_find_beats, args.positional(0), outcome),
        as_object=serialize_beat,
        headings=["DUE", "SCHEDULE", "OUTCOME", "REASON", "WHY", "RUN"],
        row=_beat_row,
        shrink=(4, 1, 3),
    )
    return show_page(args, context, spec)


def _find_beats(
    selector: str | None, outcome: BeatOutcome | None, handle: FleetHandle, page_request: PageRequest
) -> list[BeatRecord]:
    reader = handle.require_reader()
    target, name = resolve_history_filter(reader, selector)
    return reader.beats(
        Filter(
            target=target,
            name=name,
            outcome=outcome,
            since=page_request.since,
            before=page_request.before,
            limit=page_request.limit,
        )
    )


def _beat_row(terminal: Terminal, handle: FleetHandle, beat: BeatRecord, *, is_brief: bool) -> list[str]:
    glyph, colour = beat_symbol(beat)
    due = format_time(beat.due_at, handle.now, handle.zone)
    if beat.count > 1:
        due += f" to {format_time(beat.last_due_at, handle.now, handle.zone)}"
    many = f" x{beat.count}" if beat.count > 1 else ""
    why = format_cause(beat.source, beat.origin, is_brief=is_brief)
    runs = " ".join(format_short_id(run) for run in beat.runs)
    outcome = terminal.style(f"{glyph} {beat.outcome}{many}", colour)
    return [due, printable(beat.schedule), outcome, printable(_beat_reason(beat)), why, runs]


def _beat_reason(beat: BeatRecord) -> str:
    """Of a beat that ran and did not succeed, how it ended: a green tick there would be a lie."""
    has_failed = beat.outcome is BeatOutcome.RAN and beat.last_status not in (None, RunStatus.SUCCEEDED)
    return str(beat.last_status) if has_failed else beat.reason


_TIMESTAMP_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")


def run_changes(args: ParsedArgs, context: Context) -> int:
    spec = ListingSpec(
        noun="changes",
        find=partial(_find_changes, args.positional(0)),
        as_object=serialize_change,
        headings=["WHEN", "WHO", "WHAT", "OF", "HOW"],
        row=_change_row,
        shrink=(3, 4, 1),
    )
    return show_page(args, context, spec)


def _find_changes(selector: str | None, handle: FleetHandle, page_request: PageRequest) -> list[Change]:
    return find_changes(
        handle.require_reader(),
        selector,
        since=page_request.since,
        before=page_request.before,
        limit=page_request.limit,
    )


def _change_row(terminal: Terminal, handle: FleetHandle, change: Change, *, is_brief: bool) -> list[str]:  # noqa: ARG001
    when = format_time(change.at, handle.now, handle.zone)
    subject = printable(short_label(change.subject))
    return [
        when,
        printable(change.who),
        change.what,
        subject,
        printable(_format_differences(handle, change.before, change.after)),
    ]


def _format_differences(handle: FleetHandle, before: ChangeData | None, after: ChangeData | None) -> str:
    """Only what differs: `until 16:04 → 18:04`."""
    old, new = (
        {name: _format_value(handle, value) for name, value in (facts or {}).items()} for facts in (before, after)
    )
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name, "") != new.get(name, "")]
    return ", ".join(_format_difference(name, old.get(name, ""), new.get(name, "")) for name in names)


def _format_difference(name: str, old_value: str, new_value: str) -> str:
    return f"{name} {old_value} → {new_value or '–'}" if old_value else f"{name} {new_value}"


def _format_value(handle: FleetHandle, value: object) -> str:
    """Empty for what is not there, or says nothing. A moment is told as on every other screen."""
    if value in (None, "", []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return (
        format_time(parse_timestamp(value), handle.now, handle.zone) if _TIMESTAMP_PATTERN.fullmatch(value) else value
    )


# `herdbeat runs`: what was run, how long it took, how it ended and why it happened. The newest first.


def run_runs(args: ParsedArgs, context: Context) -> int:
    status = parse_choice(flags.RUN_STATUS, args.value(flags.RUN_STATUS), RunStatus)
    spec = ListingSpec(
        noun="runs",
        find=partial(_find_runs, args.positional(0), status),
        as_object=serialize_run,
        headings=["RUN", "SCHEDULE", "STARTED", "TOOK", "RESULT", "WHY"],
        row=_run_row,
        shrink=(5, 4, 1),
        default_count=20,
    )
    return show_page(args, context, spec)


def _find_runs(
    selector: str | None, status: RunStatus | None, handle: FleetHandle, page_request: PageRequest
) -> list[RunRecord]:
    reader = handle.require_reader()
    target, name = resolve_history_filter(reader, selector)
    return reader.runs(
        Filter(
            target=target,
            name=name,
            status=status,
            since=page_request.since,
            before=page_request.before,
            limit=page_request.limit,
            include_declined=status is not None,
        )
    )


def _run_row(terminal: Terminal, handle: FleetHandle, run: RunRecord, *, is_brief: bool) -> list[str]:
    glyph, _, colour = RUN_STATUS_SYMBOLS[run.status]
    spent = format_elapsed(run.elapsed(handle.now)) + ("" if run.finished_at else "…")
    error = f": {' '.join(printable(run.error).split())}" if run.error else ""
    again = f"attempt {run.attempt}" if run.attempt > 1 else ""
    why = ", ".join(part for part in (format_cause(run.source, run.origin, is_brief=is_brief), again) if part)
    return [
        format_short_id(run.id),
        printable(run.schedule),
        format_time(run.began_at, handle.now, handle.zone),
        spent,
        terminal.style(f"{glyph} {format_run_result(run)}{error}", colour),
        why,
    ]
