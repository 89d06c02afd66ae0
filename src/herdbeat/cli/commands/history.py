"""`herdbeat beats`, `changes` and `runs`: the history in the ledger, newest first."""

import json
import re
from functools import partial

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, is_cut_off, is_run_alive
from herdbeat.cli.output.pages import ListingSpec, list_page
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.symbols import (
    CUT_OFF_SYMBOL,
    RUN_STATUS_SYMBOLS,
    beat_symbol,
    format_cause,
    format_due,
    format_run_result,
    format_time,
    short_label,
)
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.service.queries.selectors import find_beats, find_changes, find_runs
from herdbeat.service.serialize import serialize_beat, serialize_change, serialize_run
from herdbeat.timestamps import parse_stored_timestamp

_TIMESTAMP_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")


def run_beats(args: ParsedArgs, context: Context) -> Output:
    outcome, result = args.value(flags.OUTCOME), args.value(flags.RESULT)
    spec = ListingSpec(
        noun="beats",
        find=partial(
            find_beats,
            selector=args.positional(0),
            outcome=BeatOutcome(outcome) if outcome else None,
            result=RunStatus(result) if result else None,
        ),
        as_object=serialize_beat,
        headings=["DUE", "SCHEDULE", "OUTCOME", "RESULT", "WHY", "RUN"],
        row=_beat_row,
        shrink=(4, 1, 3),
        is_open=lambda beat: beat.settled_at is None,
    )
    return list_page(args, context, spec)


def _beat_row(terminal: Terminal, handle: FleetHandle, beat: BeatRecord, *, is_brief: bool) -> list[str]:
    is_lost = beat.outcome is BeatOutcome.RUNNING and not is_run_alive(handle, beat.runs)
    glyph, colour = (CUT_OFF_SYMBOL[0], CUT_OFF_SYMBOL[2]) if is_lost else beat_symbol(beat)
    due = format_due(beat, handle.now, handle.zone)
    many = f" x{beat.count}" if beat.count > 1 else ""
    why = format_cause(beat.source, beat.origin, is_brief=is_brief)
    runs = " ".join(format_short_id(run) for run in beat.runs)
    word, result = (CUT_OFF_SYMBOL[1], "") if is_lost else (beat.outcome, printable(_beat_result(beat)))
    outcome = terminal.style(f"{glyph} {word}{many}", colour)
    return [due, printable(beat.schedule), outcome, result, why, runs]


def _beat_result(beat: BeatRecord) -> str:
    """Return how its last run ended, or why there was none; both while it waits for a retry."""
    result = "" if beat.result is None else RUN_STATUS_SYMBOLS[beat.result][1]
    return ", ".join(filter(None, (result, beat.reason)))


def run_changes(args: ParsedArgs, context: Context) -> Output:
    spec = ListingSpec(
        noun="changes",
        find=partial(find_changes, selector=args.positional(0)),
        as_object=serialize_change,
        headings=["WHEN", "WHO", "ACTION", "SCHEDULE", "DETAILS"],
        row=_change_row,
        shrink=(4, 3, 1),
    )
    return list_page(args, context, spec)


def _change_row(terminal: Terminal, handle: FleetHandle, change: Change, *, is_brief: bool) -> list[str]:  # noqa: ARG001
    at, subject = format_time(change.at, handle.now, handle.zone), printable(short_label(change.subject))
    differences = printable(_format_differences(handle, change.before, change.after))
    return [at, printable(change.who), change.what, subject, differences]


def _format_differences(handle: FleetHandle, before: ChangeData | None, after: ChangeData | None) -> str:
    """Return only what differs: `until 16:04 → 18:04`."""
    old, new = ({name: _format_value(handle, item) for name, item in (data or {}).items()} for data in (before, after))
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name, "") != new.get(name, "")]
    return ", ".join(_format_difference(name, old.get(name, ""), new.get(name, "")) for name in names)


def _format_difference(name: str, old_value: str, new_value: str) -> str:
    return f"{name} {old_value} → {new_value or '–'}" if old_value else f"{name} {new_value}"


def _format_value(handle: FleetHandle, value: object) -> str:
    """Return the value in words: empty for none, and times as on every other screen."""
    if value in (None, "", []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if _TIMESTAMP_PATTERN.fullmatch(value):
        return format_time(parse_stored_timestamp(value), handle.now, handle.zone)
    return value


def run_runs(args: ParsedArgs, context: Context) -> Output:
    status = args.value(flags.RUN_STATUS)
    spec = ListingSpec(
        noun="runs",
        find=partial(find_runs, selector=args.positional(0), status=RunStatus(status) if status else None),
        as_object=serialize_run,
        headings=["RUN", "SCHEDULE", "STARTED", "TOOK", "RESULT", "WHY"],
        row=_run_row,
        shrink=(5, 4, 1),
        cause=_run_cause,
        fold=_fold_quiet,
        describe_folded=_describe_quiet,
        is_open=lambda run: run.finished_at is None,
        default_count=20,
    )
    return list_page(args, context, spec)


def _fold_quiet(runs: list[RunRecord]) -> list[RunRecord]:
    """Leave out a quiet run if the next one of its schedule was quiet, too, whatever other schedules did between."""
    shown: list[RunRecord] = []
    newer: dict[str, RunRecord] = {}
    for run in runs:
        if not (run.quiet and run.schedule in newer and newer[run.schedule].quiet):
            shown.append(run)
        newer[run.schedule] = run
    return shown


def _describe_quiet(count: int) -> str:
    runs = format_count(count, "more quiet run")
    return f"Left out: {runs}, in which an agent had nothing to report. --json lists each."


def _run_row(terminal: Terminal, handle: FleetHandle, run: RunRecord, *, is_brief: bool) -> list[str]:
    is_lost = is_cut_off(handle, run)
    glyph, word, colour = CUT_OFF_SYMBOL if is_lost else RUN_STATUS_SYMBOLS[run.status]
    spent = "" if is_lost else format_elapsed(run.elapsed(handle.now)) + ("" if run.finished_at else "…")
    error = f": {_run_cause(run)}" if run.error and not is_brief else ""
    again = f"attempt {run.attempt}" if run.attempt > 1 else ""
    why = ", ".join(part for part in (format_cause(run.source, run.origin, is_brief=is_brief), again) if part)
    began = format_time(run.began_at, handle.now, handle.zone)
    quiet = ", quiet" if run.quiet else ""
    ended = word if is_lost else format_run_result(run)
    result = terminal.style(f"{glyph} {ended}{quiet}{error}", colour)
    return [format_short_id(run.id), printable(run.schedule), began, spent, result, why]


def _run_cause(run: RunRecord) -> str:
    return " ".join(printable(run.error or "").split())
