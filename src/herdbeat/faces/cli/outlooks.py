"""Which schedules `herdbeat next` is about, and how they stand: from the ledger, the files, or both."""

from collections.abc import Iterable
from pathlib import Path

from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import StoreUnavailable
from herdbeat.faces.cli.fleets import fits, unknown_in
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.world import World
from herdbeat.service.hints import hint_of
from herdbeat.service.listing import find_named
from herdbeat.service.outlook import Outlook, of_both, of_file, of_record
from herdbeat.store.looking import Look, LookReader

MOST = 1_000_000


def find_outlooks(ledger: Ledger, world: World, selector: str | None) -> list[Outlook]:
    """Raises NotFound, which guesses.

    While a fleet runs, its ledger is all there is to know: files that changed a moment ago, or are broken, are not what
    it runs. Else the files count too, since they are what the next `up` begins with.
    """
    reader = ledger.reader
    if reader is None:
        return _fitting(ledger, [of_file(each, ledger.now) for each in ledger.fleet.schedules], selector)
    try:
        if ledger.holder is not None or not ledger.has_files or not isinstance(ledger.path, Path):
            return _stored(ledger, reader, selector)
        known = reader.find(Look(now=ledger.now, limit=MOST))
        merged = of_both(ledger.fleet.schedules, known, _hints(reader, known, ledger), ledger.now)
    except StoreUnavailable as error:
        if not ledger.has_files:
            raise
        world.terminal.remark(f"{error.message.rstrip('.')}. These are the times of the files alone.")
        merged = [of_file(each, ledger.now) for each in ledger.fleet.schedules]
    return _fitting(ledger, merged, selector)


def _stored(ledger: Ledger, reader: LookReader, selector: str | None) -> list[Outlook]:
    names = () if selector is None else (selector,)
    found = find_named(reader, Look(now=ledger.now, names=names, limit=MOST))
    hints = _hints(reader, found, ledger)
    is_served = ledger.holder is not None
    return [of_record(each, hints.get(each.label, []), ledger.now, is_served=is_served) for each in found]


def _hints(reader: LookReader, records: Iterable[ScheduleRecord], ledger: Ledger) -> dict[str, list[Hint]]:
    """Those that are not over, by schedule."""
    found: dict[str, list[Hint]] = {}
    if reader.has_hints():
        for each in reader.hints([record.id for record in records], ended_since=ledger.now, limit=MOST):
            if each.ended_at is None:
                found.setdefault(each.schedule, []).append(hint_of(each))
    return found


def _fitting(ledger: Ledger, outlooks: list[Outlook], selector: str | None) -> list[Outlook]:
    """All, a target's, those of a pattern, or one `target/schedule`."""
    if selector is None:
        return outlooks
    chosen = [each for each in outlooks if fits(each.id, selector)]
    if not chosen and ledger.fleet.target(selector) is None:
        raise unknown_in(ledger.fleet, selector, (each.label for each in outlooks))
    return chosen
