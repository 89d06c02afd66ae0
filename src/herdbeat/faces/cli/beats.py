"""`herdbeat beats`: every due instant and what became of it, the newest first."""

import json

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.ids import from_short_id, short_id
from herdbeat.domain.records import BeatRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import UsageError, shown
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given, guess
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.marks import beat_mark, near_time
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.objects import beat_object, page_object
from herdbeat.service.questions import selected
from herdbeat.store.reader import Filter

_HEADINGS = ["DUE", "SCHEDULE", "OUTCOME", "REASON", "WHY", "RUN"]


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        rows = wanted_rows(given.value(flags.COUNT))
        found = _find(given, ledger, rows)
        cursor = short_id(found[rows - 1].id) if len(found) > rows else None
        if given.has(flags.JSON):
            page = page_object([beat_object(each) for each in found[:rows]], cursor)
            world.terminal.say(json.dumps(page, indent=2, ensure_ascii=False))
        else:
            _show(world.terminal, ledger, found[:rows])
            _remark(world.terminal, ledger, found, cursor)
    return 0


def read_cursor(text: str | None) -> int | None:
    """Where the page before ended."""
    number = from_short_id(text) if text is not None else None
    if text is not None and (number is None or number >= 1 << 62):
        raise UsageError(f'"{shown(text)}" is not a cursor.', hint="Take the next_cursor of the page before.")
    return number


def _find(given: Given, ledger: Ledger, rows: int) -> list[BeatRecord]:
    """One more than asked for, which tells whether there is another page."""
    outcome, since = _outcome(given.value(flags.OUTCOME)), given.value(flags.SINCE)
    start = None if since is None else read_past(since, ledger.now, ledger.zone)
    before = read_cursor(given.value(flags.CURSOR))
    if ledger.reader is None:
        return []
    target, name = selected(ledger.reader, given.word(0))
    wanted = Filter(target=target, name=name, outcome=outcome, since=start, before=before, limit=rows + 1)
    return ledger.reader.beats(wanted)


def _outcome(text: str | None) -> BeatOutcome | None:
    if text is None:
        return None
    try:
        return BeatOutcome(text.lower())
    except ValueError:
        near = guess(text, [each.value for each in BeatOutcome])
        hint = f'Did you mean "{near}"?' if near else f"Write one of {', '.join(BeatOutcome)}."
        raise UsageError(f'--outcome cannot be "{shown(text)}".', hint=hint) from None


def _show(terminal: Terminal, ledger: Ledger, beats: list[BeatRecord]) -> None:
    if not beats:
        return
    rows = [_row(terminal, ledger, each) for each in beats]
    for line in terminal.lines([_HEADINGS, *rows], shrink=(4, 1, 3)):
        terminal.say(line)


def _row(terminal: Terminal, ledger: Ledger, beat: BeatRecord) -> list[str]:
    glyph, colour = beat_mark(beat)
    due = near_time(beat.due_at, ledger.now, ledger.zone)
    if beat.count > 1:
        due += f" to {near_time(beat.last_due_at, ledger.now, ledger.zone)}"
    many = f" x{beat.count}" if beat.count > 1 else ""
    why = f"{beat.source} {beat.origin}".strip()
    runs = " ".join(short_id(run) for run in beat.runs)
    outcome = terminal.style(f"{glyph} {beat.outcome}{many}", colour)
    return [due, printable(beat.schedule), outcome, printable(_reason(beat)), printable(why), runs]


def _reason(beat: BeatRecord) -> str:
    """Of a beat that ran and did not succeed, how it ended: a green tick there would be a lie."""
    has_failed = beat.outcome is BeatOutcome.RAN and beat.last_status not in (None, RunStatus.SUCCEEDED)
    return str(beat.last_status) if has_failed else beat.reason


def _remark(terminal: Terminal, ledger: Ledger, found: list[BeatRecord], cursor: str | None) -> None:
    if cursor is not None:
        terminal.remark(f"There are more: --cursor {cursor}, or a larger -n.")
    elif ledger.reader is None:
        terminal.remark(NEVER)
    elif not found:
        terminal.remark("No beats there.")
