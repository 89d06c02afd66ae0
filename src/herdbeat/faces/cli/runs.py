"""`herdbeat runs`: what was run, how long it took, how it ended and why it happened. The newest first."""

from functools import partial

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import measured_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import STATUSES, near_time, result_word, why_words
from herdbeat.faces.cli.pages import Listing, Window, one_of, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.objects import run_object
from herdbeat.service.questions import selected
from herdbeat.store.reader import Filter


def run(given: Given, world: World) -> int:
    status = one_of(flags.RUN_STATUS, given.value(flags.RUN_STATUS), RunStatus)
    listing = Listing(
        noun="runs",
        find=partial(_find, given.word(0), status),
        as_object=run_object,
        headings=["RUN", "SCHEDULE", "STARTED", "TOOK", "RESULT", "WHY"],
        row=_row,
        shrink=(5, 4, 1),
        usual=20,
    )
    return show_page(given, world, listing)


def _find(selector: str | None, status: RunStatus | None, ledger: Ledger, window: Window) -> list[RunRecord]:
    reader = ledger.opened()
    target, name = selected(reader, selector)
    return reader.runs(
        Filter(
            target=target,
            name=name,
            status=status,
            since=window.since,
            before=window.before,
            limit=window.limit,
            with_declined=status is not None,
        )
    )


def _row(terminal: Terminal, ledger: Ledger, run: RunRecord, *, is_brief: bool) -> list[str]:
    glyph, _, colour = STATUSES[run.status]
    spent = measured_duration(run.spent(ledger.now)) + ("" if run.finished_at else "…")
    error = f": {' '.join(printable(run.error).split())}" if run.error else ""
    again = f"attempt {run.attempt}" if run.attempt > 1 else ""
    why = ", ".join(part for part in (why_words(run.source, run.origin, is_brief=is_brief), again) if part)
    return [
        short_id(run.id),
        printable(run.schedule),
        near_time(run.began_at, ledger.now, ledger.zone),
        spent,
        terminal.style(f"{glyph} {result_word(run)}{error}", colour),
        why,
    ]
