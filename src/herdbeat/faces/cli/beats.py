"""`herdbeat beats`: every due instant and what became of it, the newest first."""

from functools import partial

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord
from herdbeat.domain.run import RunStatus
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import beat_symbol, format_cause, format_time
from herdbeat.faces.cli.pages import ListingSpec, PageRequest, parse_choice, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import Context
from herdbeat.service.objects import serialize_beat
from herdbeat.service.questions import resolve_history_filter
from herdbeat.store.reader import Filter


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
