"""`herdbeat list`: all schedules, one line each. From the ledger, or from the files where nothing has ever run."""

import json

from herdbeat.domain.ids import short_id
from herdbeat.durations import format_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.marks import near_time
from herdbeat.faces.cli.state_marks import last_words, next_words, state_words, strip_mark, strip_words, when_words
from herdbeat.faces.cli.terminal import Terminal, printable, width
from herdbeat.faces.cli.world import World
from herdbeat.moments import format_moment
from herdbeat.service.listing import Listed, Listing, list_files, list_schedules
from herdbeat.service.objects import Json, page_object, schedule_object
from herdbeat.store.looking import Look

USUAL = 200
ROOMY = 70
"""Columns from which on there is room for the last beats beside all the words."""

PAGE = 1_000

_HEADINGS = ["SCHEDULE", "WHEN", "STATE", "LAST", "NEXT", "LAST 10"]


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        if given.has(flags.PLAIN):
            return _show_plain(given, world.terminal, ledger)
        listing = _find(given, ledger)
        if given.has(flags.JSON):
            cursor = None if listing.next_after is None else short_id(listing.next_after)
            page = page_object([listed_object(each) for each in listing.rows], cursor)
            world.terminal.say(json.dumps(page, indent=2, ensure_ascii=False))
        else:
            _show(world.terminal, ledger, listing)
        _remark(given, world.terminal, ledger, listing)
    return 0


def _show_plain(given: Given, terminal: Terminal, ledger: Ledger) -> int:
    """All of them, or as many as -n says, page by page: a script reads the first while the last is looked up."""
    wanted = given.value(flags.COUNT)
    left = None if wanted is None else wanted_rows(wanted)
    after = _cursor(given)
    while True:
        listing = _find(given, ledger, after=after, limit=PAGE if left is None else min(left, PAGE))
        for each in listing.rows:
            terminal.say("\t".join(_fields(each)))
        left = None if left is None else left - len(listing.rows)
        after = listing.next_after
        if after is None or left == 0:
            _remark(given, terminal, ledger, listing)
            return 0


def listed_object(each: Listed) -> Json:
    """A schedule as the API gives it."""
    hint = each.hint
    pace = None
    if hint is not None and hint.every is not None:
        pace = {"every": format_duration(hint.every), "origin": hint.origin, "reason": hint.reason}
    strip = [{"beat": short_id(mark.beat), "outcome": mark.outcome, "status": mark.status} for mark in each.strip]
    return {**schedule_object(each.record, each.state), "pace": pace, "recent": strip}


def _find(given: Given, ledger: Ledger, after: int | None = None, limit: int | None = None) -> Listing:
    look = Look(
        now=ledger.now,
        names=given.words,
        tags=given.every_value(flags.TAG),
        groups=given.every_value(flags.GROUP),
        state=given.value(flags.IN_STATE),
        after=after or _cursor(given),
        limit=limit or wanted_rows(given.value(flags.COUNT), USUAL),
    )
    if ledger.reader is not None:
        return list_schedules(ledger.reader, look)
    return list_files(ledger.fleet, look)


def _cursor(given: Given) -> int | None:
    if given.value(flags.CURSOR) is None:
        return None
    from herdbeat.faces.cli.pages import read_cursor  # noqa: PLC0415 -- most lists have one page

    return read_cursor(given.value(flags.CURSOR))


def _show(terminal: Terminal, ledger: Ledger, listing: Listing) -> None:
    if not listing.rows:
        return
    is_roomy = terminal.columns is None or terminal.columns >= ROOMY
    rows = [_HEADINGS, *(_row(terminal, ledger, each) for each in listing.rows)]
    for line in terminal.lines(rows if is_roomy else [row[:-1] for row in rows], shrink=(1, 0)):
        terminal.say(line)
    legend = _legend(listing)
    total = f"{len(listing.rows)} of {listing.total}"
    room = width(legend) + 6 if terminal.columns is None else max(0, terminal.columns - width(total))
    terminal.say(terminal.style(f"{legend:<{room}}{total}" if legend else total, "dim"))


def _row(terminal: Terminal, ledger: Ledger, each: Listed) -> list[str]:
    return [
        printable(each.record.label),
        printable(when_words(each)),
        state_words(terminal, each),
        last_words(each, ledger.now),
        next_words(each, ledger.now, ledger.zone),
        strip_words(terminal, each.strip),
    ]


def _legend(listing: Listing) -> str:
    """Only of the signs that are there."""
    glyphs = {strip_mark(mark)[0] for each in listing.rows for mark in each.strip}
    told = {"–": "– skipped", "·": "· missed"}
    hinted = ["↯ a hint is active, baseline in brackets"] if any(each.hint for each in listing.rows) else []
    return "   ".join([*hinted, *(words for glyph, words in told.items() if glyph in glyphs)])


def _fields(each: Listed) -> list[str]:
    record = each.record
    moments = ["-" if at is None else format_moment(at) for at in (record.last_run_at, each.at)]
    strip = "".join(strip_mark(mark)[0] for mark in each.strip)
    return [printable(record.label), each.state, when_words(each), *moments, str(record.failures), strip or "-"]


def _remark(given: Given, terminal: Terminal, ledger: Ledger, listing: Listing) -> None:
    if listing.next_after is not None and not given.has(flags.JSON):
        terminal.remark(f"There are more: --cursor {short_id(listing.next_after)}, or a larger -n.")
    if not listing.rows:
        wanted = given.value(flags.IN_STATE)
        terminal.remark(f"None of them is {wanted}." if wanted and listing.total else "There are no schedules.")
    if ledger.reader is None:
        terminal.remark(NEVER)
    elif ledger.holder is None:
        node = ledger.reader.last_node()
        since = f" (since {near_time(node.stopped_at or node.seen_at, ledger.now, ledger.zone)})" if node else ""
        terminal.remark(f"scheduler: not running{since}. Nothing starts until: herdbeat up")
