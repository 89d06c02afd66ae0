"""`herdbeat runs`: what was run, how long it took, how it ended and why it happened. The newest first."""

import json

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import measured_duration
from herdbeat.errors import UsageError, shown
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given, guess
from herdbeat.faces.cli.beats import read_cursor
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger, wanted_rows
from herdbeat.faces.cli.marks import STATUSES, near_time
from herdbeat.faces.cli.past import read_past
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import World
from herdbeat.service.objects import page_object, run_object
from herdbeat.service.questions import selected
from herdbeat.store.reader import Filter

_HEADINGS = ["RUN", "SCHEDULE", "STARTED", "TOOK", "RESULT", "WHY"]


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        rows = wanted_rows(given.value(flags.COUNT), 20)
        found = _find(given, ledger, rows)
        cursor = short_id(found[rows - 1].id) if len(found) > rows else None
        if given.has(flags.JSON):
            page = page_object([run_object(each) for each in found[:rows]], cursor)
            world.terminal.say(json.dumps(page, indent=2, ensure_ascii=False))
        else:
            _show(world.terminal, ledger, found[:rows])
            _remark(world.terminal, ledger, found, cursor)
    return 0


def _find(given: Given, ledger: Ledger, rows: int) -> list[RunRecord]:
    status, since = _status(given.value(flags.RUN_STATUS)), given.value(flags.SINCE)
    start = None if since is None else read_past(since, ledger.now, ledger.zone)
    before = read_cursor(given.value(flags.CURSOR))
    if ledger.reader is None:
        return []
    target, name = selected(ledger.reader, given.word(0))
    wanted = Filter(target=target, name=name, status=status, since=start, before=before, limit=rows + 1)
    return ledger.reader.runs(wanted)


def _status(text: str | None) -> RunStatus | None:
    if text is None:
        return None
    try:
        return RunStatus(text.lower())
    except ValueError:
        near = guess(text, [each.value for each in RunStatus])
        hint = f'Did you mean "{near}"?' if near else f"Write one of {', '.join(RunStatus)}."
        raise UsageError(f'--status cannot be "{shown(text)}".', hint=hint) from None


def _show(terminal: Terminal, ledger: Ledger, runs: list[RunRecord]) -> None:
    if not runs:
        return
    for line in terminal.lines([_HEADINGS, *(_row(terminal, ledger, each) for each in runs)], shrink=(4, 5, 1)):
        terminal.say(line)


def _row(terminal: Terminal, ledger: Ledger, run: RunRecord) -> list[str]:
    glyph, word, colour = STATUSES[run.status]
    start = run.started_at or run.claimed_at
    spent = measured_duration((run.finished_at or ledger.now) - start) + ("" if run.finished_at else "…")
    error = f" {' '.join(printable(run.error).split())}" if run.error else ""
    why = f"{run.source} {run.origin}".strip() + (f", attempt {run.attempt}" if run.attempt > 1 else "")
    return [
        short_id(run.id),
        printable(run.schedule),
        near_time(start, ledger.now, ledger.zone),
        spent,
        terminal.style(f"{glyph} {word}{error}", colour),
        printable(why),
    ]


def _remark(terminal: Terminal, ledger: Ledger, found: list[RunRecord], cursor: str | None) -> None:
    if cursor is not None:
        terminal.remark(f"There are more: --cursor {cursor}, or a larger -n.")
    elif ledger.reader is None:
        terminal.remark(NEVER)
    elif not found:
        terminal.remark("No runs there.")
