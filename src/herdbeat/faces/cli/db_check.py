"""`herdbeat db check`: read the ledger through, and say what is wrong with it."""

import json

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.db_places import require_ledger
from herdbeat.faces.cli.marks import format_count, short_label
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.world import Context
from herdbeat.service.checkup import LedgerInspection, inspect_ledger
from herdbeat.store.places import format_location

EXIT_UNHEALTHY = 6


def run_check(args: ParsedArgs, context: Context) -> int:
    _, place, now = require_ledger(args, context)
    ledger, result = format_location(place), inspect_ledger(place, now)
    if args.has(flags.JSON):
        context.terminal.print(json.dumps({"ledger": ledger, **_check_object(result)}))
    elif result.is_healthy:
        context.terminal.print(f"{context.terminal.style('✓', 'green')} {ledger}   nothing is wrong with it")
    else:
        _show_check(context.terminal, ledger, result)
    return 0 if result.is_healthy else EXIT_UNHEALTHY


def _show_check(terminal: Terminal, ledger: str, result: LedgerInspection) -> None:
    rows = [("damage", "", printable(line)) for line in result.damage]
    rows += [("scan", printable(short_label(subject)), what) for subject, what in result.findings]
    rows += [("quarantine", printable(short_label(label)), printable(why)) for label, why in result.quarantined]
    terminal.print(f"{terminal.style('✗', 'red')} {ledger}   {format_count(len(rows), 'problem')}")
    for line in terminal.format_table(rows, indent="  ", shrink=(1, 2)):
        terminal.print(line)
    if result.damage:
        terminal.info("The file is damaged. Keep it, and restore a backup: herdbeat db restore FILE")
    elif result.findings:
        terminal.info("A fleet that runs mends this by itself within five minutes: herdbeat up")
    if result.quarantined:
        terminal.info("A quarantined schedule rests until it is edited. Its reason says what to change.")


def _check_object(result: LedgerInspection) -> dict[str, object]:
    return {
        "well": result.is_healthy,
        "damage": list(result.damage),
        "findings": [{"subject": subject, "what": what} for subject, what in result.findings],
        "quarantined": [{"schedule": label, "reason": reason} for label, reason in result.quarantined],
    }
