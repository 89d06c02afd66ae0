"""`herdbeat completion names`: what the shells ask while somebody types. It answers at once or not at all."""

from herdbeat.cli import spec as flags
from herdbeat.cli.config_cache import find_bare_ledger, find_cached_config
from herdbeat.cli.context import Context
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import display_name
from herdbeat.service.queries.schedule_state import resolve_condition

MAX_OFFERED_NAMES = 200
"""Names that are offered: nobody reads more, and who types one letter more gets others."""


def run_completion_names(args: ParsedArgs, context: Context) -> int:
    """A name and its state a line, parted by a tab. Nothing where there is no ledger, or where anything is wrong."""
    for name, state in _matching_names(args, context):
        context.terminal.print(f"{name}\t{state}")
    return 0


def _matching_names(args: ParsedArgs, context: Context) -> list[tuple[str, str]]:
    config = args.value(flags.CONFIG)
    cached = find_cached_config(config, context)
    ledger = find_bare_ledger(config, context) if cached is None else cached.ledger
    if ledger is None:
        return []
    import sqlite3  # noqa: PLC0415 -- only where there is something to ask

    from herdbeat.store.name_lookup import names_with_prefix  # noqa: PLC0415

    try:
        found = names_with_prefix(ledger, args.positional(1) or "", MAX_OFFERED_NAMES)
    except sqlite3.Error:
        return []  # somebody is typing: this is no moment for an error
    now = context.clock.now()
    return [(display_name(each.target, each.name), resolve_condition(each, now).state) for each in found]
