"""`herdbeat beats`: every due instant and what became of it, the newest first."""

from functools import partial

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.ids import short_id
from herdbeat.domain.records import BeatRecord
from herdbeat.domain.run import RunStatus
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import beat_mark, near_time, why_words
from herdbeat.faces.cli.pages import Listing, Window, one_of, show_page
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.objects import beat_object
from herdbeat.service.questions import selected
from herdbeat.store.reader import Filter


def run(given: Given, world: World) -> int:
    outcome = one_of(flags.OUTCOME, given.value(flags.OUTCOME), BeatOutcome)
    listing = Listing(
        noun="beats",
        find=partial(_find, given.word(0), outcome),
        as_object=beat_object,
        headings=["DUE", "SCHEDULE", "OUTCOME", "REASON", "WHY", "RUN"],
        row=_row,
        shrink=(4, 1, 3),
    )
    return show_page(given, world, listing)


def _find(selector: str | None, outcome: BeatOutcome | None, ledger: Ledger, window: Window) -> list[BeatRecord]:
    reader = ledger.opened()
    target, name = selected(reader, selector)
    return reader.beats(
        Filter(target=target, name=name, outcome=outcome, since=window.since, before=window.before, limit=window.limit)
    )


def _row(terminal: Terminal, ledger: Ledger, beat: BeatRecord, *, is_brief: bool) -> list[str]:
    glyph, colour = beat_mark(beat)
    due = near_time(beat.due_at, ledger.now, ledger.zone)
    if beat.count > 1:
        due += f" to {near_time(beat.last_due_at, ledger.now, ledger.zone)}"
    many = f" x{beat.count}" if beat.count > 1 else ""
    why = why_words(beat.source, beat.origin, is_brief=is_brief)
    runs = " ".join(short_id(run) for run in beat.runs)
    outcome = terminal.style(f"{glyph} {beat.outcome}{many}", colour)
    return [due, printable(beat.schedule), outcome, printable(_reason(beat)), why, runs]


def _reason(beat: BeatRecord) -> str:
    """Of a beat that ran and did not succeed, how it ended: a green tick there would be a lie."""
    has_failed = beat.outcome is BeatOutcome.RAN and beat.last_status not in (None, RunStatus.SUCCEEDED)
    return str(beat.last_status) if has_failed else beat.reason
