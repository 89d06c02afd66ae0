"""`herdbeat runs`: what was run, how long it took, how it ended and why it happened. The newest first."""

from functools import partial

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_elapsed
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.marks import RUN_STATUS_SYMBOLS, format_cause, format_run_result, format_time
from herdbeat.faces.cli.pages import ListingSpec, PageRequest, parse_choice, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import Context
from herdbeat.service.objects import serialize_run
from herdbeat.service.questions import resolve_history_filter
from herdbeat.store.reader import Filter


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
